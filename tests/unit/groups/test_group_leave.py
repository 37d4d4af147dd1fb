"""LeaveGroup and static membership: who goes, who may come back unnoticed, who is fenced."""

from __future__ import annotations

import pytest

from nexus.groups import JoinResult, LeavingMember, MemberProtocol
from nexus.wire.errors import ErrorCode
from support.group_driver import SESSION_MS, Driver, dynamic, subscription


def test_a_member_that_leaves_makes_the_others_rebalance() -> None:
    driver = Driver()
    leader, follower = driver.stable_group(None, None)
    assert driver.leave(dynamic(follower)) == [ErrorCode.NONE]
    assert driver.heartbeat(leader) is ErrorCode.REBALANCE_IN_PROGRESS
    rejoined = driver.joined(driver.join(leader.member_id))
    assert rejoined.generation_id == leader.generation_id + 1
    assert len(rejoined.members) == 1


def test_a_leader_that_leaves_is_followed_by_another() -> None:
    driver = Driver()
    leader, follower = driver.stable_group(None, None)
    driver.leave(dynamic(leader))
    rejoined = driver.joined(driver.join(follower.member_id))
    assert rejoined.leader == follower.member_id


def test_the_last_member_leaves_an_empty_group_behind() -> None:
    driver = Driver()
    (leader,) = driver.stable_group(None)
    driver.leave(dynamic(leader))
    assert driver.state() == "Empty"
    driver.restart()
    assert driver.state() == "Empty"


def test_several_members_leave_at_once_each_with_an_answer() -> None:
    driver = Driver()
    one, two = driver.stable_group("host-1", "host-2")
    errors = driver.leave(
        LeavingMember("", "host-1"),
        LeavingMember(two.member_id, "host-2"),
        LeavingMember(one.member_id, "host-1"),
        LeavingMember("", "host-9"),
        LeavingMember("", None),
    )
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert errors == [ErrorCode.NONE, ErrorCode.NONE, unknown, unknown, unknown]
    assert driver.state() == "Empty"


def test_leaving_by_another_members_instance_is_fenced() -> None:
    driver = Driver()
    one, _ = driver.stable_group("host-1", "host-2")
    assert driver.leave(LeavingMember(one.member_id, "host-2")) == [ErrorCode.FENCED_INSTANCE_ID]


def test_an_unused_id_can_leave() -> None:
    driver = Driver()
    handed = driver.joined(driver.join(id_required=True))
    assert driver.leave(dynamic(handed)) == [ErrorCode.NONE]
    assert driver.state() == "Dead"


def test_a_member_that_leaves_while_its_join_waits_is_answered() -> None:
    driver = Driver()
    leader, _ = driver.stable_group(None, None)
    waiting = driver.join(leader.member_id)
    driver.leave(dynamic(leader))
    assert driver.joined(waiting).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_leaving_an_unknown_group_is_refused_for_each_member() -> None:
    driver = Driver()
    assert driver.leave(LeavingMember("m"), group="none") == [ErrorCode.UNKNOWN_MEMBER_ID]


# -- static members


@pytest.fixture
def pair() -> tuple[Driver, JoinResult, JoinResult]:
    driver = Driver()
    leader, follower = driver.stable_group("host-1", "host-2")
    return driver, leader, follower


Pair = tuple[Driver, JoinResult, JoinResult]


def test_a_static_member_comes_back_without_a_rebalance(pair: Pair) -> None:
    driver, leader, follower = pair
    before = driver.synced(driver.sync(follower)).assignment
    back = driver.joined(driver.join(instance="host-2"))
    assert back.error is ErrorCode.NONE
    assert back.generation_id == leader.generation_id
    assert back.member_id != follower.member_id
    assert driver.synced(driver.sync(back, instance="host-2")).assignment == before
    assert driver.heartbeat(leader) is ErrorCode.NONE


def test_a_static_member_that_was_replaced_is_fenced(pair: Pair) -> None:
    driver, _, follower = pair
    back = driver.joined(driver.join(instance="host-2"))
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert driver.heartbeat(follower, instance="host-2") is fenced
    assert driver.synced(driver.sync(follower, instance="host-2")).error is fenced
    late = driver.send_commit(5, joined=follower, instance="host-2")
    assert driver.commit_error(late) is fenced
    assert driver.joined(driver.join(follower.member_id, instance="host-2")).error is fenced
    assert driver.heartbeat(back, instance="host-2") is ErrorCode.NONE


def test_a_static_leader_comes_back_and_does_not_assign_anew(pair: Pair) -> None:
    driver, leader, _ = pair
    back = driver.joined(driver.join(instance="host-1"))
    assert back.generation_id == leader.generation_id
    assert back.leader == leader.member_id != back.member_id
    assert back.members == ()
    assert driver.synced(driver.sync(back)).error is ErrorCode.NONE


def test_a_newer_static_leader_is_told_to_skip_the_assignment(pair: Pair) -> None:
    driver, _, _ = pair
    back = driver.joined(driver.join(instance="host-1", skip_assignment=True))
    assert back.skip_assignment
    assert back.leader == back.member_id
    assert len(back.members) == 2


def test_a_static_member_is_told_its_new_id_only_once_it_is_stored(pair: Pair) -> None:
    driver, _, _ = pair
    driver.hold_stores = True
    back = driver.join(instance="host-2")
    assert back not in driver.replies
    driver.finish_stores()
    member_id = driver.joined(back).member_id
    driver.restart()
    here = JoinResult(ErrorCode.NONE, member_id, driver.joined(back).generation_id)
    assert driver.heartbeat(here, instance="host-2") is ErrorCode.NONE


def test_a_static_member_whose_new_id_cannot_be_stored_may_try_again(pair: Pair) -> None:
    driver, _, _ = pair
    driver.hold_stores = True
    back = driver.join(instance="host-2")
    driver.finish_store(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert driver.joined(back).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.hold_stores = False
    assert driver.joined(driver.join(instance="host-2")).error is ErrorCode.NONE


def test_two_rapid_restarts_of_a_static_member_leave_the_last_one(pair: Pair) -> None:
    driver, _, _ = pair
    driver.hold_stores = True
    first, second = driver.join(instance="host-2"), driver.join(instance="host-2")
    assert driver.joined(first).error is ErrorCode.FENCED_INSTANCE_ID
    driver.finish_store()
    assert second not in driver.replies
    driver.finish_stores()
    assert driver.joined(second).error is ErrorCode.NONE


def test_a_static_member_that_restarts_while_others_rebalance_joins_them(pair: Pair) -> None:
    driver, leader, _ = pair
    driver.hold_stores = True
    back = driver.join(instance="host-2")
    rejoin = driver.join(leader.member_id, instance="host-1")
    driver.finish_stores()
    assert driver.joined(back).generation_id == driver.joined(rejoin).generation_id
    assert driver.joined(back).generation_id == leader.generation_id + 1


def test_a_static_member_that_restarts_before_a_rebalance_waits_for_its_end() -> None:
    driver = Driver()
    leader, _, third = driver.stable_group("host-1", "host-2", None)
    driver.hold_stores = True
    back = driver.join(instance="host-2")
    driver.join(leader.member_id, instance="host-1")
    driver.finish_stores()
    assert back not in driver.replies
    driver.join(third.member_id)
    assert driver.joined(back).generation_id == leader.generation_id + 1


def test_a_static_leader_that_is_away_leaves_the_lead_to_one_who_is_here() -> None:
    driver = Driver()
    leader, follower = driver.stable_group("host-1", None)
    driver.leave(dynamic(follower))
    newcomer = driver.join(rebalance_ms=1_000)
    for _ in range(12):
        driver.heartbeat(leader, instance="host-1")
        driver.pass_ms(5_000)
    assert driver.joined(newcomer).leader == driver.joined(newcomer).member_id
    assert len(driver.joined(newcomer).members) == 2


def test_a_static_member_that_restarts_while_completing_makes_all_start_over() -> None:
    driver = Driver()
    first = driver.joined(driver.join(instance="host-1"))
    driver.hold_stores = True
    waiting = driver.sync(first)
    back = driver.join(instance="host-1")
    assert driver.synced(waiting).error is ErrorCode.FENCED_INSTANCE_ID
    assert driver.joined(back).generation_id == first.generation_id + 1


def test_a_static_member_whose_wishes_change_the_protocol_forces_a_rebalance() -> None:
    driver = Driver()
    both = (MemberProtocol("range", b"r"), MemberProtocol("sticky", b"s"))
    joined = driver.joined(driver.join(instance="host-1", protocols=both))
    driver.sync(joined, {})
    assert driver.state() == "Stable"
    back = driver.joined(driver.join(instance="host-1", protocols=both[::-1]))
    assert back.generation_id == joined.generation_id + 1
    assert back.protocol_name == "sticky"


def test_a_static_member_that_is_away_keeps_its_place_through_a_rebalance() -> None:
    driver = Driver()

    def join(instance: str, member_id: str = "") -> int:
        return driver.join(member_id, instance=instance, session_ms=120_000, rebalance_ms=20_000)

    ids = [driver.member_id_of(join(instance)) for instance in ("host-1", "host-2")]
    driver.sync(driver.joined(join("host-1", ids[0])), {})
    rejoin = join("host-1", ids[0])
    driver.pass_ms(20_000)
    assert sorted(m.member_id for m in driver.joined(rejoin).members) == sorted(ids)
    driver.sync(driver.joined(rejoin), {ids[1]: b"kept"})
    driver.pass_ms(60_000)
    back = driver.joined(join("host-2"))
    assert driver.synced(driver.sync(back)).assignment == b"kept"


def test_a_static_member_that_stays_away_is_out_after_its_session(pair: Pair) -> None:
    driver, leader, follower = pair
    driver.pass_ms(SESSION_MS - 1)
    driver.heartbeat(leader)
    driver.pass_ms(1)
    assert driver.heartbeat(follower, instance="host-2") is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.heartbeat(leader) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_rebalance_of_static_members_that_never_return_ends_empty(pair: Pair) -> None:
    driver, leader, _ = pair
    waiting = driver.join(leader.member_id, instance="host-1")
    driver.leave(LeavingMember("", "host-1"))
    assert driver.joined(waiting).error is ErrorCode.UNKNOWN_MEMBER_ID
    driver.pass_ms(SESSION_MS)
    assert driver.state() == "Empty"


def test_a_rebalance_that_no_static_member_came_to_waits_for_one() -> None:
    driver = Driver()
    ids = []
    for instance in ("host-1", "host-2"):
        token = driver.join(instance=instance, session_ms=60_000, rebalance_ms=10_000)
        ids.append(driver.member_id_of(token))
    driver.leave(LeavingMember("", "host-1"))
    token = driver.join(ids[1], instance="host-2", session_ms=60_000, rebalance_ms=10_000)
    alone = driver.joined(token)
    driver.sync(alone, {alone.member_id: b"all"})
    newcomer = driver.join()
    driver.pass_ms(1_000)
    driver.leave(LeavingMember(driver.member_id_of(newcomer)))
    driver.pass_ms(20_000)
    assert driver.state() == "PreparingRebalance"
    again = driver.join(alone.member_id, instance="host-2")
    assert driver.joined(again).generation_id == alone.generation_id + 1


def test_a_static_member_that_comes_back_for_other_topics_forces_a_rebalance(pair: Pair) -> None:
    driver, leader, _ = pair
    more = (MemberProtocol("range", subscription("t", "u")),)
    back = driver.join(instance="host-2", protocols=more)
    rejoin = driver.joined(driver.join(leader.member_id, instance="host-1"))
    assert rejoin.generation_id == driver.joined(back).generation_id == leader.generation_id + 1
