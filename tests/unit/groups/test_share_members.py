"""Who is in a share group: everyone reads something, and who falls silent is gone."""

from __future__ import annotations

from nexus.groups.share_members import SESSION_TIMEOUT_MS, Beat, ShareGroups
from nexus.wire.errors import ErrorCode

TOPICS = {"t": 4, "u": 1}


def partitions_of(topic: str) -> int:
    return TOPICS.get(topic, 0)


def beat(
    groups: ShareGroups,
    member: str,
    epoch: int = 0,
    topics: tuple[str, ...] | None = ("t",),
    now: int = 0,
) -> tuple[ErrorCode, int, dict[str, tuple[int, ...]] | None]:
    return tuple(groups.beat(Beat("g", member, epoch, topics), partitions_of, now))  # type: ignore[return-value]


def test_one_member_reads_everything() -> None:
    groups = ShareGroups()
    assert beat(groups, "a", topics=("t", "u", "missing")) == (
        ErrorCode.NONE,
        1,
        {"t": (0, 1, 2, 3), "u": (0,)},
    )
    assert beat(groups, "a", 1, None) == (ErrorCode.NONE, 1, None)


def test_members_share_evenly_and_learn_of_each_other() -> None:
    groups = ShareGroups()
    beat(groups, "a")
    assert beat(groups, "b")[1:] == (2, {"t": (1, 3)})
    assert beat(groups, "a", 1, None)[1:] == (2, {"t": (0, 2)})
    assert beat(groups, "a", 2, None)[1:] == (2, None)


def test_with_more_members_than_partitions_each_still_reads_one() -> None:
    groups = ShareGroups()
    for member in "abc":
        assigned = beat(groups, member, topics=("u",))[2]
        assert assigned == {"u": (0,)}


def test_who_leaves_or_falls_silent_gives_its_part_to_the_others() -> None:
    groups = ShareGroups()
    beat(groups, "a")
    beat(groups, "b")
    assert beat(groups, "b", -1)[:2] == (ErrorCode.NONE, -1)
    assert beat(groups, "a", 2, None)[2] == {"t": (0, 1, 2, 3)}
    beat(groups, "c", now=SESSION_TIMEOUT_MS - 1)
    assert beat(groups, "c", 4, None, now=SESSION_TIMEOUT_MS)[2] == {"t": (0, 1, 2, 3)}
    assert beat(groups, "a", 4, None, now=SESSION_TIMEOUT_MS)[0] == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_topic_that_grows_is_noticed() -> None:
    groups, counts = ShareGroups(), {"t": 1}
    first = groups.beat(Beat("g", "a", 0, ("t",)), lambda topic: counts[topic], 0)
    assert first.assigned == {"t": (0,)}
    counts["t"] = 2
    again = groups.beat(Beat("g", "a", 1, None), lambda topic: counts[topic], 1)
    assert again.assigned == {"t": (0, 1)}


def test_what_makes_no_sense_is_refused() -> None:
    groups = ShareGroups()
    assert beat(groups, "")[0] == ErrorCode.INVALID_REQUEST
    assert beat(groups, "a", topics=None)[0] == ErrorCode.INVALID_REQUEST
    assert beat(groups, "a", 1)[0] == ErrorCode.UNKNOWN_MEMBER_ID
    assert beat(groups, "a", -1)[0] == ErrorCode.UNKNOWN_MEMBER_ID
    beat(groups, "a")
    assert beat(groups, "a", 9)[0] == ErrorCode.FENCED_MEMBER_EPOCH
