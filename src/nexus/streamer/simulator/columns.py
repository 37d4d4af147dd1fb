"""Arrow's arithmetic for integer columns and plain numbers.

Without numpy, Arrow looks for it anew at every plain Python value that it is given, which takes
longer than the arithmetic; so numbers and texts are made Arrow scalars here, once each.
"""

from functools import lru_cache
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

Operand: TypeAlias = pa.Array | pa.Scalar | int


@lru_cache(maxsize=4_096)
def number(value: int) -> pa.Scalar:
    """A whole number."""
    return pa.scalar(value, pa.int64())


@lru_cache(maxsize=1_024)
def word(value: str) -> pa.Scalar:
    """A text that is used again and again."""
    return pa.scalar(value, pa.string())


def _of(operand: Operand) -> pa.Array | pa.Scalar:
    return number(operand) if isinstance(operand, int) else operand


def add(left: Operand, right: Operand) -> pa.Array:
    return pc.add(_of(left), _of(right))


def subtract(left: Operand, right: Operand) -> pa.Array:
    return pc.subtract(_of(left), _of(right))


def multiply(left: Operand, right: Operand) -> pa.Array:
    return pc.multiply(_of(left), _of(right))


def divide(left: Operand, right: Operand) -> pa.Array:
    """Without the rest, towards zero."""
    return pc.divide(_of(left), _of(right))


def smaller(left: Operand, right: Operand) -> pa.Array:
    return pc.min_element_wise(_of(left), _of(right))


def larger(left: Operand, right: Operand) -> pa.Array:
    return pc.max_element_wise(_of(left), _of(right))


def equal(left: Operand, right: Operand) -> pa.Array:
    return pc.equal(_of(left), _of(right))


def differs(left: Operand, right: Operand) -> pa.Array:
    return pc.not_equal(_of(left), _of(right))


def less(left: Operand, right: Operand) -> pa.Array:
    return pc.less(_of(left), _of(right))


def choose(mask: pa.Array, yes: Operand, no: Operand) -> pa.Array:
    """One or the other by a column of truths."""
    return pc.if_else(mask, _of(yes), _of(no))


def join(*parts: pa.Array | pa.Scalar, between: str = "") -> pa.Array:
    """Texts put together row by row."""
    return pc.binary_join_element_wise(*parts, word(between))
