"""Messages to readings, whatever their content type; a bad one costs itself and nothing else."""

from collections.abc import Sequence

import pyarrow as pa

from nexus.telemetry.arrow_codec import decode_arrow
from nexus.telemetry.content import ARROW_TYPE, JSON_TYPE
from nexus.telemetry.decoded import Decoded, MessageError, in_order, nothing
from nexus.telemetry.errors import TelemetryError
from nexus.telemetry.json_codec import decode_json
from nexus.telemetry.scalars import scalar

__all__ = ["ARROW_TYPE", "JSON_TYPE", "Decoded", "MessageError", "decode_messages"]


def decode_messages(values: Sequence[bytes | None], content_types: Sequence[str | None]) -> Decoded:
    """Decode messages by their content types; one that says none is taken for JSON."""
    kinds = [_kind(content_type) for content_type in content_types]
    as_json = [n for n, kind in enumerate(kinds) if kind == JSON_TYPE]
    as_arrow = [n for n, kind in enumerate(kinds) if kind == ARROW_TYPE]
    errors = [
        MessageError(n, f"the content type {content_types[n]!r} is not known")
        for n, kind in enumerate(kinds)
        if kind not in (JSON_TYPE, ARROW_TYPE)
    ]
    parts = [_json_part(values, as_json)] if as_json else []
    parts += [_arrow_part(values[n] or b"", n) for n in as_arrow]
    return in_order(parts, errors)


def _kind(content_type: str | None) -> str:
    return (content_type or JSON_TYPE).partition(";")[0].strip().lower()


def _json_part(values: Sequence[bytes | None], indices: list[int]) -> Decoded:
    found = decode_json([values[n] or b"" for n in indices])
    positions = pa.array(indices, pa.int32())
    errors = [MessageError(indices[error.index], error.reason) for error in found.errors]
    return Decoded(found.table, errors, positions.take(found.origin))


def _arrow_part(value: bytes, index: int) -> Decoded:
    try:
        table = decode_arrow(value)
    except TelemetryError as error:
        return nothing([MessageError(index, str(error))])
    origin = pa.repeat(scalar(index, pa.int32()), table.num_rows)
    return Decoded(table, [], origin)
