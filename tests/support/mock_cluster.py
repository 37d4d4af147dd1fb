"""librdkafka's built-in mock of a Kafka cluster: several brokers in this process, and their faults.

The client library offers it to C only, so it is called through ctypes in the library that
confluent-kafka has loaded already.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import c_char_p, c_int, c_int16, c_int32, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import Any

import confluent_kafka  # noqa: F401 - loads the library

_PRODUCER = 0
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "rd_kafka_conf_new": (c_void_p, []),
    "rd_kafka_conf_set": (c_int, [c_void_p, c_char_p, c_char_p, c_char_p, c_size_t]),
    "rd_kafka_new": (c_void_p, [c_int, c_void_p, c_char_p, c_size_t]),
    "rd_kafka_destroy": (None, [c_void_p]),
    "rd_kafka_mock_cluster_new": (c_void_p, [c_void_p, c_int]),
    "rd_kafka_mock_cluster_destroy": (None, [c_void_p]),
    "rd_kafka_mock_cluster_bootstraps": (c_char_p, [c_void_p]),
    "rd_kafka_mock_topic_create": (c_int, [c_void_p, c_char_p, c_int, c_int]),
    "rd_kafka_mock_partition_set_leader": (c_int, [c_void_p, c_char_p, c_int32, c_int32]),
    "rd_kafka_mock_partition_delete_records": (c_int, [c_void_p, c_char_p, c_int32, c_int64]),
    "rd_kafka_mock_broker_set_down": (c_int, [c_void_p, c_int32]),
    "rd_kafka_mock_push_request_errors_array": (
        None,
        [c_void_p, c_int16, c_size_t, ctypes.POINTER(c_int)],
    ),
}
FETCH, LIST_OFFSETS = 1, 2


def _library() -> Any:
    maps = Path("/proc/self/maps").read_text().splitlines()
    path = next(line.split()[-1] for line in maps if "librdkafka" in line)
    library = ctypes.CDLL(path)
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class MockCluster:
    """Brokers are numbered from 1. Calls that fail raise."""

    def __init__(self, library: Any, handle: Any) -> None:
        self._library = library
        self._handle = handle

    @property
    def bootstrap(self) -> str:
        text: bytes = self._library.rd_kafka_mock_cluster_bootstraps(self._handle)
        return text.decode()

    def create_topic(self, topic: str, partitions: int = 1) -> str:
        self._call("topic_create", topic.encode(), partitions, 1)
        return topic

    def set_leader(self, topic: str, partition: int, broker: int | None) -> None:
        """Another leader; None leaves the partition without one."""
        leader = -1 if broker is None else broker
        self._call("partition_set_leader", topic.encode(), partition, leader)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        self._call("partition_delete_records", topic.encode(), partition, before)

    def down(self, broker: int) -> None:
        self._call("broker_set_down", broker)

    def fail_next(self, api: int, *errors: int) -> None:
        """The next requests of this kind are answered with these errors."""
        codes = (c_int * len(errors))(*errors)
        self._library.rd_kafka_mock_push_request_errors_array(self._handle, api, len(errors), codes)

    def _call(self, name: str, *arguments: Any) -> None:
        error = getattr(self._library, f"rd_kafka_mock_{name}")(self._handle, *arguments)
        assert error == 0, f"{name}: error {error}"


@contextmanager
def mock_cluster(brokers: int = 3) -> Iterator[MockCluster]:
    library = _library()
    said = ctypes.create_string_buffer(200)
    settings = library.rd_kafka_conf_new()
    library.rd_kafka_conf_set(settings, b"log_level", b"0", said, len(said))
    client = library.rd_kafka_new(_PRODUCER, settings, said, len(said))
    assert client, said.value
    cluster = library.rd_kafka_mock_cluster_new(client, brokers)
    try:
        yield MockCluster(library, cluster)
    finally:
        library.rd_kafka_mock_cluster_destroy(cluster)
        library.rd_kafka_destroy(client)
