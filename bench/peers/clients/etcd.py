"""etcd's recipe queue: a key for each message, by our gRPC client; taken one at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from etcd_recipe import message_key, take_message

from nexus.etcd import Client, EtcdConfig, Keys
from nexus.etcd.blocking import BlockingClient
from peers.clients.port import Lanes, Receiver, Sender

_PAUSE_S = 0.001


class EtcdClient:
    """A prefix for each lane."""

    chunk = 128
    words = (
        "nexus.etcd over grpcio (C core), a put for each message, 128 under way;"
        " taken by range and transaction, one after the other"
    )

    def prepare(self, lanes: Lanes) -> None:
        """A prefix needs no making; a member may need a moment to lead itself."""
        with _connected(lanes.address) as client:
            client.delete(Keys.prefix(_prefix(lanes.name)))

    def remove(self, lanes: Lanes) -> None:
        with _connected(lanes.address) as client:
            done = client.delete(Keys.prefix(_prefix(lanes.name)))
            client.run(lambda etcd: etcd.maintenance.compact(done.revision, physical=True))

    def sender(self, lanes: Lanes) -> Sender:
        return _Sender(lanes)

    def receiver(self, lanes: Lanes, number: int) -> Receiver:
        return _Receiver(lanes, number)


def _connected(address: str) -> BlockingClient:
    return BlockingClient(EtcdConfig((address,)))


def _prefix(name: str, lane: int | None = None) -> bytes:
    return f"/{name}/".encode() if lane is None else f"/{name}/{lane}/".encode()


async def _put_all(etcd: Client, prefix: bytes, values: Sequence[bytes]) -> None:
    await asyncio.gather(*(etcd.put(message_key(prefix), value) for value in values))


class _Sender:
    def __init__(self, lanes: Lanes) -> None:
        self._client = _connected(lanes.address)
        self._name = lanes.name

    def send(self, values: Sequence[bytes], lane: int) -> None:
        prefix = _prefix(self._name, lane)
        self._client.run(lambda etcd: _put_all(etcd, prefix, values))

    def rest(self, seconds: float) -> None:
        time.sleep(seconds)

    def flush(self) -> None:
        """Every put has waited for its answer."""

    def close(self) -> None:
        self._client.close()


class _Receiver:
    def __init__(self, lanes: Lanes, number: int) -> None:
        self._client = _connected(lanes.address)
        self._queues = [
            Keys.prefix(_prefix(lanes.name, lane)) for lane in lanes.of_consumer(number)
        ]

    def receive(self, wait_s: float) -> list[bytes]:
        """The recipe has no bell: it asks again and again."""
        deadline = time.monotonic() + wait_s
        while True:
            taken = [take_message(self._client, queue) for queue in self._queues]
            values = [value for value in taken if value is not None]
            if values or time.monotonic() > deadline:
                return values
            time.sleep(_PAUSE_S)

    def close(self) -> None:
        self._client.close()
