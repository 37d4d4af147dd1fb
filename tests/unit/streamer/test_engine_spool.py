"""The spool gives back what it was given, in order, after any crash."""

from pathlib import Path

import pytest

from nexus.queue.port import Message
from nexus.streamer.errors import SpoolFull
from nexus.streamer.spool import Spool, readings_in


def message(n: int, size: int = 10) -> Message:
    headers = (("content-type", b"application/json"), ("n", str(n).encode()))
    return Message(b"x" * size, f"k{n}".encode(), headers, 1000 + n, n % 4, n % 5 == 0)


def opened(path: Path, head: int = 0, bound: int = 1 << 20, segment: int = 1 << 20) -> Spool:
    spool = Spool(path, bound, segment)
    spool.open(head)
    return spool


def everything(spool: Spool) -> list[Message]:
    found: list[Message] = []
    at = spool.head
    while at < spool.tail:
        messages, at = spool.read(at, 100)
        found += messages
    return found


def test_messages_come_back_whole_and_in_order(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    sent = [message(n) for n in range(20)]
    for n in range(0, 20, 4):
        spool.append(sent[n : n + 4])
    assert everything(spool) == sent


def test_a_spool_outlives_its_process(tmp_path: Path) -> None:
    sent = [message(n) for n in range(6)]
    opened(tmp_path).append(sent)
    assert everything(opened(tmp_path)) == sent


def test_what_was_sent_is_forgotten_with_its_files(tmp_path: Path) -> None:
    spool = opened(tmp_path, segment=200)
    ends = [spool.append([message(n, 100)]) for n in range(6)]
    files = len(list(tmp_path.iterdir()))
    spool.release(ends[3])
    assert len(list(tmp_path.iterdir())) < files
    assert everything(spool) == [message(4, 100), message(5, 100)]
    assert everything(opened(tmp_path, ends[3], segment=200)) == everything(spool)
    spool.release(spool.tail)
    spool.clear()
    assert list(tmp_path.iterdir()) == []
    assert spool.size == 0


def test_a_torn_tail_is_cut_off(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    spool.append([message(1)])
    whole = spool.tail
    spool.append([message(2)])
    (path,) = tmp_path.iterdir()
    for cut in range(whole, spool.tail):
        data = path.read_bytes()
        path.write_bytes(data[:cut])
        again = opened(tmp_path)
        assert everything(again) == [message(1)]
        assert path.stat().st_size == whole
        path.write_bytes(data)


def test_what_the_disk_changed_is_counted_not_sent(tmp_path: Path) -> None:
    spool = opened(tmp_path, segment=150)
    for n in range(3):
        spool.append([message(n, 100)])
    first = sorted(tmp_path.iterdir())[0]
    data = bytearray(first.read_bytes())
    data[40] ^= 1
    first.write_bytes(data)
    assert everything(spool) == [message(1, 100), message(2, 100)]
    assert spool.damaged_bytes == len(data)


def test_a_spool_has_a_bound(tmp_path: Path) -> None:
    spool = opened(tmp_path, bound=100)
    assert spool.has_room(10_000), "an empty spool takes one parcel of any size"
    spool.append([message(1)])
    assert not spool.has_room(100)


def test_a_disk_that_refuses_leaves_the_spool_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = opened(tmp_path)
    spool.append([message(1)])

    def refuse(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr("os.fsync", refuse)
        with pytest.raises(SpoolFull, match="No space left"):
            spool.append([message(2)])
    spool.append([message(3)])
    assert everything(spool) == [message(1), message(3)]
    assert everything(opened(tmp_path)) == [message(1), message(3)]


def test_messages_say_how_many_readings_they_hold() -> None:
    many = Message(b"", None, (("count", b"7"),))
    one = Message(b"")
    dead = Message(b"", dead=True)
    assert readings_in([many, one, dead]) == 8
