"""DescribeCluster (key 60): names the cluster, its controller and its brokers.

It was flexible from the start; version 1 adds the kind of endpoint that is asked for.
"""

from __future__ import annotations

from nexus.wire.fields import array, boolean, int8, int16, int32, message, string, structure


@message("0-1", flexible="0+")
class DescribeClusterRequest:
    """What to tell about the cluster."""

    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8("1+", default=1)


@structure
class DescribeClusterBroker:
    """A broker and where to reach it."""

    broker_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)


@message("0-1", flexible="0+")
class DescribeClusterResponse:
    """The cluster."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    endpoint_type: int = int8("1+", default=1)
    cluster_id: str = string()
    controller_id: int = int32(default=-1)
    brokers: list[DescribeClusterBroker] = array(DescribeClusterBroker)
    cluster_authorized_operations: int = int32(default=-(2**31))
