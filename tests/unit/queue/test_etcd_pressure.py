"""When a database counts as full, and where its quota is known from."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from nexus.etcd import EtcdConfig
from nexus.queue.etcd.pressure import DEFAULT_QUOTA_BYTES, Room, quota_in, quota_of
from support.ports import free_port

GB = 1 << 30


@pytest.mark.parametrize(
    ("room", "more", "says"),
    [
        (Room(1 * GB, 1 * GB, 2 * GB), 0, ""),
        (Room(int(1.69 * GB), int(1.69 * GB), 2 * GB), 0, ""),
        (Room(int(1.71 * GB), int(1.71 * GB), 2 * GB), 0, "at 85% of its quota of 2GB"),
        (Room(int(1.6 * GB), int(1.6 * GB), 2 * GB), GB // 5, "quota"),  # with what is to come
        (Room(int(1.8 * GB), GB // 2, 2 * GB), 0, ""),  # the file is large, and mostly free inside
        (Room(int(1.95 * GB), GB // 2, 2 * GB), 0, "nexus queue doctor --recover"),
        (Room(100 * GB, 100 * GB, 0), 0, ""),  # no quota
    ],
)
def test_a_database_is_full_before_it_is_at_its_quota(room: Room, more: int, says: str) -> None:
    assert says in room.full(more)
    assert bool(says) == bool(room.full(more))


@pytest.mark.parametrize(
    ("page", "quota"),
    [
        (b"# TYPE x gauge\netcd_server_quota_backend_bytes 2.147483648e+09\n", 2 * GB),
        (b"etcd_server_quota_backend_bytes 1.6777216e+07", 16 << 20),
        (b"etcd_server_quota_backend_bytes 0\n", DEFAULT_QUOTA_BYTES),
        (b"etcd_server_quota_backend_bytes -1\n", 0),
        (b"etcd_server_quota_backend_bytes many\n", None),
        (b"other_metric 7\n", None),
    ],
)
def test_the_quota_is_in_the_metrics(page: bytes, quota: int | None) -> None:
    assert quota_in(page) == quota


def test_the_address_knows_the_quota_best_and_etcds_default_is_the_last_resort() -> None:
    config = EtcdConfig((f"127.0.0.1:{free_port()}",))
    assert asyncio.run(quota_of(config, 7)) == 7
    assert asyncio.run(quota_of(config)) == DEFAULT_QUOTA_BYTES


def test_whoever_has_a_kafka_queue_does_not_load_the_client_of_etcd() -> None:
    story = (
        "import sys, nexus.queue.url, nexus.queue.opening, nexus.streamer.build as b;"
        "nexus.queue.url.parse_queue_url('kafka://h:1/t');"
        "assert 'grpc' not in sys.modules and 'nexus.etcd' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", story], check=True)
