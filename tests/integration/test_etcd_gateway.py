"""The gateway on a queue in etcd: what waits and who takes it, and readings as they come."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from nexus.etcd.blocking import BlockingClient
from nexus.gateway.live.hub import LiveHub
from nexus.gateway.live.no_replay import REASON
from nexus.gateway.queue_view import QueueView
from nexus.queue.errors import MessageRefused
from nexus.queue.etcd.layout import Slot
from nexus.queue.opening import open_publisher
from nexus.queue.port import Message
from nexus.queue.publishing import PublisherOptions
from nexus.store.port import Selection
from support.etcd import EtcdMember
from support.etcd_queue import TestQueue
from support.live import Client
from support.ports import free_port
from support.published import Sent, arrow_messages, json_messages
from support.readings import readings


@pytest.fixture
def queue(etcd: EtcdMember, name: str) -> Iterator[TestQueue]:
    with BlockingClient(etcd.config()) as client:
        yield TestQueue(client, etcd.endpoint, f"/{name}")


@pytest.fixture
def view(queue: TestQueue) -> Iterator[QueueView]:
    made = QueueView(queue.address, keep_s=0.0)
    yield made
    made.close()
    made.close()


def test_the_queue_is_a_topic_with_what_waits_in_each_partition(
    queue: TestQueue, view: QueueView
) -> None:
    queue.publish(7, [Slot("c1", 0), Slot("c1", 1), Slot("c2", 1)])
    queue.etcd.put(queue.layout.meta("config"), b'{"partitions": 4}')
    queue.etcd.put(queue.layout.dead_letters.start + b"c1/0/x", b"{}")
    said = view.snapshot()
    assert (said["reachable"], said["url"], said["topic"]) == (True, queue.address, queue.prefix)
    own, dead = said["topics"]
    assert (own["topic"], own["messages"]) == (queue.prefix, 7)
    found = {row["partition"]: (row["messages"], row["end"]) for row in own["partitions"]}
    assert found == {0: (3, None), 1: (4, None), 2: (0, None), 3: (0, None)}
    assert (dead["topic"], dead["messages"]) == (f"{queue.prefix}.dlq", 1)
    assert (said["published"], said["taken"], said["expired"]) == (7, 0, 0)
    assert 0 < said["database"]["in_use_bytes"] <= said["database"]["bytes"]
    assert said["database"]["quota_bytes"] == 2 << 30
    assert said["problems"] == []


def test_collectors_and_workers_are_groups_with_their_lag(
    queue: TestQueue, view: QueueView
) -> None:
    queue.publish(6, [Slot("c1", 0), Slot("c1", 5), Slot("c1", 6)])
    leader = json.dumps({"name": "node-1", "partitions": "0-4"}).encode()
    queue.etcd.put(queue.layout.meta("collectors", "0-4"), leader)
    queue.etcd.put(queue.layout.meta("owners", "c1/5"), b"worker-a")
    queue.etcd.put(queue.layout.meta("owners", "c1/6"), b"worker-b")
    collecting, claiming = view.snapshot()["groups"]
    assert (collecting["group"], collecting["lag"]) == ("collectors 0-4", 2)
    assert [row["member"] for row in collecting["partitions"]] == ["node-1"]
    assert (claiming["group"], claiming["lag"]) == ("workers", 4)
    assert [m["member"] for m in claiming["members"]] == ["worker-a", "worker-b"]


def test_an_etcd_that_is_away_is_an_answer_in_time() -> None:
    view = QueueView(f"etcd://127.0.0.1:{free_port()}/nothing", timeout_s=0.5)
    began = time.monotonic()
    said = view.snapshot()
    assert (said["reachable"], said["topics"], said["groups"]) == (False, [], [])
    assert "etcd" in said["detail"]
    assert time.monotonic() - began < 30
    view.close()


def publish(queue: TestQueue, messages: Sequence[Message]) -> None:
    """Through the publisher that the streamer has."""
    settled = threading.Event()
    publisher = open_publisher(queue.url, PublisherOptions(partitions=4))
    answers: list[MessageRefused | None] = []

    def on_settled(refused: MessageRefused | None) -> None:
        answers.append(refused)
        settled.set()

    try:
        publisher.publish(messages, on_settled)
        assert settled.wait(20)
        assert answers == [None]
    finally:
        publisher.close()


def arrow(value: float) -> Message:
    return message(arrow_messages(readings(row(value))), partition=1)


def plain(value: float) -> Message:
    return message(json_messages(readings(row(value))), partition=2)


def message(sent: list[Sent], partition: int) -> Message:
    ((body, headers),) = sent
    named = tuple((name, value) for name, value in headers if isinstance(value, bytes))
    return Message(body or b"", None, named, partition=partition)


def row(value: float) -> dict[str, object]:
    return {"uuid": "GPU-live", "source_value": value, "timestamp": time.time_ns() // 1000}


def told(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await story()

    asyncio.run(bounded())


@asynccontextmanager
async def hub_of(queue: TestQueue) -> AsyncIterator[LiveHub]:
    hub = LiveHub(queue.address)
    await hub.start()
    try:
        yield hub
    finally:
        await hub.stop()


@asynccontextmanager
async def client_of(hub: LiveHub, last_event_id: str | None = None) -> AsyncIterator[Client]:
    client = Client(await hub.subscribe(Selection(), last_event_id))
    try:
        await client.until(lambda: client.last_id, "a place in the queue", within=30)
        yield client
    finally:
        await client.leave()


def values(client: Client) -> list[Any]:
    return [row["value"] for row in client.rows]


def test_readings_of_both_forms_are_shown_as_they_come(queue: TestQueue) -> None:
    async def story() -> None:
        async with hub_of(queue) as hub, client_of(hub) as client:
            await asyncio.to_thread(publish, queue, [arrow(1.0), plain(2.0)])
            await client.until(lambda: len(client.rows) == 2, "two readings")
            assert sorted(values(client)) == [1.0, 2.0]
            assert [event.data["queue"] for event in client.named("status")] == ["ok"]
            assert client.named("gap") == []

    told(story)


def test_a_client_that_comes_back_misses_nothing_that_the_gateway_has(queue: TestQueue) -> None:
    async def story() -> None:
        async with hub_of(queue) as hub:
            async with client_of(hub) as first:
                await asyncio.to_thread(publish, queue, [arrow(1.0)])
                await first.until(lambda: first.rows, "the first reading")
                place = first.last_id
            await asyncio.to_thread(publish, queue, [arrow(2.0)])
            # The collector takes it out at once; who comes back is shown it all the same.
            queue.etcd.delete(queue.layout.messages)
            async with client_of(hub, place) as again:
                await again.until(lambda: again.rows, "what it missed")
                assert values(again) == [2.0]
                assert again.named("gap") == []

    told(story)


def test_what_came_while_no_gateway_looked_on_is_a_gap_and_not_a_silence(queue: TestQueue) -> None:
    async def story() -> None:
        async with hub_of(queue) as hub, client_of(hub) as client:
            place = client.last_id
        await asyncio.to_thread(publish, queue, [arrow(1.0)])
        async with hub_of(queue) as later, client_of(later, place) as again:
            await again.until(lambda: again.named("gap"), "a gap")
            assert again.named("gap")[0].data["reason"] == REASON
            await asyncio.to_thread(publish, queue, [arrow(2.0)])
            await again.until(lambda: again.rows, "what comes now")
            assert values(again) == [2.0]

    told(story)
