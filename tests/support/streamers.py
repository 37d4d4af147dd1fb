"""A real streamer in a process of its own, and what it left in the queue."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError, Message, TopicPartition

from nexus.telemetry.codec import decode_messages
from nexus.telemetry.reading import plain
from support.broker import NEXUS, BrokerProcess
from support.confluent import consumer_of
from support.waiting import wait_until

HEADER = (
    "timestamp,metric_name,gpu_id,device,uuid,modelName,Hostname,container,pod,namespace,"
    "value,labels_raw\n"
)


def long_rows(first: int, count: int, gpus: int = 16) -> Iterator[str]:
    """Rows of a long CSV: row n has the value n, and each GPU's rows follow its clock."""
    for n in range(first, first + count):
        gpu = n % gpus
        host = f"host-{gpu // 8}"
        second = n // gpus
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_752_800_000 + second))
        labels = f'DCGM_FI_DRIVER_VERSION=""535.129.03"",Hostname=""{host}"",job=""dcgm""'
        yield (
            f'"{at}","DCGM_FI_DEV_GPU_UTIL","{gpu % 8}","nvidia{gpu % 8}","GPU-{gpu:04d}",'
            f'"NVIDIA H100 80GB HBM3","{host}","","","","{n}","{labels}"\n'
        )


def write_csv(path: Path, count: int, gpus: int = 16) -> Path:
    with path.open("w") as file:
        file.write(HEADER)
        file.writelines(long_rows(0, count, gpus))
    return path


@dataclass
class StreamerProcess:
    """One `nexus streamer`; `directory` holds its state and what it wrote."""

    directory: Path
    queue: str
    source: str
    flags: tuple[str, ...] = ()
    environ: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    _started: int = 0

    def start(self) -> StreamerProcess:
        self._started += 1
        self.directory.mkdir(parents=True, exist_ok=True)
        words = [str(NEXUS), "streamer", "--state-dir", str(self.directory / "state")]
        words += ["--http", "127.0.0.1:0"]
        words += ["--source", self.source] if self.source else []
        words += ["--queue", self.queue] if self.queue else []
        with (
            (self.directory / "stdout").open("ab") as out,
            (self.directory / "stderr").open("ab") as err,
        ):
            self.process = subprocess.Popen(
                [*words, *self.flags], stdout=out, stderr=err, env={**os.environ, **self.environ}
            )
        return self

    @property
    def stdout(self) -> str:
        return (self.directory / "stdout").read_text()

    @property
    def stderr(self) -> str:
        return (self.directory / "stderr").read_text()

    @property
    def http(self) -> str:
        """The side port's address, of the last start."""
        lines = wait_until(
            lambda: re.findall(r"\(http (http://\S+),", self.stdout)[self._started - 1 :],
            what="the ready line",
        )
        return str(lines[0])

    def wait(self, within: float = 30.0) -> int:
        assert self.process is not None
        return self.process.wait(within)

    def stop(self, number: int = signal.SIGTERM, within: float = 20.0) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(within)

    def kill(self) -> None:
        """kill -9; safe to call twice."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)

    def run(self, within: float = 30.0) -> int:
        try:
            return self.start().wait(within)
        finally:
            self.kill()

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(self.http + path, timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()

    def status(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.get("/api/v1/status")[1])
        return answer


def queue_of(broker: BrokerProcess, topic: str) -> str:
    return f"kafka://{broker.bootstrap}/{topic}"


def messages_in(bootstrap: str, topic: str, partitions: int) -> list[Message]:
    """Every message of a topic, each partition's in order."""
    consumer = consumer_of(bootstrap, **{"enable.partition.eof": True})
    found: list[list[Message]] = [[] for _ in range(partitions)]
    left = set(range(partitions))
    deadline = time.monotonic() + 20
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in left])
        while left:
            assert time.monotonic() < deadline, f"the end of {left} did not come"
            for message in consumer.consume(10_000, timeout=0.1):
                error, partition = message.error(), message.partition() or 0
                if error is None:
                    found[partition].append(message)
                else:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    left.discard(partition)
    finally:
        consumer.close()
    return [message for messages in found for message in messages]


def header(message: Message, name: str) -> str | None:
    found = dict(message.headers() or [])
    value = found.get(name)
    return value.decode() if isinstance(value, bytes) else value


def readings_in(bootstrap: str, topic: str, partitions: int = 12) -> pa.Table:
    """Every reading of a topic, decoded; each partition's in order."""
    messages = messages_in(bootstrap, topic, partitions)
    decoded = decode_messages(
        [m.value() for m in messages], [header(m, "content-type") for m in messages]
    )
    assert decoded.errors == []
    return plain(decoded.table)


def acknowledged(streamer: StreamerProcess) -> int:
    return int(streamer.status()["readings"]["acknowledged"])
