"""Redis Streams by redis-py with hiredis: XADD in pipelines, XREAD without groups."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import redis

from peers.clients.native import NativeReceiver, NativeSender, generator, library
from peers.clients.port import Lanes, Receiver, Sender

_PIPELINE = 500
_PYTHON = f"redis-py {redis.__version__} with hiredis"
_COUNT = 1000


def _connected(address: str) -> Any:
    host, _, port = address.rpartition(":")
    return redis.Redis(host, int(port), protocol=2, socket_timeout=60)


class RedisClient:
    """A pipeline's answers are its acknowledgements."""

    chunk = _PIPELINE
    words = (
        f"{generator('redis', _PYTHON)}, XADD in pipelines of {_PIPELINE};"
        f" XREAD COUNT {_COUNT} without a group"
    )

    def prepare(self, lanes: Lanes) -> None:
        """The first XADD makes a stream."""

    def remove(self, lanes: Lanes) -> None:
        with _connected(lanes.address) as client:
            client.unlink(*lanes.names())

    def sender(self, lanes: Lanes) -> Sender:
        built = library("redis")
        return NativeSender(built, lanes, _PIPELINE) if built else _Sender(lanes)

    def receiver(self, lanes: Lanes, number: int) -> Receiver:
        built = library("redis")
        return NativeReceiver(built, lanes, number) if built else _Receiver(lanes, number)


class _Sender:
    def __init__(self, lanes: Lanes) -> None:
        self._redis = _connected(lanes.address)
        self._redis.ping()
        self._pipeline = self._redis.pipeline(transaction=False)
        self._streams = lanes.names()

    def send(self, values: Sequence[bytes], lane: int) -> None:
        stream, pipeline = self._streams[lane], self._pipeline
        for start in range(0, len(values), _PIPELINE):
            for value in values[start : start + _PIPELINE]:
                pipeline.execute_command("XADD", stream, "*", "v", value)
            pipeline.execute()

    def rest(self, seconds: float) -> None:
        time.sleep(seconds)

    def flush(self) -> None:
        """Every call has waited for its answers."""

    def close(self) -> None:
        self._redis.close()


class _Receiver:
    def __init__(self, lanes: Lanes, number: int) -> None:
        self._redis = _connected(lanes.address)
        names = lanes.names()
        self._places: dict[bytes, bytes] = {
            names[lane].encode(): b"0" for lane in lanes.of_consumer(number)
        }

    def receive(self, wait_s: float) -> list[bytes]:
        wait_ms = max(1, int(wait_s * 1000))
        found = self._redis.xread(self._places, count=_COUNT, block=wait_ms)
        values: list[bytes] = []
        for stream, entries in found:
            self._places[stream] = entries[-1][0]
            values += [fields[b"v"] for _, fields in entries]
        return values

    def close(self) -> None:
        self._redis.close()
