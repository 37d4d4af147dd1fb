"""Measures queues on this machine: messages that a share group takes and acknowledges a second.

    python bench/sharing.py [--messages N] [--members N] [--partitions N] [--json FILE]

Members are tasks of two processes, each with a connection and a session of its own; what one took
is acknowledged with its next call, and counted when that is confirmed. Then the same by members
that are confluent-kafka's ShareConsumer, a process each.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar
from uuid import UUID, uuid4

from confluent_kafka import Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, NewTopic

from nexus.bench.broker_cost import cpu_us_per_message, usage_of
from nexus.bench.local_broker import LocalBroker
from nexus.bench.report import Figure, machine, print_table, save
from nexus.broker.peer import Peer
from nexus.wire.apis import ApiKey
from nexus.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from nexus.wire.messages.share_fetch import (
    AcknowledgementBatch,
    AcknowledgeType,
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
    ShareFetchResponse,
)

TOPIC, GROUP, VALUE = "jobs", "workers", bytes(200)
PROCESSES = 2
AT_ONCE = 500
ANSWER_SECONDS = 60.0
IDLE_SECONDS = 3.0
GOAL = "10,000/s"

T = TypeVar("T")


def take_all(bootstrap: str, partitions: list[int]) -> tuple[int, float]:
    """Let a member for each partition named take all there is; how many, and when that was done."""
    return asyncio.run(_take_all(bootstrap, partitions)), time.time()


async def _take_all(bootstrap: str, partitions: list[int]) -> int:
    return sum(await asyncio.gather(*(_member(bootstrap, one) for one in partitions)))


async def _member(bootstrap: str, partition: int) -> int:
    host, _, port = bootstrap.rpartition(":")
    peer, member, done, epoch = Peer(host, int(port), "bench"), str(uuid4()), 0, 0
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
    known = await peer.ask(ApiKey.METADATA, 12, asked, ANSWER_SECONDS)
    held: list[AcknowledgementBatch] = []
    while True:
        request = _request(known.topics[0].topic_id, partition, member, held)
        request.share_session_epoch, epoch = epoch, epoch + 1
        answer = await peer.ask(ApiKey.SHARE_FETCH, 2, request, ANSWER_SECONDS)
        done += sum(one.last_offset - one.first_offset + 1 for one in held)
        held = _held(answer)
        if not held:
            peer.close()
            return done


def _request(
    topic_id: UUID, partition: int, member: str, held: list[AcknowledgementBatch]
) -> ShareFetchRequest:
    wanted = FetchPartition(partition_index=partition, acknowledgement_batches=held)
    return ShareFetchRequest(
        group_id=GROUP,
        member_id=member,
        max_wait_ms=300,
        max_records=AT_ONCE,
        topics=[FetchTopic(topic_id=topic_id, partitions=[wanted])],
    )


def _held(answer: ShareFetchResponse) -> list[AcknowledgementBatch]:
    parts = [part for topic in answer.responses for part in topic.partitions]
    failed = [p for p in parts if p.error_code or p.acknowledge_error_code]
    if answer.error_code or failed:
        raise RuntimeError(f"refused: {answer.error_message or failed}")
    return [
        AcknowledgementBatch(
            first_offset=run.first_offset,
            last_offset=run.last_offset,
            acknowledge_types=[AcknowledgeType.ACCEPT],
        )
        for part in parts
        for run in part.acquired_records
    ]


def poll_all(bootstrap: str) -> tuple[int, float]:
    """Let a ShareConsumer take all there is; how many, and when the last came."""
    member = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": "pollers", "log_level": 2})
    member.subscribe([TOPIC])
    done, heard = 0, time.time()
    while time.time() < heard + IDLE_SECONDS:
        messages = member.poll(0.1)
        if messages:
            done, heard = done + len(messages), time.time()
    failed = [error for error in member.commit_sync(ANSWER_SECONDS).values() if error]
    member.close()
    if failed:
        raise RuntimeError(f"not acknowledged: {failed}")
    return done, heard


def fill(bootstrap: str, messages: int, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, partitions, 1)])[TOPIC].result(10)
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 1 << 20}
    )
    for number in range(messages):
        producer.produce(TOPIC, VALUE, partition=number % partitions)
        producer.poll(0)
    if producer.flush(120):
        raise RuntimeError("the messages could not be sent")


def by_calls(broker: LocalBroker, asked: argparse.Namespace) -> Figure:
    every = [at % asked.partitions for at in range(asked.members)]
    shares = [every[n::PROCESSES] for n in range(PROCESSES)]
    measure = f"taken and acknowledged, {asked.members} members, {asked.partitions} partitions"
    return measured(measure, broker, asked.messages, partial(take_all, broker.bootstrap), shares)


def by_consumers(broker: LocalBroker, asked: argparse.Namespace) -> Figure:
    members = [broker.bootstrap] * PROCESSES
    return measured(f"by {PROCESSES} ShareConsumers", broker, asked.messages, poll_all, members)


def measured(
    measure: str,
    broker: LocalBroker,
    messages: int,
    take: Callable[[T], tuple[int, float]],
    shares: list[T],
) -> Figure:
    before, began = usage_of(broker.http), time.time()
    with ProcessPoolExecutor(PROCESSES) as pool:
        results = list(pool.map(take, shares))
    done, seconds = sum(count for count, _ in results), max(end for _, end in results) - began
    cost = cpu_us_per_message(before, usage_of(broker.http), done)
    if done != messages:
        raise RuntimeError(f"{done} of {messages} were acknowledged")
    return Figure(measure, f"{done / seconds:,.0f}/s, {cost:.1f} µs of broker CPU each", GOAL)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as place, LocalBroker(Path(place)) as broker:
        setting = machine(Path(place))
        print(setting)
        fill(broker.bootstrap, asked.messages, asked.partitions)
        figures = [
            by_calls(broker, asked),
            by_consumers(broker, asked),
        ]
    print_table(figures)
    if asked.json:
        save(asked.json, setting, figures)


if __name__ == "__main__":
    main(sys.argv[1:])
