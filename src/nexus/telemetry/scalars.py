"""Arrow scalars that are made once: pyarrow looks for an optional package each time it makes one.

Where that package is not installed, the search costs a tenth of a millisecond, which a function
for small batches pays dozens of times.
"""

from functools import lru_cache
from typing import Final

import pyarrow as pa


@lru_cache(maxsize=4096)
def scalar(value: str | float | bool | None, kind: pa.DataType) -> pa.Scalar:
    """A constant for a compute function, taken out of an array (which needs no search)."""
    return pa.array([value], kind)[0]


def whole(number: int) -> pa.Scalar:
    """A whole number of 64 bits."""
    return scalar(number, pa.int64())


EMPTY: Final = scalar("", pa.string())
NO_TEXT: Final = scalar(None, pa.string())
YES: Final = scalar(True, pa.bool_())
NO: Final = scalar(False, pa.bool_())
