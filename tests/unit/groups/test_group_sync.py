"""SyncGroup and Heartbeat: how members learn their assignment and that they must rejoin."""

from __future__ import annotations

from nexus.groups import JoinResult, MemberProtocol
from nexus.wire.errors import ErrorCode
from support.group_driver import REBALANCE_MS, SESSION_MS, Driver, dynamic, subscription


def two_joined(driver: Driver) -> tuple[JoinResult, JoinResult]:
    """A leader and a follower of one generation that has no assignment yet."""
    first = driver.joined(driver.join())
    second = driver.join()
    leader = driver.joined(driver.join(first.member_id))
    return leader, driver.joined(second)


def shares(*joins: JoinResult) -> dict[str, bytes]:
    return {join.member_id: join.member_id.encode() for join in joins}


def test_followers_wait_for_the_leader() -> None:
    driver = Driver()
    leader, follower = two_joined(driver)
    early = driver.sync(follower)
    assert early not in driver.replies
    mine = driver.sync(leader, shares(leader, follower))
    assert driver.synced(mine).assignment == leader.member_id.encode()
    assert driver.synced(early).assignment == follower.member_id.encode()
    assert driver.state() == "Stable"


def test_an_assignment_is_told_only_once_it_is_stored() -> None:
    driver = Driver()
    leader, follower = two_joined(driver)
    driver.hold_stores = True
    tokens = [driver.sync(leader, shares(leader, follower)), driver.sync(follower)]
    assert not set(tokens) & set(driver.replies)
    assert driver.state() == "CompletingRebalance"
    driver.finish_stores()
    assert [driver.synced(token).error for token in tokens] == [ErrorCode.NONE] * 2


def test_an_assignment_that_cannot_be_stored_starts_a_new_rebalance() -> None:
    driver = Driver()
    leader, follower = two_joined(driver)
    driver.hold_stores = True
    tokens = [driver.sync(leader, shares(leader, follower)), driver.sync(follower)]
    driver.finish_store(ErrorCode.KAFKA_STORAGE_ERROR)
    assert {driver.synced(token).error for token in tokens} == {ErrorCode.NOT_COORDINATOR}
    assert driver.state() == "PreparingRebalance"


def test_a_store_that_comes_too_late_is_no_assignment() -> None:
    driver = Driver()
    leader, follower = two_joined(driver)
    driver.hold_stores = True
    late = driver.sync(leader, shares(leader, follower))
    driver.join()
    assert driver.synced(late).error is ErrorCode.REBALANCE_IN_PROGRESS
    driver.finish_stores()
    assert driver.state() == "PreparingRebalance"


def test_an_assignment_of_an_older_generation_is_none_of_the_newer() -> None:
    driver = Driver()
    leader, follower = two_joined(driver)
    driver.hold_stores = True
    driver.sync(leader, {leader.member_id: b"old"})
    driver.leave(dynamic(follower))
    again = driver.joined(driver.join(leader.member_id))
    waiting = driver.sync(again, {leader.member_id: b"new"})
    driver.finish_store()
    assert waiting not in driver.replies
    driver.finish_store()
    assert driver.synced(waiting).assignment == b"new"


def test_a_member_removed_while_it_waits_for_its_assignment_is_answered() -> None:
    driver = Driver()
    _, follower = two_joined(driver)
    waiting = driver.sync(follower)
    driver.leave(dynamic(follower))
    assert driver.synced(waiting).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leader_that_syncs_twice_is_taken_at_its_first_word() -> None:
    driver = Driver()
    leader, _ = two_joined(driver)
    driver.hold_stores = True
    first = driver.sync(leader, {leader.member_id: b"first"})
    second = driver.sync(leader, {leader.member_id: b"second"})
    assert len(driver.held) == 1
    driver.finish_stores()
    assert driver.synced(first).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.synced(second).assignment == b"first"


def test_a_member_that_the_leader_forgot_gets_nothing() -> None:
    driver = Driver()
    leader, follower = two_joined(driver)
    driver.sync(leader, {leader.member_id: b"all", "stranger": b"some"})
    assert driver.synced(driver.sync(follower)).assignment == b""


def test_a_stable_group_tells_the_assignment_again() -> None:
    driver = Driver()
    _, follower = driver.stable_group(None, None)
    assert driver.synced(driver.sync(follower)).assignment.startswith(b"share")


def test_a_sync_must_name_the_protocols_of_its_generation() -> None:
    driver = Driver()
    leader, _ = two_joined(driver)
    for token in (
        driver.sync(leader, {}, kind="connect"),
        driver.sync(leader, {}, kind="consumer", protocol="sticky"),
    ):
        assert driver.synced(token).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    right = driver.sync(leader, {}, kind="consumer", protocol="range")
    assert driver.synced(right).protocol_name == "range"


def test_a_sync_of_another_generation_is_refused() -> None:
    driver = Driver()
    leader, _ = driver.stable_group(None, None)
    old = JoinResult(ErrorCode.NONE, leader.member_id, leader.generation_id - 1)
    assert driver.synced(driver.sync(old)).error is ErrorCode.ILLEGAL_GENERATION


def test_a_sync_while_preparing_is_told_to_rejoin() -> None:
    driver = Driver()
    leader, _ = driver.stable_group(None, None)
    driver.join()
    assert driver.synced(driver.sync(leader)).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_who_does_not_sync_in_time_is_out() -> None:
    driver = Driver()
    leader, follower = two_joined(driver)
    waiting = driver.sync(follower)
    for _ in range(REBALANCE_MS // 5_000):
        driver.heartbeat(leader)
        driver.pass_ms(5_000)
    assert driver.synced(waiting).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.heartbeat(leader) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_follower_that_never_syncs_is_out_although_the_group_is_stable() -> None:
    driver = Driver()
    leader, follower = two_joined(driver)
    driver.sync(leader, shares(leader, follower))
    for _ in range(REBALANCE_MS // 5_000):
        driver.heartbeat(leader)
        driver.heartbeat(follower)
        driver.pass_ms(5_000)
    assert driver.heartbeat(follower) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.heartbeat(leader) is ErrorCode.REBALANCE_IN_PROGRESS


def test_heartbeats_are_welcome_while_completing() -> None:
    driver = Driver()
    leader, follower = two_joined(driver)
    assert driver.heartbeat(leader) is ErrorCode.NONE
    assert driver.heartbeat(follower) is ErrorCode.NONE


def test_heartbeats_keep_a_session_alive() -> None:
    driver = Driver()
    (leader,) = driver.stable_group(None)
    for _ in range(5):
        driver.pass_ms(SESSION_MS - 1)
        assert driver.heartbeat(leader) is ErrorCode.NONE


def test_a_session_without_heartbeats_ends() -> None:
    driver = Driver()
    leader, follower = driver.stable_group(None, None)
    driver.pass_ms(SESSION_MS - 1)
    driver.heartbeat(leader)
    driver.pass_ms(1)
    assert driver.heartbeat(follower) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.heartbeat(leader) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_heartbeat_is_checked_against_member_and_generation() -> None:
    driver = Driver()
    (leader,) = driver.stable_group(None)
    stranger = JoinResult(ErrorCode.NONE, "stranger", leader.generation_id)
    outdated = JoinResult(ErrorCode.NONE, leader.member_id, leader.generation_id + 1)
    assert driver.heartbeat(stranger) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.heartbeat(outdated) is ErrorCode.ILLEGAL_GENERATION
    assert driver.heartbeat(leader, group="other") is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.heartbeat(leader, group="") is ErrorCode.INVALID_GROUP_ID


def test_a_member_that_waits_for_its_assignment_needs_no_heartbeats() -> None:
    driver = Driver()
    leader, follower = two_joined(driver)
    waiting = driver.sync(follower)
    for _ in range(4):
        driver.pass_ms(SESSION_MS - 1)
        driver.heartbeat(leader)
    driver.sync(leader, shares(leader, follower))
    assert driver.synced(waiting).error is ErrorCode.NONE


def test_a_group_that_nobody_hears_from_becomes_empty() -> None:
    driver = Driver()
    driver.stable_group(None, None)
    driver.pass_ms(SESSION_MS)
    assert driver.state() == "Empty"


def test_a_sync_for_an_unknown_group_is_refused() -> None:
    driver = Driver()
    stranger = JoinResult(ErrorCode.NONE, "stranger", 1)
    assert driver.synced(driver.sync(stranger)).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_cooperative_rebalance_takes_two_generations_and_loses_no_member() -> None:
    driver = Driver()

    def offer(*owned: int) -> tuple[MemberProtocol, ...]:
        return (MemberProtocol("cooperative-sticky", subscription("t") + bytes(owned)),)

    first = driver.joined(driver.join(protocols=offer()))
    driver.sync(first, {first.member_id: b"\0\1"})
    newcomer = driver.join(protocols=offer())
    assert driver.heartbeat(first) is ErrorCode.REBALANCE_IN_PROGRESS
    again = driver.joined(driver.join(first.member_id, protocols=offer(0, 1)))
    second = driver.joined(newcomer)
    driver.sync(again, {first.member_id: b"\0"})
    assert driver.heartbeat(second) is ErrorCode.NONE
    assert driver.synced(driver.sync(second)).assignment == b""
    # The first gave up a partition, so it rejoins with what it kept.
    rejoin = driver.join(first.member_id, protocols=offer(0))
    assert driver.heartbeat(second) is ErrorCode.REBALANCE_IN_PROGRESS
    last = driver.joined(driver.join(second.member_id, protocols=offer()))
    assert driver.joined(rejoin).generation_id == last.generation_id == 3
    driver.sync(driver.joined(rejoin), {first.member_id: b"\0", second.member_id: b"\1"})
    assert driver.synced(driver.sync(last)).assignment == b"\1"
