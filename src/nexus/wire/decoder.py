"""Writes, for a message class and a version, the function that decodes it.

Every count and length is checked against the bytes that remain before anything is allocated for it;
records stay slices of the frame.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct, unpack_from
from typing import Any
from uuid import UUID

from nexus.wire.errors import MalformedMessage
from nexus.wire.fields import Field, Kind, describe
from nexus.wire.generator import FIXED, Source, least_size, present, tagged

Decoder = Callable[[memoryview, int, int], tuple[Any, int]]

# An element (or a tag) costs far more as an object than on the wire; no honest message has so many.
ELEMENTS_MAX = 1 << 18
TEXT_MAX = (1 << 15) - 1


def compile_decoder(cls: type, version: int) -> Decoder:
    """Make the function `(view, at, end) -> (message, position after it)`."""
    source = _DecoderSource(cls, version)
    source.emit(f"elements = {ELEMENTS_MAX}")
    result = source.structure(cls)
    source.emit(f"return {result}, at")
    decoder: Decoder = source.build("def decode(view, at, end):")
    return decoder


def read_uvarint(view: memoryview, at: int, first: int) -> tuple[int, int]:
    """Finish an unsigned varint whose first byte, of those that go on, was read."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = view[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 128:
            if value > 0xFFFFFFFF:
                break
            return value, at
    raise MalformedMessage("a varint is longer than five bytes")


def read_tag(view: memoryview, at: int, end: int) -> tuple[int, int, int]:
    """Read the head of a tagged field: its tag, where its value begins, and where it ends."""
    tag, at = view[at], at + 1
    if tag > 127:
        tag, at = read_uvarint(view, at, tag)
    size, at = view[at], at + 1
    if size > 127:
        size, at = read_uvarint(view, at, size)
    if size > end - at:
        raise _overrun(f"tag {tag}", size, end - at)
    return tag, at, at + size


def skip_tags(view: memoryview, at: int, end: int, count: int) -> int:
    """Step over tagged fields that this version does not know."""
    for _ in range(count):
        _, _, at = read_tag(view, at, end)
    return at


def _overrun(where: str, claimed: int, left: int) -> MalformedMessage:
    return MalformedMessage(f"{where} claims {claimed} where {left} bytes remain")


_NAMES: dict[str, Any] = {
    "new": object.__new__,
    "unpack_from": unpack_from,
    "UUID": UUID,
    "read_uvarint": read_uvarint,
    "read_tag": read_tag,
    "skip_tags": skip_tags,
    "overrun": _overrun,
}


class _DecoderSource(Source):
    """Emits statements that move `at` through `view` up to `end`."""

    def __init__(self, cls: type, version: int) -> None:
        super().__init__(cls, version, "unpack_from")
        self.names.update(_NAMES)
        self._after_run: list[str] = []

    def structure(self, cls: type) -> str:
        """Decode one structure into a new local, and name it."""
        target = self.unique("o")
        description = describe(cls)
        self.emit(f"{target} = new({self.name('Class', cls)})")
        here = present(description, self.version)
        for field in description.fields:
            if field not in here:
                self.emit(f"{target}.{field.name} = {self._default(field)}")
        for field in here:
            self._field(field, f"{target}.{field.name}", f"{cls.__name__}.{field.name}")
        if self.flexible:
            self._tags(cls, target)
        self.flush()
        return target

    def flush(self) -> None:
        """Read the gathered run of fixed-size fields at once."""
        if self.run:
            formats = [form for form, _ in self.run]
            targets = "".join(target + ", " for _, target in self.run)
            if formats == ["B"]:
                self.emit(f"{targets[:-2]} = view[at]")
            else:
                self.emit(f"{targets}= {self.packer(formats)}(view, at)")
            self.emit(f"at += {Struct('>' + ''.join(formats)).size}")
            self.run.clear()
        for line in self._after_run:
            self.emit(line)
        self._after_run.clear()

    def _default(self, field: Field) -> str:
        if field.kind is Kind.ARRAY and field.default is not None:
            return "[]"
        return self.name("default", field.default)

    def _field(self, field: Field, target: str, where: str) -> None:
        if field.kind is Kind.UUID:
            raw = self.unique("raw")
            self.run.append(("16s", raw))
            self._after_run.append(f"{target} = UUID(bytes={raw})")
        elif field.kind in FIXED:
            self.run.append((FIXED[field.kind], target))
        elif field.kind is Kind.ARRAY:
            self._array(field, target, where)
        elif field.kind is Kind.STRUCT:
            self._struct(field, target, where)
        else:
            self._sized(field, f"{target} = {{}}", where)

    def _struct(self, field: Field, target: str, where: str) -> None:
        if self.version not in field.nullable:
            self.flush()
            self.emit(f"{target} = {self.structure(_struct_of(field))}")
            return
        self._length(compact=False, form="b")
        with self.block("if n >= 0:"):
            self.emit(f"{target} = {self.structure(_struct_of(field))}")
        self._null(field, f"{target} = {{}}", where)

    def _sized(self, field: Field, put: str, where: str) -> None:
        """Decode text, bytes or records; `put` says where the value goes."""
        compact = self.compact(field)
        self._length(compact, "h" if field.kind is Kind.STRING else "i")
        # Longer text could not be sent on in versions whose lengths have two bytes.
        too_long = f" or n > {TEXT_MAX}" if compact and field.kind is Kind.STRING else ""
        with self.block("if n >= 0:"):
            self.emit("stop = at + n")
            with self.block(f"if stop > end{too_long}:"):
                self.emit(f"raise overrun({where!r}, n, end - at)")
            self.emit(put.format(_VALUES[field.kind]))
            self.emit("at = stop")
        self._null(field, put, where)

    def _length(self, compact: bool, form: str) -> None:
        """Read a length or count into `n`, together with the run before it; -1 is null."""
        if compact:
            self._uvarint()
            self.emit("n -= 1")
        else:
            self.run.append((form, "n"))
            self.flush()

    def _uvarint(self) -> None:
        self.run.append(("B", "n"))
        self.flush()
        with self.block("if n > 127:"):
            self.emit("n, at = read_uvarint(view, at, n)")

    def _null(self, field: Field, put: str, where: str) -> None:
        if self.version in field.nullable:
            with self.block("elif n == -1:"):
                self.emit(put.format("None"))
        with self.block("else:"):
            self.emit(f"raise overrun({where!r}, n, end - at)")

    def _spend(self, least: int, where: str) -> None:
        """Check that `n` elements can follow, and that the message may still have so many."""
        self.emit("elements -= n")
        with self.block(f"if n * {least} > end - at or elements < 0:"):
            self.emit(f"raise overrun({where!r}, n, end - at)")

    def _array(self, field: Field, target: str, where: str) -> None:
        element = field.element
        assert element is not None
        self._length(self.compact(field), "i")
        with self.block("if n >= 0:"):
            self._spend(least_size(element, self.version, self.flexible), where)
            self._elements(element, target, where)
        self._null(field, f"{target} = {{}}", where)

    def _elements(self, element: Kind | type, target: str, where: str) -> None:
        if isinstance(element, Kind) and element in FIXED:
            form = FIXED[element]
            self.emit(f"{target} = list(unpack_from(f'>{{n}}{form}', view, at))")
            self.emit(f"at += n * {Struct('>' + form).size}")
            return
        items = self.unique("items")
        self.emit(f"{items} = {target} = []")
        with self.block("for _ in range(n):"):
            if isinstance(element, Kind):
                self._sized(Field(element, "0+", None), f"{items}.append({{}})", where)
            else:
                self.emit(f"{items}.append({self.structure(element)})")

    def _tags(self, cls: type, target: str) -> None:
        fields = tagged(describe(cls), self.version)
        self._uvarint()
        with self.block("if n:"):
            self._spend(2, f"{cls.__name__}'s tags")
            if not fields:
                self.emit("at = skip_tags(view, at, end, n)")
                return
            stop, tag = self.unique("stop"), self.unique("tag")
            with self.block("for _ in range(n):"):
                self.emit(f"{tag}, at, {stop} = read_tag(view, at, end)")
                for field in fields:
                    with self.block(f"if {tag} == {field.tag}:"):
                        self._tagged(field, cls, target, stop)
                self.emit(f"at = {stop}")

    def _tagged(self, field: Field, cls: type, target: str, stop: str) -> None:
        where = f"{cls.__name__}.{field.name}"
        self._field(field, f"{target}.{field.name}", where)
        self.flush()
        with self.block(f"if at != {stop}:"):
            self.emit(f"raise overrun({where!r}, at, {stop})")


_VALUES = {
    Kind.STRING: "str(view[at:stop], 'utf-8')",
    Kind.BYTES: "bytes(view[at:stop])",
    Kind.RECORDS: "view[at:stop]",
}


def _struct_of(field: Field) -> type:
    assert isinstance(field.element, type)
    return field.element
