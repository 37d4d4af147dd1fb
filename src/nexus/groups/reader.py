"""Reads the primitives of Kafka's record formats; whatever is wrong becomes `MalformedMessage`."""

from __future__ import annotations

from nexus.wire.errors import MalformedMessage

STRING_BYTES_MAX = 2**15 - 1


class Reader:
    """A position in some bytes; `flexible` switches to compact lengths and tagged fields."""

    __slots__ = ("_at", "_data", "flexible")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self.flexible = False

    def int16(self) -> int:
        return int.from_bytes(self._take(2), "big", signed=True)

    def int32(self) -> int:
        return int.from_bytes(self._take(4), "big", signed=True)

    def int64(self) -> int:
        return int.from_bytes(self._take(8), "big", signed=True)

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise MalformedMessage("a string is null that may not be")
        return text

    def nullable_string(self) -> str | None:
        length = self._varint() - 1 if self.flexible else self.int16()
        if length < 0:
            return None
        if length > STRING_BYTES_MAX:
            raise MalformedMessage(f"a string claims {length} bytes")
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise MalformedMessage("a string is not UTF-8") from error

    def data(self) -> bytes:
        length = self._varint() - 1 if self.flexible else self.int32()
        if length < 0:
            raise MalformedMessage("bytes are null that may not be")
        return self._take(length)

    def count(self, element_bytes_min: int) -> int:
        """The length of an array, which must be able to fit in what remains."""
        count = self._varint() - 1 if self.flexible else self.int32()
        if not 0 <= count * element_bytes_min <= len(self._data) - self._at:
            raise MalformedMessage(f"an array claims {count} elements")
        return count

    def tags(self) -> None:
        """Skip the tagged fields that end a flexible structure."""
        if self.flexible:
            for _ in range(self._varint()):
                self._varint()
                self._take(self._varint())

    def end(self) -> None:
        if self._at != len(self._data):
            raise MalformedMessage(f"{len(self._data) - self._at} bytes too many")

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise MalformedMessage("a varint is too long")

    def _take(self, length: int) -> bytes:
        end = self._at + length
        if end > len(self._data):
            raise MalformedMessage("cut short")
        taken = self._data[self._at : end]
        self._at = end
        return taken


def subscribed_topics(subscription: bytes) -> frozenset[str]:
    """The topics in a consumer's subscription; all its versions begin alike."""
    reader = Reader(subscription)
    reader.int16()
    return frozenset(reader.string() for _ in range(reader.count(2)))
