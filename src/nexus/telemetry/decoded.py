"""What decoding messages gives: the readings of the good ones, and a reason for each bad one."""

from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from nexus.telemetry.reading import ENCODED_TEXT, SOURCE_SCHEMA


@dataclass(frozen=True, slots=True)
class MessageError:
    """Why one message of a batch gave no reading."""

    index: int  # of the message among those given
    reason: str


@dataclass(frozen=True, slots=True)
class Decoded:
    """The readings of the good messages, in order, and what was wrong with the others."""

    table: pa.Table  # ENCODED_SOURCE_SCHEMA
    errors: list[MessageError]
    origin: pa.Array  # int32: for each reading, the index of its message


# Decoded text is always encoded in the same way, so that tables of any origin fit together.
ENCODED_SOURCE_SCHEMA = pa.schema(
    [f.with_type(ENCODED_TEXT) if pa.types.is_string(f.type) else f for f in SOURCE_SCHEMA]
)


def nothing(errors: list[MessageError]) -> Decoded:
    """No readings at all."""
    return Decoded(ENCODED_SOURCE_SCHEMA.empty_table(), errors, pa.array([], pa.int32()))


def in_order(parts: list[Decoded], errors: list[MessageError]) -> Decoded:
    """All the parts as one, readings and errors in the order of their messages."""
    errors = sorted([*errors, *(e for part in parts for e in part.errors)], key=lambda e: e.index)
    full = [part for part in parts if part.table.num_rows]
    if not full:
        return nothing(errors)
    if len(full) == 1:
        return Decoded(full[0].table, errors, full[0].origin)
    table = pa.concat_tables([part.table for part in full]).unify_dictionaries()
    origin = pa.concat_arrays([part.origin for part in full])
    if _ascending(full):
        return Decoded(table, errors, origin)
    order = pc.sort_indices(pa.table({"origin": origin}), sort_keys=[("origin", "ascending")])
    return Decoded(table.take(order), errors, origin.take(order))


def _ascending(parts: list[Decoded]) -> bool:
    ends = [(part.origin[0].as_py(), part.origin[-1].as_py()) for part in parts]
    return all(before[1] <= after[0] for before, after in pairwise(ends))
