"""Channels of gRPC to one endpoint, asyncio's for calls and a plain one for the keepalive thread.

What gRPC would do by default and must not: go through `http_proxy`, wait up to two minutes before
it connects again, share one connection between all channels of a process (bulk would delay the
keepalives), refuse answers above 4 MB, or ping an idle server until that hangs up.
"""

from __future__ import annotations

from typing import Any

import grpc
import grpc.aio

from nexus.etcd.config import EtcdConfig, Tls
from nexus.etcd.errors import EtcdError
from nexus.etcd.schema import Method


def options(config: EtcdConfig) -> list[tuple[str, Any]]:
    chosen: list[tuple[str, Any]] = [
        ("grpc.enable_http_proxy", 0),
        ("grpc.service_config_disable_resolution", 1),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", int(config.connect_s * 1000)),  # one attempt's time
        ("grpc.max_reconnect_backoff_ms", 1000),
        ("grpc.keepalive_time_ms", int(config.ping_every_s * 1000)),
        ("grpc.keepalive_timeout_ms", int(config.ping_timeout_s * 1000)),
        # Without this one, a member that hangs is noticed after a minute, whatever the others say.
        ("grpc.http2.ping_timeout_ms", int(config.ping_timeout_s * 1000)),
        ("grpc.keepalive_permit_without_calls", 0),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.max_receive_message_length", config.receive_bytes_max),
        ("grpc.max_send_message_length", -1),  # the server's limit is the one that counts
    ]
    if config.tls is not None and config.tls.server_name:
        chosen.append(("grpc.ssl_target_name_override", config.tls.server_name))
    return chosen


def credentials(tls: Tls) -> grpc.ChannelCredentials:
    """The files' contents, read anew for each channel."""
    try:
        contents = [
            None if path is None else path.read_bytes() for path in (tls.ca, tls.key, tls.cert)
        ]
    except OSError as failed:
        raise EtcdError(f"etcd TLS: {failed}") from failed
    return grpc.ssl_channel_credentials(*contents)


def open_channel(config: EtcdConfig, endpoint: str) -> grpc.aio.Channel:
    """A channel that belongs to the running event loop."""
    if config.tls is None:
        return grpc.aio.insecure_channel(endpoint, options=options(config))
    return grpc.aio.secure_channel(endpoint, credentials(config.tls), options=options(config))


def open_plain_channel(config: EtcdConfig, endpoint: str) -> grpc.Channel:
    """A channel for a thread without an event loop."""
    if config.tls is None:
        return grpc.insecure_channel(endpoint, options=options(config))
    return grpc.secure_channel(endpoint, credentials(config.tls), options=options(config))


def unary(channel: Any, method: Method) -> Any:
    """A call with one request and one answer, on either kind of channel."""
    return channel.unary_unary(
        method.path,
        request_serializer=method.request.SerializeToString,
        response_deserializer=method.response.FromString,
    )
