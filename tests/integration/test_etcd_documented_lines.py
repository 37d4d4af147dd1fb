"""The etcdctl lines on docs/etcd.md, run as they stand against a queue that has everything."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nexus.etcd.blocking import BlockingClient
from nexus.queue.etcd.claims import ClaimOptions
from nexus.queue.etcd.layout import Slot
from nexus.queue.etcd.worker import Worker
from support.etcd import EtcdMember
from support.etcd_queue import TestQueue
from support.needs import need_program
from support.waiting import wait_until

PAGE = Path(__file__).parents[2] / "docs" / "etcd.md"
SLOT = Slot("local-cluster", 0)
# What a line of the page must print, by words that are in it: as a regular expression.
EXPECTED = {
    "--write-out=fields": r'"Count" : 3\b',
    "get --prefix --limit=1 ": r'^/telemetry/queue/local-cluster/0/\d{19}_h1_0_\d+\n\{"n": 0\}$',
    "get --prefix --keys-only --limit=10": r"(/telemetry/queue/local-cluster/0/\S+\s*){3}",
    "get --prefix /telemetry/queue.meta/collectors/": r"^/telemetry/queue.meta/collectors/7\n",
    "get --prefix /telemetry/queue.meta/owners/": r"owners/local-cluster/0\nw-",
    "get --prefix /telemetry/queue.meta/bells/": r'"keys": 4\b',
    "get --prefix /telemetry/queue.meta/taken/": r'"keys":1\b',
    "get --prefix /telemetry/queue.meta/failed/": r'"reason": "no such GPU"',
    "get --prefix /telemetry/queue.meta/dead/": r'"reason": "no such GPU at all"',
    "get --prefix /telemetry/queue.dlq/": r'queue.dlq/local-cluster/0/\S+\n\{"n": 3\}',
    "put /telemetry/queue/by-hand": r"^OK$",
    '| etcdctl put "${dead/': r"^OK$",
    'del "$dead"': r"^1$",
    "del /telemetry/queue/local-cluster/0/ ": r"^1$",
    "del --prefix": r"^[1-9]\d*$",
    "endpoint status --write-out=table": r"127\.0\.0\.1:\d+",
    "alarm list": r"^$",
    "compact --physical": r"compacted revision \d+",
    "defrag": r"Finished defragmenting etcd member",
    "alarm disarm": r"^$",
}


def documented() -> list[str]:
    block = re.search(r"### With etcdctl.*?```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert block is not None
    return [line for line in block[1].splitlines() if not line.startswith("#")]


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[TestQueue]:
    member = EtcdMember(tmp_path).start()
    try:
        with BlockingClient(member.config()) as etcd:
            yield TestQueue(etcd, member.endpoint, "/telemetry/queue")
    finally:
        member.kill()


def test_every_documented_line_does_what_the_page_says(queue: TestQueue) -> None:
    """Three messages wait (one is old), one failed of them, one more is a dead letter."""
    now = time.time_ns()
    ages = [7_200_000_000_000, 20_000_000_000, 10_000_000_000, 5_000_000_000]
    queue.put(
        [(queue.key(n, SLOT, now - age), b'{"n": %d}' % n) for n, age in enumerate(ages)], [SLOT]
    )
    queue.etcd.put(queue.layout.meta("collectors", "7"), b"{}")
    options = ClaimOptions(name="w", max_attempts=2, retry_s=0.01, poll_s=0.05)
    with Worker(queue.address, options) as worker:
        *_, second, last = worker.claim(10, wait_s=1)
        worker.nack([second, last], "no such GPU")
        wait_until(lambda: _buried(worker, last.key))
        run_all(queue)


def _buried(worker: Worker, key: bytes) -> bool:
    for claimed in worker.claim(1, wait_s=0.1):
        if claimed.key == key:
            worker.nack([claimed], "no such GPU at all")
    return worker.buried == 1


def run_all(queue: TestQueue) -> None:
    """One shell for all lines, since some set variables for others."""
    endpoint = queue.endpoint
    environ = {"PATH": os.environ["PATH"], "ETCDCTL_ENDPOINTS": endpoint}
    need_program("etcdctl")
    script, asked = ["set -eo pipefail"], []
    for line in documented():
        if "etcdctl watch" in line:
            check_watch(queue, line, environ)
        elif re.match(r"export |\w+=", line):
            script.append(line)
        else:
            script += [line, "printf '\\x1e'"]
            asked.append(line)
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=60,
        check=False,
    )
    printed = done.stdout.decode(errors="replace").split("\x1e")
    assert done.returncode == 0, printed[-1]
    used = set()
    for line, output in zip(asked, printed, strict=False):
        matching = [words for words in EXPECTED if words in line]
        assert matching, f"nobody says what this prints: {line}"
        used |= set(matching)
        found = any(re.search(EXPECTED[w], output.strip(), re.MULTILINE) for w in matching)
        assert found, f"{line}\nprinted\n{output}"
    assert used == EXPECTED.keys()


def check_watch(queue: TestQueue, line: str, environ: dict[str, str]) -> None:
    with subprocess.Popen(line.split(), env=environ, stdout=subprocess.PIPE) as watch:
        assert watch.stdout is not None
        try:
            beside = Slot("other", 2)
            wait_until(lambda: _seen(queue, watch, beside), every=0.1)
        finally:
            watch.kill()
    queue.etcd.delete(queue.layout.slot(beside))


def _seen(queue: TestQueue, watch: subprocess.Popen[bytes], slot: Slot) -> bool:
    """Put until the watch, which takes a moment to start, has printed something."""
    queue.etcd.put(queue.key(1, slot), b"{}")
    assert watch.stdout is not None
    os.set_blocking(watch.stdout.fileno(), False)
    return b"PUT" in (watch.stdout.read() or b"")
