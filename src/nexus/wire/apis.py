"""The APIs that are served, with the versions that ApiVersions advertises.

What is not in this table is not advertised, and a request for it is refused.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from nexus.wire.fields import describe
from nexus.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from nexus.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from nexus.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from nexus.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from nexus.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from nexus.wire.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from nexus.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from nexus.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from nexus.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from nexus.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from nexus.wire.messages.fetch import FetchRequest, FetchResponse
from nexus.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from nexus.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from nexus.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from nexus.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from nexus.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from nexus.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from nexus.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from nexus.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from nexus.wire.messages.metadata import MetadataRequest, MetadataResponse
from nexus.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from nexus.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from nexus.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from nexus.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from nexus.wire.messages.produce import ProduceRequest, ProduceResponse
from nexus.wire.messages.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
)
from nexus.wire.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from nexus.wire.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from nexus.wire.messages.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from nexus.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from nexus.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from nexus.wire.messages.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
)


class ApiKey(IntEnum):
    """The number by which a request says what it is."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    INCREMENTAL_ALTER_CONFIGS = 44
    OFFSET_DELETE = 47
    DESCRIBE_CLUSTER = 60
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85


class Api(NamedTuple):
    """A request, its response, and the versions in which clients may use them."""

    key: ApiKey
    name: str
    request: type
    response: type
    min_version: int  # as advertised; `serves` knows what can be decoded
    max_version: int
    flexible_from: int

    def serves(self, version: int) -> bool:
        """Tell whether requests of this version are decoded and answered."""
        return version in describe(self.request).versions

    def flexible(self, version: int) -> bool:
        """Tell whether a request of this version, served or not, has flexible fields."""
        return version >= self.flexible_from


NEVER_FLEXIBLE = 1 << 15  # beyond any version, which is an int16


def _api(key: ApiKey, request: type, response: type, min_version: int | None = None) -> Api:
    versions, flexible = describe(request).versions, describe(request).flexible
    first = versions.first if min_version is None else min_version
    flexible_from = NEVER_FLEXIBLE if flexible.last < 0 else flexible.first
    name = request.__name__.removesuffix("Request")
    return Api(key, name, request, response, first, versions.last, flexible_from)


_TABLE = (
    # Versions 0-2 are advertised but refused: without them older librdkafka stops compressing.
    _api(ApiKey.PRODUCE, ProduceRequest, ProduceResponse, min_version=0),
    _api(ApiKey.FETCH, FetchRequest, FetchResponse),
    _api(ApiKey.LIST_OFFSETS, ListOffsetsRequest, ListOffsetsResponse),
    _api(ApiKey.METADATA, MetadataRequest, MetadataResponse),
    _api(ApiKey.OFFSET_COMMIT, OffsetCommitRequest, OffsetCommitResponse),
    _api(ApiKey.OFFSET_FETCH, OffsetFetchRequest, OffsetFetchResponse),
    _api(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest, FindCoordinatorResponse),
    _api(ApiKey.JOIN_GROUP, JoinGroupRequest, JoinGroupResponse),
    _api(ApiKey.HEARTBEAT, HeartbeatRequest, HeartbeatResponse),
    _api(ApiKey.LEAVE_GROUP, LeaveGroupRequest, LeaveGroupResponse),
    _api(ApiKey.SYNC_GROUP, SyncGroupRequest, SyncGroupResponse),
    _api(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest, DescribeGroupsResponse),
    _api(ApiKey.LIST_GROUPS, ListGroupsRequest, ListGroupsResponse),
    _api(ApiKey.API_VERSIONS, ApiVersionsRequest, ApiVersionsResponse),
    _api(ApiKey.CREATE_TOPICS, CreateTopicsRequest, CreateTopicsResponse),
    _api(ApiKey.DELETE_TOPICS, DeleteTopicsRequest, DeleteTopicsResponse),
    _api(ApiKey.DELETE_RECORDS, DeleteRecordsRequest, DeleteRecordsResponse),
    _api(ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest, InitProducerIdResponse),
    _api(ApiKey.OFFSET_FOR_LEADER_EPOCH, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse),
    _api(ApiKey.DESCRIBE_CONFIGS, DescribeConfigsRequest, DescribeConfigsResponse),
    _api(ApiKey.ALTER_CONFIGS, AlterConfigsRequest, AlterConfigsResponse),
    _api(ApiKey.CREATE_PARTITIONS, CreatePartitionsRequest, CreatePartitionsResponse),
    _api(ApiKey.DELETE_GROUPS, DeleteGroupsRequest, DeleteGroupsResponse),
    _api(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    ),
    _api(ApiKey.OFFSET_DELETE, OffsetDeleteRequest, OffsetDeleteResponse),
    _api(ApiKey.DESCRIBE_CLUSTER, DescribeClusterRequest, DescribeClusterResponse),
    _api(ApiKey.SHARE_GROUP_HEARTBEAT, ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse),
    _api(ApiKey.SHARE_GROUP_DESCRIBE, ShareGroupDescribeRequest, ShareGroupDescribeResponse),
    _api(ApiKey.SHARE_FETCH, ShareFetchRequest, ShareFetchResponse),
    _api(ApiKey.SHARE_ACKNOWLEDGE, ShareAcknowledgeRequest, ShareAcknowledgeResponse),
    _api(ApiKey.READ_SHARE_GROUP_STATE, ReadShareGroupStateRequest, ReadShareGroupStateResponse),
    _api(ApiKey.WRITE_SHARE_GROUP_STATE, WriteShareGroupStateRequest, WriteShareGroupStateResponse),
)

APIS: dict[int, Api] = {int(api.key): api for api in _TABLE}
