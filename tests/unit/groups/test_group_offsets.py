"""Offsets: who may commit, when a commit is seen, and when it is forgotten."""

from __future__ import annotations

import pytest

from nexus.groups import (
    CommitRequest,
    CommitResult,
    DeleteGroupResult,
    DeleteOffsetsRequest,
    DeleteOffsetsResult,
    FetchedOffset,
    FetchOffsetsRequest,
    GroupConfig,
    JoinResult,
    MemberProtocol,
    OffsetToCommit,
)
from nexus.wire.errors import ErrorCode
from support.group_driver import GROUP, Driver, dynamic, subscription

DAY_MS = 86_400_000


def delete_offsets(driver: Driver, *topics: str, group: str = GROUP) -> DeleteOffsetsResult:
    token = driver.token()
    request = DeleteOffsetsRequest(group, tuple((topic, 0) for topic in topics))
    driver.run(driver.coordinator.delete_offsets(token, request, driver.now_ms))
    result = driver.replies[token]
    assert isinstance(result, DeleteOffsetsResult)
    return result


def send_delete(driver: Driver, group: str = GROUP) -> int:
    token = driver.token()
    driver.run(driver.coordinator.delete_group(token, group, driver.now_ms))
    return token


def delete_group(driver: Driver, group: str = GROUP) -> ErrorCode:
    result = driver.replies[send_delete(driver, group)]
    assert isinstance(result, DeleteGroupResult)
    return result.error


def everything(driver: Driver, group: str = GROUP) -> dict[tuple[str, int], FetchedOffset]:
    return dict(driver.coordinator.fetch_offsets(FetchOffsetsRequest(group)).offsets)


# -- commit and fetch


def test_a_commit_round_trips_with_its_metadata() -> None:
    driver = Driver()
    assert driver.commit(42, metadata="node a") is ErrorCode.NONE
    assert everything(driver) == {("t", 0): FetchedOffset(42, 3, "node a")}


def test_a_commit_is_seen_only_once_it_is_stored() -> None:
    driver = Driver()
    driver.commit(1)
    driver.hold_stores = True
    token = driver.send_commit(2)
    assert token not in driver.replies
    assert driver.committed() == 1
    driver.finish_stores()
    assert driver.commit_error(token) is ErrorCode.NONE
    assert driver.committed() == 2


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_commit_that_cannot_be_stored_is_never_seen(failure: ErrorCode, told: ErrorCode) -> None:
    driver = Driver()
    driver.hold_stores = True
    token = driver.send_commit(7)
    driver.finish_store(failure)
    assert driver.commit_error(token) is told
    assert driver.committed() == -1


def test_commits_in_flight_become_visible_in_order() -> None:
    driver = Driver()
    driver.hold_stores = True
    for offset in (1, 2, 3):
        driver.send_commit(offset)
    seen = []
    while driver.held:
        driver.finish_store()
        seen.append(driver.committed())
    assert seen == [1, 2, 3]


def test_members_commit_in_their_generation() -> None:
    driver = Driver()
    leader, _ = driver.stable_group(None, None)
    assert driver.commit(5, joined=leader) is ErrorCode.NONE
    outdated = JoinResult(ErrorCode.NONE, leader.member_id, leader.generation_id - 1)
    stranger = JoinResult(ErrorCode.NONE, "stranger", leader.generation_id)
    assert driver.commit(6, joined=outdated) is ErrorCode.ILLEGAL_GENERATION
    assert driver.commit(6, joined=stranger) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.commit(6) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.committed() == 5


def test_members_may_commit_while_a_rebalance_is_prepared_but_not_completed() -> None:
    driver = Driver()
    leader, follower = driver.stable_group(None, None)
    driver.join(leader.member_id)
    assert driver.commit(5, joined=follower) is ErrorCode.NONE
    again = driver.joined(driver.join(follower.member_id))
    assert driver.state() == "CompletingRebalance"
    assert driver.commit(6, joined=again) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_commit_is_a_sign_of_life() -> None:
    driver = Driver()
    (leader,) = driver.stable_group(None)
    for offset in range(5):
        driver.pass_ms(9_000)
        assert driver.commit(offset, joined=leader) is ErrorCode.NONE


def test_a_commit_of_a_generation_that_never_was_is_refused() -> None:
    driver = Driver()
    stranger = JoinResult(ErrorCode.NONE, "stranger", 3)
    assert driver.commit(1, joined=stranger) is ErrorCode.ILLEGAL_GENERATION
    assert driver.state() == "Dead"


def test_an_operator_may_set_the_offsets_of_an_empty_group() -> None:
    driver = Driver()
    (leader,) = driver.stable_group(None)
    driver.commit(5, joined=leader)
    driver.leave(dynamic(leader))
    assert driver.commit(0) is ErrorCode.NONE
    assert driver.committed() == 0


def test_oversized_metadata_is_refused_for_its_partition_alone() -> None:
    driver = Driver()
    token = driver.token()
    offsets = (
        OffsetToCommit("t", 0, 1, metadata="m" * 4_097),
        OffsetToCommit("t", 1, 2, metadata="m" * 4_096),
        OffsetToCommit("x" * 250, 0, 3),
        OffsetToCommit("t", 2, 4, metadata=None),
    )
    driver.run(driver.coordinator.commit(token, CommitRequest(GROUP, offsets), driver.now_ms))
    result = driver.replies[token]
    assert isinstance(result, CommitResult)
    assert list(result.errors.values()) == [
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.NONE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.NONE,
    ]
    assert everything(driver).keys() == {("t", 1), ("t", 2)}


def test_a_commit_of_nothing_but_refusals_is_answered_and_leaves_no_group() -> None:
    driver = Driver()
    assert driver.commit(1, metadata="m" * 5_000) is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert driver.state() == "Dead"


def test_what_was_never_committed_is_minus_one() -> None:
    driver = Driver()
    assert driver.committed("nothing", "nobody") == -1
    assert everything(driver, "nobody") == {}


def test_old_clients_may_commit_without_a_group_name() -> None:
    driver = Driver()
    assert driver.commit(3, group="") is ErrorCode.NONE
    assert driver.committed(group="") == 3


# -- delete


def test_deleted_offsets_are_gone_for_good() -> None:
    driver = Driver()
    driver.commit(1, topic="a")
    driver.commit(2, topic="b")
    result = delete_offsets(driver, "a", "never")
    assert set(result.errors.values()) == {ErrorCode.NONE}
    driver.restart()
    assert everything(driver).keys() == {("b", 0)}


def test_offsets_of_subscribed_topics_are_not_deleted() -> None:
    driver = Driver()
    (leader,) = driver.stable_group(None)
    driver.commit(1, topic="t", joined=leader)
    driver.commit(1, topic="old", joined=leader)
    result = delete_offsets(driver, "t", "old")
    assert result.errors[("t", 0)] is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert result.errors[("old", 0)] is ErrorCode.NONE
    assert everything(driver).keys() == {("t", 0)}


def test_a_subscription_that_cannot_be_read_counts_as_every_topic() -> None:
    driver = Driver()
    joined = driver.joined(driver.join(protocols=(MemberProtocol("range", b"?"),)))
    driver.sync(joined, {})
    result = delete_offsets(driver, "any")
    assert result.errors[("any", 0)] is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


def test_offsets_of_a_live_group_that_is_no_consumer_are_not_deleted() -> None:
    driver = Driver()
    driver.join(kind="connect")
    assert delete_offsets(driver, "t").error is ErrorCode.NON_EMPTY_GROUP


def test_offsets_of_an_unknown_group_cannot_be_deleted() -> None:
    assert delete_offsets(Driver(), "t").error is ErrorCode.GROUP_ID_NOT_FOUND


def test_an_offset_delete_that_cannot_be_stored_deletes_nothing() -> None:
    driver = Driver()
    driver.commit(1)
    driver.hold_stores = True
    token = driver.token()
    request = DeleteOffsetsRequest(GROUP, (("t", 0),))
    driver.run(driver.coordinator.delete_offsets(token, request, driver.now_ms))
    driver.finish_store(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    result = driver.replies[token]
    assert isinstance(result, DeleteOffsetsResult)
    assert result.error is ErrorCode.NOT_COORDINATOR
    assert driver.committed() == 1


def test_a_deleted_group_is_gone_for_good() -> None:
    driver = Driver()
    (leader,) = driver.stable_group(None)
    driver.commit(1, joined=leader)
    assert delete_group(driver) is ErrorCode.NON_EMPTY_GROUP
    driver.leave(dynamic(leader))
    assert delete_group(driver) is ErrorCode.NONE
    assert delete_group(driver) is ErrorCode.GROUP_ID_NOT_FOUND
    driver.restart()
    assert driver.state() == "Dead"
    assert driver.committed() == -1


def test_a_group_is_dead_while_its_deletion_is_stored() -> None:
    driver = Driver()
    driver.commit(1)
    driver.hold_stores = True
    token = send_delete(driver)
    refused = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.commit(2) is refused
    assert driver.joined(driver.join()).error is refused
    assert delete_group(driver) is ErrorCode.GROUP_ID_NOT_FOUND
    assert delete_offsets(driver, "t").error is ErrorCode.GROUP_ID_NOT_FOUND
    driver.finish_store(ErrorCode.REQUEST_TIMED_OUT)
    assert driver.replies[token] == DeleteGroupResult(refused)
    assert driver.committed() == 1
    assert driver.state() == "Empty"


def test_a_deleted_group_takes_commits_on_their_way_with_it() -> None:
    driver = Driver()
    driver.hold_stores = True
    driver.send_commit(1)
    send_delete(driver)
    driver.finish_stores()
    assert driver.state() == "Dead"
    driver.restart()
    assert driver.committed() == -1


def test_a_deleted_topics_offsets_go_at_once() -> None:
    driver = Driver()
    driver.commit(5, topic="gone")
    driver.commit(6, topic="kept")
    driver.hold_stores = True
    driver.run(driver.coordinator.topics_deleted({"gone"}, driver.now_ms))
    assert everything(driver).keys() == {("kept", 0)}
    driver.finish_stores()
    driver.restart()
    assert everything(driver).keys() == {("kept", 0)}


def test_a_commit_on_its_way_to_a_deleted_topic_is_not_seen_but_a_later_one_is() -> None:
    driver = Driver()
    driver.hold_stores = True
    before = [driver.send_commit(5), driver.send_commit(6)]
    driver.run(driver.coordinator.topics_deleted({"t"}, driver.now_ms))
    after = driver.send_commit(1)
    driver.finish_store()
    driver.finish_store()
    assert driver.committed() == -1
    driver.finish_stores()
    assert driver.committed() == 1
    assert {driver.commit_error(token) for token in (*before, after)} == {ErrorCode.NONE}
    driver.restart()
    assert driver.committed() == 1


# -- expiry


def test_offsets_expire_a_retention_after_the_group_became_empty() -> None:
    driver = Driver()
    (leader,) = driver.stable_group(None)
    driver.commit(1, joined=leader)
    for _ in range(10):
        driver.heartbeat(leader)
        driver.pass_ms(5_000)
    driver.leave(dynamic(leader))
    driver.pass_ms(7 * DAY_MS - 1_000)
    assert driver.committed() == 1
    driver.pass_ms(601_000)
    assert driver.committed() == -1
    assert driver.state() == "Dead"
    driver.restart()
    assert driver.state() == "Dead"
    assert everything(driver) == {}


def test_offsets_of_a_live_group_do_not_expire_while_it_reads_the_topic() -> None:
    driver = Driver(GroupConfig(offsets_retention_ms=20_000, offsets_check_interval_ms=5_000))
    (leader,) = driver.stable_group(None)
    driver.commit(1, topic="t", joined=leader)
    driver.commit(1, topic="abandoned", joined=leader)
    for _ in range(10):
        driver.heartbeat(leader)
        driver.pass_ms(5_000)
    assert everything(driver).keys() == {("t", 0)}


def test_offsets_outside_of_membership_expire_by_commit_time() -> None:
    driver = Driver()
    driver.commit(1, topic="old")
    driver.pass_ms(4 * DAY_MS)
    driver.commit(2, topic="new")
    driver.pass_ms(4 * DAY_MS)
    assert everything(driver).keys() == {("new", 0)}


def test_offsets_that_an_operator_set_have_their_full_time() -> None:
    driver = Driver()
    (leader,) = driver.stable_group(None)
    driver.leave(dynamic(leader))
    driver.commit(0)
    driver.pass_ms(6 * DAY_MS)
    driver.commit(1)
    driver.pass_ms(6 * DAY_MS)
    assert driver.committed() == 1


def test_a_commit_may_choose_its_own_retention() -> None:
    driver = Driver()
    driver.commit(1, topic="short", retention_ms=DAY_MS)
    driver.commit(2, topic="forever", retention_ms=2**63 - 1)
    driver.restart()
    driver.pass_ms(10 * DAY_MS)
    assert everything(driver).keys() == {("forever", 0)}


def test_an_offset_with_a_commit_on_its_way_does_not_expire() -> None:
    driver = Driver()
    driver.commit(1)
    driver.pass_ms(7 * DAY_MS - 1)
    driver.hold_stores = True
    driver.send_commit(2)
    driver.pass_ms(DAY_MS)
    driver.finish_stores()
    assert driver.committed() == 2


def test_an_empty_group_without_offsets_is_buried() -> None:
    driver = Driver()
    (leader,) = driver.stable_group(None)
    driver.leave(dynamic(leader))
    driver.pass_ms(600_000)
    assert driver.state() == "Dead"
    assert driver.log[-1][1] is None


def test_a_burial_that_cannot_be_stored_is_tried_again() -> None:
    driver = Driver()
    (leader,) = driver.stable_group(None)
    driver.leave(dynamic(leader))
    driver.hold_stores = True
    driver.pass_ms(600_000)
    driver.finish_store(ErrorCode.KAFKA_STORAGE_ERROR)
    assert driver.state() == "Empty"
    driver.hold_stores = False
    driver.pass_ms(600_000)
    assert driver.state() == "Dead"


def test_a_group_whose_only_commit_failed_is_forgotten() -> None:
    driver = Driver()
    driver.hold_stores = True
    driver.send_commit(1)
    driver.finish_store(ErrorCode.KAFKA_STORAGE_ERROR)
    assert driver.state() == "Empty"
    driver.pass_ms(600_000)
    assert driver.state() == "Dead"
    assert driver.log == []


def test_subscriptions_survive_a_restart() -> None:
    driver = Driver()
    joined = driver.joined(driver.join(protocols=(MemberProtocol("range", subscription("u")),)))
    driver.sync(joined, {})
    driver.commit(1, topic="u", joined=joined)
    driver.restart()
    result = delete_offsets(driver, "u")
    assert result.errors[("u", 0)] is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
