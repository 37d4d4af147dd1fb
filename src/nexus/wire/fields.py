"""How a Kafka message is described: fields, their types, and the versions that have them.

`@message` turns a class of such fields into a slotted class with keyword arguments, defaults, `==`
and `repr`. It does little at import: constructors and codecs are compiled when first used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import Enum, auto
from typing import Any, NamedTuple, Protocol, TypeVar, dataclass_transform
from uuid import UUID

T = TypeVar("T")

ZERO_UUID = UUID(int=0)
# Tagged fields from here on are ours and in no definition of Kafka's: others skip them.
OWN_TAGS = 10_000


class Payload(Protocol):
    """Records that are not in memory, such as a slice of a file."""

    @property
    def size(self) -> int:
        """How many bytes they are."""


Records = bytes | bytearray | memoryview | Payload


class Kind(Enum):
    """A field's type on the wire."""

    BOOL = auto()
    INT8 = auto()
    INT16 = auto()
    INT32 = auto()
    INT64 = auto()
    UUID = auto()
    STRING = auto()
    BYTES = auto()
    RECORDS = auto()
    ARRAY = auto()
    STRUCT = auto()


class Versions(NamedTuple):
    """An inclusive range of versions, written `3+`, `0-7` or `4`."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Read the notation of Kafka's own definitions."""
        if text.endswith("+"):
            return cls(int(text[:-1]), sys.maxsize)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))


ALWAYS = Versions(0, sys.maxsize)
NEVER = Versions(0, -1)


class Field:
    """One field: its kind, the versions that have it, and what stands in where they do not."""

    __slots__ = ("default", "element", "kind", "name", "nullable", "rigid", "tag", "versions")

    def __init__(
        self,
        kind: Kind,
        versions: str,
        default: object,
        *,
        nullable: str | None = None,
        tag: int | None = None,
        element: Kind | type | None = None,
        rigid: bool = False,
    ) -> None:
        self.name = ""
        self.kind = kind
        self.versions = ALWAYS if versions == "0+" else Versions.parse(versions)
        self.nullable = NEVER if nullable is None else Versions.parse(nullable)
        self.default = default
        self.tag = tag
        self.element = element
        self.rigid = rigid  # keeps its old length prefix even in flexible versions


# These return `Any`, so that a type checker takes each for a default of its annotated type.


def boolean(versions: str = "0+", *, default: bool = False, tag: int | None = None) -> Any:
    """Describe a flag of one byte."""
    return Field(Kind.BOOL, versions, default, tag=tag)


def int8(versions: str = "0+", *, default: int = 0) -> Any:
    """Describe a signed integer of one byte."""
    return Field(Kind.INT8, versions, default)


def int16(versions: str = "0+", *, default: int = 0, tag: int | None = None) -> Any:
    """Describe a signed integer of two bytes."""
    return Field(Kind.INT16, versions, default, tag=tag)


def int32(versions: str = "0+", *, default: int = 0, tag: int | None = None) -> Any:
    """Describe a signed integer of four bytes."""
    return Field(Kind.INT32, versions, default, tag=tag)


def int64(versions: str = "0+", *, default: int = 0, tag: int | None = None) -> Any:
    """Describe a signed integer of eight bytes."""
    return Field(Kind.INT64, versions, default, tag=tag)


def uuid(versions: str = "0+") -> Any:
    """Describe an identifier of sixteen bytes; all zero stands for none."""
    return Field(Kind.UUID, versions, ZERO_UUID)


def string(
    versions: str = "0+",
    *,
    nullable: str | None = None,
    default: str | None = "",
    tag: int | None = None,
    rigid: bool = False,
) -> Any:
    """Describe UTF-8 text; `nullable` names the versions in which it may be None."""
    return Field(Kind.STRING, versions, default, nullable=nullable, tag=tag, rigid=rigid)


def binary(
    versions: str = "0+", *, nullable: str | None = None, default: bytes | None = b""
) -> Any:
    """Describe bytes that are copied out of the frame."""
    return Field(Kind.BYTES, versions, default, nullable=nullable)


def records(versions: str = "0+", *, nullable: str | None = None) -> Any:
    """Describe record batches: a slice of the frame, or a payload that is not in memory."""
    return Field(Kind.RECORDS, versions, None, nullable=nullable)


def array(
    element: Kind | type,
    versions: str = "0+",
    *,
    nullable: str | None = None,
    default: tuple[()] | None = (),
    tag: int | None = None,
) -> Any:
    """Describe a list; each message without a value of its own gets a fresh empty one."""
    return Field(Kind.ARRAY, versions, default, nullable=nullable, tag=tag, element=element)


def struct(
    element: type, versions: str = "0+", *, nullable: str | None = None, tag: int | None = None
) -> Any:
    """Describe a structure inside a message; None leaves a tagged or nullable one out."""
    return Field(Kind.STRUCT, versions, None, nullable=nullable, tag=tag, element=element)


class Description(NamedTuple):
    """What `@message` recorded about a class."""

    fields: tuple[Field, ...]
    versions: Versions
    flexible: Versions


@dataclass_transform(kw_only_default=True)
def message(versions: str, flexible: str | None = None) -> Callable[[type[T]], type[T]]:
    """Make a message, served in these versions, of a class of field descriptions."""
    ranges = Versions.parse(versions), NEVER if flexible is None else Versions.parse(flexible)
    return lambda cls: _build(cls, *ranges)


@dataclass_transform(kw_only_default=True)
def structure(cls: type[T]) -> type[T]:
    """Make a part of messages, whose versions are theirs, of a class of field descriptions."""
    return _build(cls, ALWAYS, NEVER)


def _build(cls: type[T], versions: Versions, flexible: Versions) -> type[T]:
    fields = []
    for name, value in vars(cls).items():
        if isinstance(value, Field):
            value.name = name
            fields.append(value)
    namespace = {
        "__slots__": tuple(field.name for field in fields),
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "__description__": Description(tuple(fields), versions, flexible),
        "__init__": _first_init,
        "__eq__": _equal,
        "__repr__": _repr,
    }
    return type(cls.__name__, (), namespace)


def describe(cls: type) -> Description:
    """Return the description of a message class."""
    description: Description = cls.__dict__["__description__"]
    return description


def is_required(field: Field) -> bool:
    """Whether a structure stands in every message."""
    return field.kind is Kind.STRUCT and field.tag is None and field.nullable == NEVER


def _first_init(self: object, **values: object) -> None:
    cls: Any = type(self)
    cls.__init__ = _compile_init(cls)
    cls.__init__(self, **values)


def _compile_init(cls: type) -> Any:
    """Write the constructor; arrays get a list, structures that must be there one, of their own."""
    names: dict[str, Any] = {"EMPTY": ()}
    arguments, body = ["self", "*"], []
    for field in describe(cls).fields:
        default = f"default_{field.name}"
        names[default] = field.default
        arguments.append(f"{field.name}={default}")
        value = field.name
        if field.kind is Kind.ARRAY:
            value = f"[] if {field.name} is EMPTY else {field.name}"
        elif is_required(field):
            names[f"make_{field.name}"] = field.element
            value = f"make_{field.name}() if {field.name} is None else {field.name}"
        body.append(f" self.{field.name} = {value}")
    source = "\n".join([f"def __init__({', '.join(arguments)}):", *body])
    exec(source, names)
    return names["__init__"]


def _equal(self: object, other: object) -> Any:
    if type(self) is not type(other):
        return NotImplemented
    return all(
        getattr(self, field.name) == getattr(other, field.name)
        for field in describe(type(self)).fields
    )


def _repr(self: object) -> str:
    fields = describe(type(self)).fields
    values = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in fields)
    return f"{type(self).__name__}({values})"
