"""JoinGroup: ids, protocols, limits, and how a generation comes to be."""

from __future__ import annotations

import pytest

from nexus.groups import GroupConfig, MemberProtocol
from nexus.wire.errors import ErrorCode
from support.group_driver import GROUP, REBALANCE_MS, SESSION_MS, Driver

RANGE = MemberProtocol("range", b"r")
STICKY = MemberProtocol("sticky", b"s")
ROBIN = MemberProtocol("roundrobin", b"o")


def test_a_first_member_leads_its_own_generation() -> None:
    driver = Driver()
    result = driver.joined(driver.join())
    assert result.error is ErrorCode.NONE
    assert result.generation_id == 1
    assert result.leader == result.member_id
    assert [m.member_id for m in result.members] == [result.member_id]
    assert (result.protocol_type, result.protocol_name) == ("consumer", "range")


def test_only_the_leader_is_told_the_members() -> None:
    driver = Driver()
    leader, follower = driver.stable_group(None, None)
    assert len(leader.members) == 2
    assert follower.members == ()
    assert follower.leader == leader.member_id


def test_a_new_member_is_handed_an_id_to_come_back_with() -> None:
    driver = Driver()
    refused = driver.joined(driver.join(id_required=True))
    assert refused.error is ErrorCode.MEMBER_ID_REQUIRED
    assert refused.member_id.startswith("client-")
    assert driver.joined(driver.join(refused.member_id, id_required=True)).error is ErrorCode.NONE


def test_a_static_member_needs_no_second_round_for_its_id() -> None:
    driver = Driver()
    result = driver.joined(driver.join(instance="host-1", id_required=True))
    assert result.error is ErrorCode.NONE
    assert result.member_id.startswith("host-1-")


def test_an_id_that_was_handed_out_expires_after_a_session() -> None:
    driver = Driver()
    handed = driver.joined(driver.join(id_required=True)).member_id
    driver.pass_ms(SESSION_MS)
    assert driver.joined(driver.join(handed)).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_that_came_to_nothing_leaves_no_trace() -> None:
    driver = Driver()
    driver.join(id_required=True)
    assert driver.state() == "Empty"
    driver.pass_ms(SESSION_MS)
    assert driver.state() == "Dead"
    assert driver.log == []


def test_a_rebalance_waits_for_an_id_that_was_handed_out() -> None:
    driver = Driver()
    (leader,) = driver.stable_group(None)
    handed = driver.joined(driver.join(id_required=True)).member_id
    rejoin = driver.join(leader.member_id)
    assert rejoin not in driver.replies
    newcomer = driver.join(handed)
    assert driver.joined(rejoin).generation_id == driver.joined(newcomer).generation_id == 2


def test_a_rebalance_goes_on_once_a_handed_out_id_expires() -> None:
    driver = Driver()
    (leader,) = driver.stable_group(None)
    driver.join(id_required=True)
    rejoin = driver.join(leader.member_id)
    driver.pass_ms(SESSION_MS)
    assert driver.joined(rejoin).error is ErrorCode.NONE


def test_an_unknown_member_id_is_refused() -> None:
    driver = Driver()
    assert driver.joined(driver.join("nobody")).error is ErrorCode.UNKNOWN_MEMBER_ID
    driver.stable_group(None)
    assert driver.joined(driver.join("nobody")).error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("session_ms", [0, 5_999, 1_800_001, -1])
def test_a_session_timeout_out_of_bounds_is_refused(session_ms: int) -> None:
    driver = Driver()
    result = driver.joined(driver.join(session_ms=session_ms))
    assert result.error is ErrorCode.INVALID_SESSION_TIMEOUT


def test_a_group_needs_a_name_of_decent_length() -> None:
    driver = Driver()
    for name in ("", "g" * 1_025):
        assert driver.joined(driver.join(group=name)).error is ErrorCode.INVALID_GROUP_ID


def test_a_member_without_protocols_is_refused() -> None:
    driver = Driver()
    for token in (driver.join(protocols=()), driver.join(kind="")):
        assert driver.joined(token).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert driver.state() == "Dead"


def test_a_member_with_another_protocol_type_is_refused() -> None:
    driver = Driver()
    driver.stable_group(None)
    other = driver.joined(driver.join(kind="connect"))
    assert other.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_member_without_a_common_protocol_is_refused() -> None:
    driver = Driver()
    driver.join(protocols=(RANGE,))
    other = driver.joined(driver.join(protocols=(STICKY,)))
    assert other.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_common_protocol_with_most_votes_is_chosen() -> None:
    driver = Driver()
    offers = [(RANGE, STICKY, ROBIN), (STICKY, ROBIN, RANGE), (STICKY, RANGE)]
    tokens = [driver.join(protocols=offer) for offer in offers]
    ids = [driver.member_id_of(token) for token in tokens[:1]]
    last = driver.join(ids[0], protocols=offers[0])
    results = [driver.joined(token) for token in (*tokens[1:], last)]
    assert {r.protocol_name for r in results} == {"sticky"}
    leader = next(r for r in results if r.members)
    assert {m.metadata for m in leader.members} == {b"s"}


def test_a_full_group_turns_newcomers_away() -> None:
    driver = Driver(GroupConfig(group_size_max=2))
    driver.stable_group(None, None)
    assert driver.joined(driver.join()).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.state() == "Stable"


def test_a_full_group_takes_a_static_member_back() -> None:
    driver = Driver(GroupConfig(group_size_max=1))
    driver.stable_group("host-1")
    assert driver.joined(driver.join(instance="host-1")).error is ErrorCode.NONE


def test_handed_out_ids_are_bounded() -> None:
    driver = Driver(GroupConfig(group_size_max=2))
    answers = [driver.joined(driver.join(id_required=True)).error for _ in range(3)]
    assert answers[-1] is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_groups_are_bounded() -> None:
    driver = Driver(GroupConfig(groups_max=1))
    driver.join(group="a")
    assert driver.joined(driver.join(group="b")).error is ErrorCode.POLICY_VIOLATION
    assert driver.commit(1, group="c") is ErrorCode.POLICY_VIOLATION


def test_member_metadata_is_bounded() -> None:
    config = GroupConfig(member_metadata_bytes_max=100, group_metadata_bytes_max=150)
    driver = Driver(config)
    too_big = driver.join(protocols=(MemberProtocol("range", b"x" * 100),))
    assert driver.joined(too_big).error is ErrorCode.INVALID_REQUEST
    big = (MemberProtocol("range", b"x" * 80),)
    assert driver.joined(driver.join(protocols=big)).error is ErrorCode.NONE
    second = driver.joined(driver.join(protocols=big))
    assert second.error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_an_absurd_name_is_refused() -> None:
    driver = Driver()
    for token in (driver.join(instance="i" * 2_000), driver.join(kind="k" * 2_000)):
        assert driver.joined(token).error is ErrorCode.INVALID_REQUEST


def test_the_first_rebalance_waits_for_more_members() -> None:
    driver = Driver(GroupConfig(initial_rebalance_delay_ms=3_000))
    first, second = driver.join(), driver.join()
    assert driver.replies == {}
    driver.pass_ms(2_999)
    assert driver.replies == {}
    driver.pass_ms(3_001)
    assert driver.joined(first).generation_id == driver.joined(second).generation_id == 1


def test_a_newcomer_extends_the_first_wait_up_to_the_rebalance_timeout() -> None:
    driver = Driver(GroupConfig(initial_rebalance_delay_ms=3_000))
    tokens = [driver.join(rebalance_ms=7_000)]
    driver.pass_ms(2_000)
    tokens.append(driver.join(rebalance_ms=7_000))
    driver.pass_ms(2_000)
    tokens.append(driver.join(rebalance_ms=7_000))
    assert driver.replies == {}
    driver.pass_ms(3_000)
    assert {driver.joined(token).generation_id for token in tokens} == {1}


def test_who_does_not_rejoin_in_time_is_out() -> None:
    driver = Driver()
    leader, follower = driver.stable_group(None, None)
    rejoin = driver.join(leader.member_id)
    for _ in range(REBALANCE_MS // 5_000):
        assert driver.heartbeat(follower) is ErrorCode.REBALANCE_IN_PROGRESS
        driver.pass_ms(5_000)
    assert [m.member_id for m in driver.joined(rejoin).members] == [leader.member_id]
    assert driver.heartbeat(follower) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_follower_that_missed_its_answer_is_told_the_same_generation() -> None:
    driver = Driver()
    leader, follower = driver.stable_group(None, None)
    again = driver.joined(driver.join(follower.member_id))
    assert again.generation_id == leader.generation_id
    assert driver.state() == "Stable"


def test_a_rejoin_while_completing_is_told_the_same_generation() -> None:
    driver = Driver()
    first = driver.joined(driver.join())
    assert driver.joined(driver.join(first.member_id)) == first


def test_a_leader_that_rejoins_forces_a_rebalance() -> None:
    driver = Driver()
    leader, follower = driver.stable_group(None, None)
    driver.join(leader.member_id)
    assert driver.state() == "PreparingRebalance"
    assert driver.heartbeat(follower) is ErrorCode.REBALANCE_IN_PROGRESS


def test_changed_metadata_forces_a_rebalance() -> None:
    driver = Driver()
    _, follower = driver.stable_group(None, None)
    driver.join(follower.member_id, protocols=(MemberProtocol("range", b"other"),))
    assert driver.state() == "PreparingRebalance"


def test_a_join_sent_twice_is_answered_twice() -> None:
    driver = Driver()
    leader, _ = driver.stable_group(None, None)
    first = driver.join(leader.member_id)
    second = driver.join(leader.member_id)
    assert driver.joined(first).error is ErrorCode.REBALANCE_IN_PROGRESS
    driver.pass_ms(REBALANCE_MS)
    assert driver.joined(second).error is ErrorCode.NONE


def test_a_new_member_that_waits_too_long_is_told_to_start_over() -> None:
    driver = Driver(GroupConfig(new_member_timeout_ms=20_000))
    (leader,) = driver.stable_group(None)
    newcomer = driver.join()
    for _ in range(4):
        driver.heartbeat(leader)
        driver.pass_ms(5_000)
    assert driver.joined(newcomer).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_rebalance_timeout_of_an_old_client_is_its_session_timeout() -> None:
    driver = Driver()
    leader, _ = driver.stable_group(None, None)
    ids = [m.member_id for m in driver.coordinator.describe_group(GROUP).members]
    for member_id in ids:
        driver.join(member_id, rebalance_ms=-1)
    rejoin = driver.join(leader.member_id, rebalance_ms=-1)
    driver.pass_ms(SESSION_MS)
    assert driver.joined(rejoin).error is ErrorCode.NONE
