"""`nexus streamer --queue etcd://…`: the same program on another queue."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from nexus.etcd.blocking import BlockingClient
from nexus.queue.etcd.forms import unpack
from nexus.queue.etcd.layout import Slot, readings_in
from nexus.telemetry.codec import decode_messages
from nexus.telemetry.reading import plain
from support.etcd import EtcdMember
from support.etcd_publishing import Contents, etcd_url
from support.streamers import StreamerProcess, write_csv
from support.waiting import wait_until

ROWS = 3000


@pytest.fixture
def member(tmp_path: Path) -> Iterator[EtcdMember]:
    etcd = EtcdMember(tmp_path / "etcd").start()
    yield etcd
    etcd.kill()


def streamer(where: Path, queue: str, **environ: str) -> StreamerProcess:
    source = f"csv://{write_csv(where / 'rows.csv', ROWS)}"
    return StreamerProcess(where / "streamer", queue, source, environ=environ)


def values_in(queue: Contents) -> list[float]:
    """The value of every reading in the queue; row n has the value n."""
    frames = [frame for item in queue.items() for frame in unpack(item.value)]
    types = [dict(frame.headers)["content-type"].decode() for frame in frames]
    decoded = decode_messages([frame.value for frame in frames], types)
    assert decoded.errors == []
    found: list[float] = plain(decoded.table).column("source_value").to_pylist()
    return found


def test_every_row_of_a_file_is_in_the_queue_once(member: EtcdMember, tmp_path: Path) -> None:
    address = f"etcd://{member.endpoint}"
    run = streamer(tmp_path, address, CLUSTER_ID="dc 1", MESSAGE_TTL="7200")
    assert run.run() == 0, run.stderr
    with BlockingClient(member.config()) as etcd:
        queue = Contents(etcd, etcd_url(address).layout)
        assert sorted(values_in(queue)) == list(range(ROWS))
        items = queue.items()
        assert {queue.layout.slot_of_key(i.key) for i in items} <= {
            Slot("dc-1", partition) for partition in range(12)
        }
        assert sum(readings_in(item.key) for item in items) == ROWS
        lease = items[0].lease
        info = etcd.run(lambda client: client.leases.look(lease))
        assert 7200 <= info.granted_s <= 1.1 * 7200
        assert info.remaining_s >= 7190


def test_a_queue_of_json_has_a_key_for_each_reading(member: EtcdMember, tmp_path: Path) -> None:
    address = f"etcd://{member.endpoint}/fleet?form=json"
    run = streamer(tmp_path, address, BATCH_SIZE="60")
    assert run.run() == 0, run.stderr
    with BlockingClient(member.config()) as etcd:
        queue = Contents(etcd, etcd_url(address).layout)
        items = queue.items()
        assert len(items) == ROWS
        assert orjson.loads(items[0].value)["metric_name"] == "DCGM_FI_DEV_GPU_UTIL"
        assert max(Counter(item.mod_revision for item in items).values()) <= 60
        assert sorted(values_in(queue)) == list(range(ROWS))


def test_an_etcd_that_comes_late_and_goes_away_gets_everything_once(
    member: EtcdMember, tmp_path: Path
) -> None:
    member.kill()
    address = f"etcd://{member.endpoint}?form=json"
    run = streamer(tmp_path, address)
    run.flags = ("--rate", "1500")
    run.start()
    try:
        time.sleep(1.0)
        member.start()
        with BlockingClient(member.config()) as etcd:
            queue = Contents(etcd, etcd_url(address).layout)
            wait_until(lambda: len(queue.items()) > 300, within=20)
            member.kill()
            time.sleep(0.5)
            member.start()
            assert run.wait(40) == 0, run.stderr
            assert sorted(values_in(queue)) == list(range(ROWS))
    finally:
        run.kill()
