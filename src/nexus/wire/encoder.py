"""Writes, for a message class and a version, the function that encodes it.

Records that are not in memory are left out: their length is written, and their place is noted.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from struct import pack
from typing import Any

from nexus.wire.fields import Field, Kind, Payload, describe
from nexus.wire.generator import FIXED, Source, present, tagged

Splits = list[tuple[int, Payload]]
Encoder = Callable[[Any, bytearray, "Splits | None"], None]


def compile_encoder(cls: type, version: int) -> Encoder:
    """Make the function `(message, out, splits)` that appends to `out`."""
    source = _EncoderSource(cls, version)
    source.structure(cls, "m")
    source.flush()
    encoder: Encoder = source.build("def encode(m, out, splits):")
    return encoder


def uvarint(value: int) -> bytes:
    """Encode an unsigned varint of 32 bits."""
    if value < 1 << 7:
        return bytes((value,))
    if value < 1 << 14:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 1 << 21:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    low = (value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14 & 0x7F | 0x80)
    return bytes(low) + uvarint(value >> 21)


class _EncoderSource(Source):
    """Emits statements that append to `out`."""

    def __init__(self, cls: type, version: int) -> None:
        super().__init__(cls, version, "pack")
        self.names.update(pack=pack, uvarint=uvarint, IN_MEMORY=(bytes, bytearray, memoryview))
        self._out = "out"

    def structure(self, cls: type, value: str) -> None:
        """Encode one structure that `value` names."""
        description = describe(cls)
        for field in present(description, self.version):
            self._field(field, f"{value}.{field.name}")
        if self.flexible:
            self._tags(tagged(description, self.version), value)

    def flush(self) -> None:
        """Write the gathered run of fixed-size fields at once."""
        if self.run:
            self.emit(f"{self._out} += {self._packed(self.run)}")
            self.run = []

    def _packed(self, run: list[tuple[str, str]]) -> str:
        values = ", ".join(value for _, value in run if value)
        return f"{self.packer([form for form, _ in run])}({values})"

    def _field(self, field: Field, value: str) -> None:
        if field.kind is Kind.UUID:
            self.run.append(("16s", f"{value}.bytes"))
        elif field.kind in FIXED:
            self.run.append((FIXED[field.kind], value))
        elif field.kind is Kind.ARRAY:
            self._array(field, value)
        elif field.kind is Kind.STRUCT:
            self._struct(field, value)
        elif field.kind is Kind.RECORDS:
            self._records(field, value)
        else:
            self._sized(field, value)

    def _struct(self, field: Field, value: str) -> None:
        assert isinstance(field.element, type)
        if self.version not in field.nullable:
            self.structure(field.element, value)
            return
        self.flush()
        with self.block(f"if {value} is None:"):
            self.emit(f"{self._out}.append(255)")  # -1
        with self.block("else:"):
            self.emit(f"{self._out}.append(1)")
            self.structure(field.element, value)
            self.flush()

    def _sized(self, field: Field, value: str) -> None:
        compact = self.compact(field)
        encoded = f"{value}.encode()" if field.kind is Kind.STRING else value
        with self._unless_null(field, value, "data = b''"):
            self.emit(f"data = {encoded}")
            self.emit("n = len(data) + 1" if compact else "n = len(data)")
        self._length(compact, "h" if field.kind is Kind.STRING else "i")
        self.emit(f"{self._out} += data")

    def _unless_null(
        self, field: Field, value: str, otherwise: str
    ) -> AbstractContextManager[None]:
        """Open the block for a value that is there; null sets `n` and runs `otherwise`."""
        if self.version not in field.nullable:
            return nullcontext()
        with self.block(f"if {value} is None:"):
            self.emit("n = 0" if self.compact(field) else "n = -1")
            self.emit(otherwise)
        return self.block("else:")

    def _length(self, compact: bool, form: str) -> None:
        """Write `n` as a length or count, together with the run before it."""
        run, self.run = self.run, []
        if not compact:
            self.emit(f"{self._out} += {self._packed([*run, (form, 'n')])}")
            return
        with self.block("if n < 128:"):
            self.emit(f"{self._out} += {self._packed([*run, ('B', 'n')])}")
        with self.block("else:"):
            if run:
                self.emit(f"{self._out} += {self._packed(run)}")
            self.emit(f"{self._out} += uvarint(n)")

    def _records(self, field: Field, value: str) -> None:
        compact = self.compact(field)
        self.emit(f"data = {value}")
        with self._unless_null(field, "data", "data = b''"):
            with self.block("if isinstance(data, IN_MEMORY):"):
                self.emit("n = len(data)")
            with self.block("else:"):
                self.emit("n = data.size")
            if compact:
                self.emit("n += 1")
        self._length(compact, "i")
        with self.block("if isinstance(data, IN_MEMORY):"):
            self.emit(f"{self._out} += data")
        with self.block("else:"):
            self.emit(f"splits.append((len({self._out}), data))")

    def _array(self, field: Field, value: str) -> None:
        compact = self.compact(field)
        items = self.unique("items")
        self.emit(f"{items} = {value}")
        with self._unless_null(field, items, f"{items} = ()"):
            self.emit(f"n = len({items}) + 1" if compact else f"n = len({items})")
        self._length(compact, "i")
        element = field.element
        if isinstance(element, Kind) and element in FIXED:
            self.emit(f"{self._out} += pack(f'>{{len({items})}}{FIXED[element]}', *{items})")
            return
        item = self.unique("e")
        with self.block(f"for {item} in {items}:"):
            if isinstance(element, Kind):
                self._sized(Field(element, "0+", None), item)
            else:
                assert element is not None
                self.structure(element, item)
            self.flush()

    def _tags(self, fields: list[Field], value: str) -> None:
        if not fields:
            self.run.append(("x", ""))  # a zero byte: no tags
            return
        self.flush()
        usual = [self._is_default(field, f"{value}.{field.name}") for field in fields]
        with self.block(f"if {' and '.join(usual)}:"):
            self.emit(f"{self._out}.append(0)")
        with self.block("else:"):
            count, outer = self.unique("count"), self._out
            self.emit(f"{count} = {' + '.join(f'(not ({test}))' for test in usual)}")
            self.emit(f"{outer} += uvarint({count})")
            for field, test in zip(fields, usual, strict=True):
                with self.block(f"if not ({test}):"):
                    self._out = self.unique("out")
                    self.emit(f"{self._out} = bytearray()")
                    self._field(field, f"{value}.{field.name}")
                    self.flush()
                    self.emit(f"{outer} += uvarint({field.tag})")
                    self.emit(f"{outer} += uvarint(len({self._out}))")
                    self.emit(f"{outer} += {self._out}")
                    self._out = outer

    def _is_default(self, field: Field, value: str) -> str:
        if field.default is None:
            return f"{value} is None"
        if field.kind is Kind.ARRAY:
            return f"not {value}"
        return f"{value} == {self.name('default', field.default)}"
