"""A request that is split by owner and rejoined is the same request, in the same order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nexus.broker.routing import shapes
from nexus.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from nexus.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)

topics = st.dictionaries(
    st.sampled_from("abcd"), st.lists(st.integers(0, 9), unique=True, min_size=1), min_size=1
)


def request(of: dict[str, list[int]]) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        topics=[
            ListOffsetsTopic(
                name=name,
                partitions=[ListOffsetsPartition(partition_index=n, timestamp=-1) for n in numbers],
            )
            for name, numbers in of.items()
        ]
    )


def answered(asked: ListOffsetsRequest) -> ListOffsetsResponse:
    """What an owner would say: an offset that tells which partition it is of."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(
                        partition_index=one.partition_index,
                        offset=ord(topic.name) * 100 + one.partition_index,
                    )
                    for one in topic.partitions
                ],
            )
            for topic in asked.topics
        ]
    )


@given(topics, st.integers(1, 4))
def test_answers_of_any_owners_join_in_the_order_of_the_request(
    of: dict[str, list[int]], owners: int
) -> None:
    shape, whole = shapes.LIST_OFFSETS, request(of)
    answers: dict[shapes.Key, ListOffsetsPartitionResponse] = {}
    for owner in range(owners):
        owned = {key for key in shape.keys(whole) if (ord(key[0]) + key[1]) % owners == owner}
        part = shape.part(whole, owned.__contains__)
        answers |= dict(shape.answers(answered(part)))
    assert shape.join(whole, answers) == answered(whole)
    assert whole == request(of), "what is split must stay as it was"


def test_groups_are_split_and_rejoined_too() -> None:
    shape, whole = shapes.DELETE_GROUPS, DeleteGroupsRequest(groups_names=["a", "b", "c"])
    part = shape.part(whole, lambda key: key[0] != "b")
    assert part.groups_names == ["a", "c"]
    results = [DeletableGroupResult(group_id=name) for name in "cab"]
    joined = shape.join(whole, dict(shape.answers(DeleteGroupsResponse(results=results))))
    assert [result.group_id for result in joined.results] == ["a", "b", "c"]
