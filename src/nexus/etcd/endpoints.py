"""Which endpoint is asked next, and its channel."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import grpc.aio

from nexus.etcd.channels import open_channel, unary
from nexus.etcd.config import EtcdConfig
from nexus.etcd.faults import Fault, unreachable
from nexus.etcd.schema import STATUS, Method

_REASON_S = 0.3


class Failed(Exception):
    """Raised when one attempt on one endpoint failed; never leaves this package."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault.error))
        self.fault = fault


class Rotation:
    """Stays with one endpoint until that fails, then goes to the next."""

    def __init__(self, endpoints: tuple[str, ...], first: int = 0) -> None:
        self.endpoints = endpoints
        self._at = first % len(endpoints)

    @property
    def current(self) -> str:
        return self.endpoints[self._at]

    def failed(self, endpoint: str) -> None:
        """Many calls may fail at once on one endpoint: only the first of them moves on."""
        if endpoint == self.current:
            self._at = (self._at + 1) % len(self.endpoints)


class Channels:
    """One channel for each endpoint, opened when first needed; all of one event loop."""

    def __init__(self, config: EtcdConfig) -> None:
        self._config = config
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._calls: dict[tuple[str, str], Any] = {}

    async def connected(self, endpoint: str, timeout_s: float) -> grpc.aio.Channel:
        """The endpoint's channel once it is ready; Failed, with nothing sent, if it will not be.

        This is what makes an unsent write certain: gRPC's own errors do not tell.
        """
        channel = self._channels.get(endpoint)
        if channel is None:
            channel = self._channels[endpoint] = open_channel(self._config, endpoint)
        state = channel.get_state(try_to_connect=True)
        if state is grpc.ChannelConnectivity.READY:
            return channel
        try:
            async with asyncio.timeout(min(timeout_s, self._config.connect_s)):
                await _ready(channel, state, endpoint)
        except TimeoutError:
            raise Failed(unreachable(endpoint, "no connection in time")) from None
        return channel

    def unary(self, endpoint: str, method: Method) -> Any:
        """A call on an endpoint that was connected before."""
        call = self._calls.get((endpoint, method.path))
        if call is None:
            call = self._calls[endpoint, method.path] = unary(self._channels[endpoint], method)
        return call

    async def close(self) -> None:
        self._calls.clear()
        channels = list(self._channels.values())
        self._channels.clear()
        for channel in channels:
            await channel.close()


async def _ready(channel: grpc.aio.Channel, state: grpc.ChannelConnectivity, endpoint: str) -> None:
    while state is not grpc.ChannelConnectivity.READY:
        if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
            raise Failed(unreachable(endpoint, await _reason(channel)))
        await channel.wait_for_state_change(state)
        state = channel.get_state(try_to_connect=True)


async def _reason(channel: grpc.aio.Channel) -> str:
    """Why there is no connection: gRPC tells only those who try a call; this one asks nothing."""
    try:
        await unary(channel, STATUS)(STATUS.request(), timeout=_REASON_S)
    except grpc.aio.AioRpcError as error:
        return f"cannot connect: {error.details() or 'no reason given'}"
    return "could not connect at once"
