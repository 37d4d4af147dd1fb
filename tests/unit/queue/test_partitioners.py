"""Keys go where every Kafka client with murmur2 puts them, or where the user says."""

import sys
from types import ModuleType

import pytest

from nexus.queue.errors import QueueError
from nexus.queue.partitioners import murmur2, partitioner_named


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        # From Apache Kafka's own tests of its hash.
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_kafkas(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected & 0x7FFFFFFF


def test_one_gpu_always_has_one_partition() -> None:
    partitioner = partitioner_named("murmur2")
    assert partitioner.by_key
    chosen = {partitioner.partition("GPU-1", 12) for _ in range(3)}
    assert len(chosen) == 1
    assert chosen == {murmur2(b"GPU-1") % 12}


def test_round_robin_takes_turns() -> None:
    partitioner = partitioner_named("round-robin")
    assert [partitioner.partition("x", 3) for _ in range(5)] == [0, 1, 2, 0, 1]


def test_a_users_function_is_asked_once_for_each_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    module = ModuleType("my_fleet")

    def choose(uuid: str, partitions: int) -> int:
        asked.append(uuid)
        return partitions - 1

    module.choose = choose  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "my_fleet", module)
    partitioner = partitioner_named("my_fleet:choose")
    assert [partitioner.partition("GPU-1", 4) for _ in range(3)] == [3, 3, 3]
    assert asked == ["GPU-1"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("sticky", "expected murmur2, round-robin or module:function"),
        ("no_such_module:f", "no_such_module"),
        ("json:no_such", "no_such"),
        ("json:__name__", "is not a function"),
    ],
)
def test_an_unknown_partitioner_is_one_clear_error(name: str, says: str) -> None:
    with pytest.raises(QueueError, match=says):
        partitioner_named(name)


def test_a_partition_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("wild")
    module.choose = lambda uuid, partitions: partitions  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wild", module)
    with pytest.raises(QueueError, match="expected 0 to 3"):
        partitioner_named("wild:choose").partition("GPU-1", 4)
