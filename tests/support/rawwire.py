"""Kafka's wire by hand, byte for byte, for requests that no real client would send.

Nothing of the product's codec is used, so a fault there cannot hide here.
"""

from __future__ import annotations

import socket
import struct
import time
from types import TracebackType
from typing import Self

from crc32c import crc32c

PRODUCE, FETCH, METADATA, API_VERSIONS, INIT_PRODUCER_ID = 0, 1, 3, 18, 22
STORAGE_ERROR = 56


class RawConnection:
    """One TCP connection; every wait is bounded by `timeout` seconds."""

    def __init__(self, port: int, timeout: float = 10.0) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> bytes | None:
        """The next frame without its length; None when the broker has closed."""
        head = self._exactly(4)
        return None if head is None else self._exactly(int.from_bytes(head, "big"))

    def request(self, api: int, version: int, body: bytes, correlation: int = 1) -> bytes | None:
        """Send a request (header version 1); the response's body, None when the broker closed."""
        self.send(framed(request_header(api, version, correlation) + body))
        answer = self.receive()
        if answer is None:
            return None
        assert int.from_bytes(answer[:4], "big") == correlation
        return answer[4:]

    def closed(self) -> bool:
        """Whether the broker ends the connection (what it still sends is thrown away)."""
        try:
            while self.socket.recv(65536):
                pass
        except TimeoutError:
            return False
        except ConnectionError:
            return True
        return True

    def _exactly(self, size: int) -> bytes | None:
        parts = bytearray()
        while len(parts) < size:
            try:
                part = self.socket.recv(min(size - len(parts), 1 << 20))
            except ConnectionError:
                return None
            if not part:
                return None
            parts += part
        return bytes(parts)


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


def text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack(">h", len(encoded)) + encoded


def request_header(api: int, version: int, correlation: int = 1, client: str = "raw") -> bytes:
    return struct.pack(">hhi", api, version, correlation) + text(client)


def varint(value: int) -> bytes:
    """Zigzag."""
    left = (value << 1) ^ (value >> 63)
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def record(value: bytes, key: bytes | None = None, delta: int = 0) -> bytes:
    """One record of a batch, without headers."""
    keyed = varint(-1) if key is None else varint(len(key)) + key
    body = b"\0" + varint(0) + varint(delta) + keyed + varint(len(value)) + value + varint(0)
    return varint(len(body)) + body


def batch(
    records: bytes,
    count: int = 1,
    *,
    attributes: int = 0,
    last_delta: int | None = None,
    timestamp: int | None = None,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    magic: int = 2,
    crc: int | None = None,
) -> bytes:
    """A record batch around the (compressed) records, with a right checksum unless one is given."""
    delta = count - 1 if last_delta is None else last_delta
    at = int(time.time() * 1000) if timestamp is None else timestamp
    checked = struct.pack(
        ">hiqqqhii", attributes, delta, at, at, producer_id, epoch, sequence, count
    )
    checked += records
    checksum = crc32c(checked) if crc is None else crc
    rest = struct.pack(">ibI", 0, magic, checksum) + checked
    return struct.pack(">qi", 0, len(rest)) + rest


def produce_body(topic: str, records: bytes, *, acks: int = -1, partition: int = 0) -> bytes:
    """Produce, versions 3 to 8, to one partition."""
    head = struct.pack(">hhi", -1, acks, 10_000) + struct.pack(">i", 1) + text(topic)
    return head + struct.pack(">iii", 1, partition, len(records)) + records


def produce(
    connection: RawConnection, topic: str, records: bytes, partition: int = 0
) -> tuple[int, int]:
    """Produce one batch with acks=all; (error code, base offset)."""
    answer = connection.request(PRODUCE, 7, produce_body(topic, records, partition=partition))
    assert answer is not None, "the broker closed the connection"
    at = 4 + 2 + len(topic.encode()) + 4 + 4
    code, offset = struct.unpack_from(">hq", answer, at)
    return int(code), int(offset)


def fetch_body(
    topic: str,
    offset: int = 0,
    *,
    max_bytes: int = 1 << 20,
    wait_ms: int = 0,
    min_bytes: int = 1,
    partition: int = 0,
) -> bytes:
    """Fetch, version 4, of one partition."""
    head = struct.pack(">iiiib", -1, wait_ms, min_bytes, 1 << 26, 0)
    head += struct.pack(">i", 1) + text(topic)
    return head + struct.pack(">iiqi", 1, partition, offset, max_bytes)
