"""What the decoder's and the encoder's generators share: source lines, names and wire facts.

A run of fixed-size fields is gathered and becomes one `struct` call.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct
from typing import Any

from nexus.wire.fields import Description, Field, Kind, describe

FIXED = {
    Kind.BOOL: "?",
    Kind.INT8: "b",
    Kind.INT16: "h",
    Kind.INT32: "i",
    Kind.INT64: "q",
    Kind.UUID: "16s",
}


class Source:
    """Python source under construction, and the names that it will run with."""

    def __init__(self, cls: type, version: int, method: str) -> None:
        self.version = version
        self.flexible = version in describe(cls).flexible
        self.names: dict[str, Any] = {}
        self.run: list[tuple[str, str]] = []
        self._method = method
        self._title = f"{cls.__name__} version {version}, {method}"
        self._lines: list[str] = []
        self._depth = 0
        self._serial = 0

    def emit(self, line: str) -> None:
        """Add one line at the present depth."""
        self._lines.append("    " * self._depth + line)

    @contextmanager
    def block(self, line: str) -> Iterator[None]:
        """Add a line that opens a block; what is added inside belongs to it."""
        self.emit(line)
        self._depth += 1
        yield
        self._depth -= 1

    def unique(self, stem: str) -> str:
        """Make a name that nothing else in this source has."""
        self._serial += 1
        return f"{stem}{self._serial}"

    def name(self, stem: str, value: object) -> str:
        """Bind a value to a name of its own."""
        name = self.unique(stem)
        self.names[name] = value
        return name

    def packer(self, formats: list[str]) -> str:
        """Bind the `struct` method for these formats."""
        text = ">" + "".join(formats)
        name = "struct_" + text[1:].replace("?", "t")
        self.names[name] = getattr(Struct(text), self._method)
        return name

    def compact(self, field: Field) -> bool:
        """Tell whether a field's length prefix is a varint here."""
        return self.flexible and not field.rigid

    def build(self, head: str) -> Any:
        """Compile the function whose first line is `head`."""
        lines = [head, *("    " + line for line in self._lines or ["pass"])]
        code = compile("\n".join(lines), f"<{self._title}>", "exec")
        exec(code, self.names)
        return self.names[head.split()[1].partition("(")[0]]


def present(description: Description, version: int) -> list[Field]:
    """List the fields that stand in the body in this version."""
    return [f for f in description.fields if version in f.versions and f.tag is None]


def tagged(description: Description, version: int) -> list[Field]:
    """List the fields that are tagged in this version, by tag."""
    fields = [f for f in description.fields if version in f.versions and f.tag is not None]
    return sorted(fields, key=lambda f: f.tag or 0)


def least_size(element: Kind | type, version: int, flexible: bool) -> int:
    """Count the bytes that any value of this type takes at least."""
    if not isinstance(element, Kind):
        sizes = [least_size(f.kind, version, flexible) for f in present(describe(element), version)]
        return sum(sizes) + flexible
    if element in FIXED:
        return Struct(">" + FIXED[element]).size
    if flexible:
        return 1
    return 2 if element is Kind.STRING else 4
