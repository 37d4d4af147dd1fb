"""A gigabyte of CSV goes through in bounded memory, whatever the encoding."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.broker import BrokerProcess
from support.streamers import HEADER, StreamerProcess, long_rows, queue_of
from support.waiting import wait_until

LIMIT_BYTES = 300 << 20
FILE_BYTES = 1 << 30


def peak_bytes(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return 0
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) * 1024 if found else 0


@pytest.mark.chaos
@pytest.mark.timeout(600)
@pytest.mark.parametrize("encoding", ["arrow", "json"])
def test_memory_stays_bounded_on_a_gigabyte(
    broker: BrokerProcess, name: str, tmp_path: Path, encoding: str
) -> None:
    path = tmp_path / "large.csv"
    with path.open("w") as file:
        file.write(HEADER)
        rows = 0
        while file.tell() < FILE_BYTES:
            file.write("".join(long_rows(rows, 50_000, gpus=512)))
            rows += 50_000
    run = StreamerProcess(
        tmp_path / "s", queue_of(broker, name), f"csv://{path}", ("--encoding", encoding)
    ).start()
    peak = 0
    try:
        assert run.process is not None
        process = run.process

        def ended() -> bool:
            nonlocal peak
            peak = max(peak, peak_bytes(process.pid))
            return process.poll() is not None

        wait_until(ended, within=500, what="the end of the file", every=0.05)
        assert process.returncode == 0, run.stderr
    finally:
        run.kill()
    assert f"{rows:,} readings acknowledged" in run.stdout
    assert peak < LIMIT_BYTES, f"{peak / 1e6:.0f} MB"
