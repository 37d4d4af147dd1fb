"""Random numbers without state: a number is a hash of what it is drawn for.

So a value does not depend on what was drawn before it, and the same function serves one Python
integer and a whole Arrow column (unsigned 64-bit arithmetic that wraps, the same everywhere).
"""

from collections.abc import Sequence
from functools import cache
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

T = TypeVar("T")

GOLDEN: Final = 0x9E3779B97F4A7C15
_FIRST: Final = 0xBF58476D1CE4E5B9
_SECOND: Final = 0x94D049BB133111EB
_WORD: Final = 0xFFFF_FFFF_FFFF_FFFF


@cache
def _u64(value: int) -> pa.Scalar:
    return pa.scalar(value, pa.uint64())


_SHIFTS: Final = tuple(_u64(bits) for bits in (30, 27, 31))
_FACTORS: Final = (_u64(_FIRST), _u64(_SECOND))


def mix(*keys: int) -> int:
    """A 64-bit number that any change of any key changes in every bit."""
    state = 0
    for key in keys:
        state = _finish((state + (key & _WORD) + GOLDEN) & _WORD)
    return state


def mix_column(column: pa.Array) -> pa.Array:
    """The finishing step of `mix` for every number of a uint64 column."""
    once = pc.multiply(_folded(column, 0), _FACTORS[0])
    twice = pc.multiply(_folded(once, 1), _FACTORS[1])
    return _folded(twice, 2)


def bits(column: pa.Array, shift: int, width: int) -> pa.Array:
    """Some bits of a hashed column as int64: several small draws out of one hash."""
    moved = pc.shift_right(column, _u64(shift)) if shift else column
    return pc.bit_wise_and(moved, _u64((1 << width) - 1)).cast(pa.int64())


class Draws:
    """Draws in order for one purpose, named by its keys."""

    def __init__(self, *keys: int) -> None:
        self._key = mix(*keys)
        self._count = 0

    def word(self) -> int:
        """The next 64 bits."""
        self._count += 1
        return mix(self._key, self._count)

    def below(self, limit: int) -> int:
        """A number from 0 to limit - 1."""
        return ((self.word() >> 32) * limit) >> 32

    def between(self, low: int, high: int) -> int:
        """A number from low to high, both possible."""
        return low + self.below(high - low + 1)

    def pick(self, choices: Sequence[T]) -> T:
        """One of the choices, all equally likely."""
        return choices[self.below(len(choices))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in another order."""
        keyed = sorted((self.word(), index) for index in range(len(items)))
        return [items[index] for _, index in keyed]


def _finish(value: int) -> int:
    value = ((value ^ (value >> 30)) * _FIRST) & _WORD
    value = ((value ^ (value >> 27)) * _SECOND) & _WORD
    return value ^ (value >> 31)


def _folded(column: pa.Array, step: int) -> pa.Array:
    return pc.bit_wise_xor(column, pc.shift_right(column, _SHIFTS[step]))
