"""Keys, values and headers as people can read them; bytes that are no text are said to be so."""

import base64
from collections.abc import Sequence
from typing import Final

from nexus.cli.output import printable

Headers = Sequence[tuple[str, bytes | None]]

_PREVIEW_BYTES: Final = 24
_ARROW: Final = b"application/vnd.apache.arrow.stream"


def as_text(data: bytes | None, headers: Headers = ()) -> str:
    """One line for a terminal: text as it stands, otherwise its size and first bytes."""
    if data is None:
        return "null"
    fields = dict(headers)
    if fields.get("content-type") == _ARROW:
        count = (fields.get("count") or b"?").decode("ascii", "replace")
        return f"<{printable(count)} readings, arrow, {len(data)} bytes>"
    text = _decode(data)
    if text is not None:
        return printable(text)
    dots = "…" if len(data) > _PREVIEW_BYTES else ""
    return f"<{len(data)} bytes: {data[:_PREVIEW_BYTES].hex()}{dots}>"


def as_json(data: bytes | None) -> object:
    """Text as a string, other bytes as `{"base64": …}`, nothing as null."""
    if data is None:
        return None
    text = _decode(data)
    return text if text is not None else {"base64": base64.b64encode(data).decode()}


def _decode(data: bytes) -> str | None:
    """UTF-8 without the control characters that only binary data has."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text
