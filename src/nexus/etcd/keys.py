"""One key, a range of keys, or all that begin alike: what every call of etcd is about."""

from __future__ import annotations

from typing import NamedTuple, Self

_ALL_AFTER = b"\x00"  # as an end: no end


class Keys(NamedTuple):
    """Keys from `start` to before `end`; only `start` itself where `end` is empty."""

    start: bytes
    end: bytes = b""

    @classmethod
    def prefix(cls, start: bytes) -> Self:
        """All keys that begin so; with an empty prefix, all keys."""
        stripped = start.rstrip(b"\xff")
        if not stripped:
            return cls(start or _ALL_AFTER, _ALL_AFTER)
        return cls(start, stripped[:-1] + bytes([stripped[-1] + 1]))

    @classmethod
    def since(cls, start: bytes) -> Self:
        """This key and all after it."""
        return cls(start, _ALL_AFTER)

    @property
    def single(self) -> bool:
        return not self.end

    def after(self, key: bytes) -> Keys:
        """What is left of the range once `key` and all before it are done."""
        return Keys(key + b"\x00", self.end)


def keys_of(given: bytes | Keys) -> Keys:
    return given if isinstance(given, Keys) else Keys(given)
