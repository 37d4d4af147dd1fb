"""The coordinator as a whole: placement, loading, closing, and what operators see."""

from __future__ import annotations

import pytest

from nexus.groups import (
    FetchOffsetsRequest,
    GroupConfig,
    GroupListing,
    LeavingMember,
    MemberProtocol,
    SyncResult,
    partition_for,
)
from nexus.groups.records import encode_group_key, encode_offset_key
from nexus.wire.errors import ErrorCode
from support.group_driver import GROUP, SESSION_MS, Driver, dynamic, subscription


@pytest.mark.parametrize(
    ("group_id", "java_hash"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99_162_322),
        ("polygenelubricants", 0),  # Integer.MIN_VALUE, whose sign bit is masked away
        ("\N{GRINNING FACE}", 1_772_899),
    ],
)
def test_a_groups_partition_is_javas_hash_of_its_name(group_id: str, java_hash: int) -> None:
    for count in (1, 16, 50):
        assert partition_for(group_id, count) == java_hash % count


# -- loading


def test_nothing_is_served_before_all_is_loaded() -> None:
    driver = Driver(load=False)
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert driver.joined(driver.join()).error is loading
    assert driver.commit(1) is loading
    coordinator = driver.coordinator
    assert coordinator.fetch_offsets(FetchOffsetsRequest(GROUP)).error is loading
    assert coordinator.list_groups() == (loading, [])
    assert coordinator.describe_group(GROUP).error is loading


def test_a_stable_group_goes_on_after_a_restart() -> None:
    driver = Driver()
    leader, follower = driver.stable_group(None, None)
    before = driver.synced(driver.sync(follower))
    driver.commit(9, joined=leader)
    driver.restart()
    assert driver.state() == "Stable"
    assert driver.heartbeat(leader) is ErrorCode.NONE
    assert driver.synced(driver.sync(follower)) == before
    assert driver.committed() == 9
    assert driver.commit(10, joined=follower) is ErrorCode.NONE


def test_members_get_a_fresh_session_after_a_restart() -> None:
    driver = Driver()
    (leader,) = driver.stable_group(None)
    driver.pass_ms(SESSION_MS - 1)
    driver.restart()
    driver.pass_ms(SESSION_MS - 1)
    assert driver.heartbeat(leader) is ErrorCode.NONE
    driver.restart()
    driver.pass_ms(SESSION_MS)
    assert driver.state() == "Empty"


def test_the_generation_goes_on_counting_after_a_restart() -> None:
    driver = Driver()
    (leader,) = driver.stable_group(None)
    driver.leave(dynamic(leader))
    driver.restart()
    assert driver.joined(driver.join()).generation_id > leader.generation_id + 1


def test_the_last_generation_of_all_is_followed_by_the_first() -> None:
    driver = Driver()
    (leader,) = driver.stable_group(None)
    key, value = driver.log[-1]
    assert value is not None
    head = 4 + len("consumer")
    driver.log[-1] = key, value[:head] + (2**31 - 1).to_bytes(4, "big") + value[head + 4 :]
    driver.restart()
    assert driver.joined(driver.join(leader.member_id)).generation_id == 1


def test_a_static_members_name_survives_a_restart() -> None:
    driver = Driver()
    driver.stable_group("host-1", "host-2")
    driver.restart()
    assert driver.joined(driver.join(instance="host-2")).error is ErrorCode.NONE
    assert driver.state() == "Stable"


def test_a_loaded_group_that_is_too_big_must_rebalance() -> None:
    driver = Driver()
    members = driver.stable_group(None, None, None)
    driver.config = GroupConfig(group_size_max=2)
    driver.restart()
    assert driver.state() == "PreparingRebalance"
    tokens = [driver.join(member.member_id) for member in members]
    errors = [driver.joined(token).error for token in tokens]
    assert errors == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.GROUP_MAX_SIZE_REACHED]


def test_records_that_cannot_be_read_are_counted_and_passed_over() -> None:
    driver = Driver()
    driver.commit(5)
    driver.log += [
        (b"", b"x"),
        (b"\0\7unknown", None),
        (encode_offset_key(GROUP, "t", 0), b"\0\3short"),
        (encode_group_key(GROUP), b"\0\x63"),
    ]
    driver.restart()
    assert driver.coordinator.skipped_records == 4
    assert driver.committed() == 5


def test_a_record_without_a_key_is_passed_over() -> None:
    driver = Driver(load=False)
    driver.coordinator.load([(None, b"value")])
    driver.run(driver.coordinator.loaded(driver.now_ms))
    assert driver.coordinator.skipped_records == 1


# -- closing


def test_closing_answers_everyone_who_waits() -> None:
    driver = Driver()
    leader, _ = driver.stable_group(None, None)
    joining = driver.join(leader.member_id)
    other = driver.joined(driver.join(group="other"))
    driver.hold_stores = True
    syncing = driver.sync(other, {}, group="other")
    committing = driver.send_commit(1, group="third")
    driver.run(driver.coordinator.close())
    gone = ErrorCode.NOT_COORDINATOR
    assert driver.joined(joining).error is gone
    assert driver.replies[syncing] == SyncResult(gone)
    assert driver.commit_error(committing) is gone
    assert driver.coordinator.next_deadline_ms() is None


def test_a_store_that_ends_after_closing_changes_nothing() -> None:
    driver = Driver()
    driver.hold_stores = True
    driver.send_commit(1)
    driver.run(driver.coordinator.close())
    driver.finish_stores()
    assert driver.commit(2) is ErrorCode.NOT_COORDINATOR


def test_an_unknown_store_is_ignored() -> None:
    driver = Driver()
    assert driver.coordinator.stored(99, ErrorCode.NONE, driver.now_ms) == []


# -- what operators see


def test_groups_are_listed_by_state() -> None:
    driver = Driver()
    driver.stable_group(None)
    driver.commit(1, group="simple")
    everything = driver.coordinator.list_groups()[1]
    assert {g.group_id for g in everything} == {GROUP, "simple"}
    stable = driver.coordinator.list_groups(["stable"])[1]
    assert stable == [GroupListing(GROUP, "consumer", "Stable")]
    assert driver.coordinator.list_groups(["Dead"])[1] == []


def test_a_stable_group_is_described_with_its_assignment() -> None:
    driver = Driver()
    (leader,) = driver.stable_group("host-1")
    described = driver.coordinator.describe_group(GROUP)
    assert (described.state, described.protocol_type) == ("Stable", "consumer")
    assert described.protocol == "range"
    (member,) = described.members
    assert member.member_id == leader.member_id
    assert (member.group_instance_id, member.client_id) == ("host-1", "client")
    assert (member.metadata, member.assignment) == (subscription("t"), b"share 0")


def test_a_group_in_motion_is_described_without_assignments() -> None:
    driver = Driver()
    driver.join(protocols=(MemberProtocol("range", b"r"),))
    described = driver.coordinator.describe_group(GROUP)
    assert (described.state, described.protocol) == ("CompletingRebalance", "")
    assert (described.members[0].metadata, described.members[0].assignment) == (b"", b"")


def test_an_unknown_group_is_described_as_dead() -> None:
    described = Driver().coordinator.describe_group("nobody")
    assert (described.error, described.state) == (ErrorCode.NONE, "Dead")


def test_an_odd_request_is_an_answer_and_not_a_crash() -> None:
    driver = Driver()
    driver.stable_group(None)
    assert (
        driver.leave(LeavingMember("", ""), LeavingMember("\0" * 40_000))
        == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    )
    long = driver.join("x" * 40_000, instance="y")
    assert driver.joined(long).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_long_client_name_does_not_break_the_record() -> None:
    driver = Driver()
    joined = driver.joined(driver.join(instance="n" * 1_024))
    driver.sync(joined, {joined.member_id: b"a"})
    driver.restart()
    assert driver.state() == "Stable"
