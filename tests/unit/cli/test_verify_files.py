"""`nexus topics verify --data-dir` on real log files, sound and damaged."""

import json
from pathlib import Path

import pytest

from nexus.cli.entry import run
from nexus.log import LogConfig, LogStore
from nexus.wire.batch import check_from_client
from nexus.wire.records import Record, encode_batch

Out = pytest.CaptureFixture[str]
BATCHES = 4


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A data directory with topic `t` of two partitions, four batches each, cleanly closed."""
    store = LogStore.open(tmp_path, now_ms=lambda: 1000)
    config = LogConfig()
    _, logs = store.create_topic("t", 2, {}, lambda _: config)
    for log in logs:
        for number in range(BATCHES):
            batch = memoryview(encode_batch([Record(0, 1000, b"k", b"%d" % number, ())]))
            log.append(batch, check_from_client(batch), 0)
    store.close()
    return tmp_path


def segment(data_dir: Path, partition: int) -> Path:
    return data_dir / "topics" / "t" / f"partition-{partition}" / f"{0:020d}.log"


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0xFF
    path.write_bytes(data)


def test_sound_files_are_said_to_be_so(data_dir: Path, capsys: Out) -> None:
    total = sum(segment(data_dir, p).stat().st_size for p in (0, 1))
    assert run(["topics", "verify", "--data-dir", str(data_dir)]) == 0
    assert capsys.readouterr().out == f"2 partitions, {total} bytes checked: all sound\n"


def test_a_flipped_bit_is_reported_with_file_and_offset(data_dir: Path, capsys: Out) -> None:
    path = segment(data_dir, 1)
    batch_bytes = path.stat().st_size // BATCHES
    flip(path, 2 * batch_bytes + 65)
    assert run(["topics", "verify", "--data-dir", str(data_dir)]) == 1
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith(f"t partition 1 offset 2 ({path} at byte {2 * batch_bytes}): ")
    assert last.endswith(": 1 damaged")


def test_damage_as_json_names_the_place(data_dir: Path, capsys: Out) -> None:
    path = segment(data_dir, 0)
    flip(path, 65)
    assert run(["topics", "verify", "t", "--data-dir", str(data_dir), "--json"]) == 1
    (damage,) = json.loads(capsys.readouterr().out)["damage"]
    assert (damage["topic"], damage["partition"], damage["offset"]) == ("t", 0, 0)
    assert (damage["file"], damage["position"]) == (str(path), 0)


def test_a_torn_tail_is_reported(data_dir: Path, capsys: Out) -> None:
    path = segment(data_dir, 0)
    path.write_bytes(path.read_bytes()[:-1])
    assert run(["topics", "verify", "--data-dir", str(data_dir)]) == 1
    assert "t partition 0 offset 3" in capsys.readouterr().out


def test_checking_changes_nothing(data_dir: Path) -> None:
    flip(segment(data_dir, 0), 65)
    before = {p: p.read_bytes() for p in data_dir.rglob("*") if p.is_file()}
    run(["topics", "verify", "--data-dir", str(data_dir)])
    assert {p: p.read_bytes() for p in data_dir.rglob("*") if p.is_file()} == before


def test_a_topic_that_is_not_there_is_one_line(data_dir: Path, capsys: Out) -> None:
    assert run(["topics", "verify", "x", "--data-dir", str(data_dir)]) == 2
    assert capsys.readouterr().err == f"nexus: {data_dir}: has no topic x\n"


def test_files_and_broker_are_not_checked_in_one_call(data_dir: Path, capsys: Out) -> None:
    words = ["topics", "verify", "--data-dir", str(data_dir), "--bootstrap", "a:1"]
    assert run(words) == 2
    assert capsys.readouterr().err == "nexus: give --data-dir or --bootstrap, not both\n"
