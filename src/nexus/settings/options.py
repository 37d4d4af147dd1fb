"""Sections are frozen dataclasses whose fields carry their option: key, kind, variables.

`resolve` takes one section through its sources, weakest first: default, preset, file, environment,
flag.
"""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import IntEnum
from functools import lru_cache
from typing import Any, Final

from nexus.settings.entry import Entry
from nexus.settings.errors import SettingsError
from nexus.settings.kinds import Kind
from nexus.settings.place import Place

_METADATA_KEY: Final = "nexus.option"
_FOUND_CHARACTERS_MAX: Final = 60


class Strength(IntEnum):
    """Where a value came from; a greater one overrides a lesser one."""

    DEFAULT = 0
    PRESET = 1
    FILE = 2
    ENVIRONMENT = 3
    FLAG = 4


@dataclass(frozen=True, slots=True)
class Source:
    """One value's origin: `where` names the flag, the variable, or the file and line."""

    strength: Strength
    where: str

    def __str__(self) -> str:
        return self.where


DEFAULT: Final = Source(Strength.DEFAULT, "default")


@dataclass(frozen=True, slots=True)
class Option:
    """How one field is called outside: its key in YAML, its kind, other variables that set it."""

    key: str
    kind: Kind
    environment: tuple[str, ...] = ()
    live: bool = False  # whether a running part takes up another value


@dataclass(frozen=True, slots=True)
class FlagValue:
    """A value from the command line, with the flag's name for messages."""

    flag: str
    value: object


def flags_given(told: Mapping[str, tuple[str, object]]) -> dict[str, FlagValue]:
    """Those that were given, by the dotted name of the option that they set."""
    return {key: FlagValue(flag, value) for key, (flag, value) in told.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything that may set a value; the file's entries are empty when there is no file."""

    file: Place | None
    sections: Mapping[str, Entry]
    environ: Mapping[str, str]
    flags: Mapping[str, FlagValue]
    # What a preset stands for, by dotted name, and where it was chosen.
    preset: Mapping[str, object] = field(default_factory=dict)
    preset_source: Source = DEFAULT


def option(
    key: str,
    kind: Kind,
    default: object,
    *,
    environment: tuple[str, ...] = (),
    live: bool = False,
) -> Any:
    """A dataclass field for a setting; its default is written as a user would write it."""
    value = default if default is None else kind.parse(default)
    return field(default=value, metadata={_METADATA_KEY: Option(key, kind, environment, live)})


@lru_cache(maxsize=64)
def options_of(section: type) -> dict[str, Option]:
    """Field name to option, in the order of declaration."""
    return {f.name: f.metadata[_METADATA_KEY] for f in fields(section)}


def environment_name(section: str, key: str) -> str:
    """`storage`, `segment_size` is set by NEXUS_STORAGE_SEGMENT_SIZE."""
    return f"NEXUS_{section}_{key}".upper()


def resolve(section: str, cls: type, inputs: Inputs) -> tuple[dict[str, Any], dict[str, Source]]:
    """The values to build `cls` with, and the source of each option by its dotted name."""
    given = section_entries(section, inputs)
    options = options_of(cls)
    refuse_unknown(given, [o.key for o in options.values()], section, inputs.file)
    values: dict[str, Any] = {}
    sources: dict[str, Source] = {}
    for name, opt in options.items():
        dotted = f"{section}.{opt.key}"
        sources[dotted] = DEFAULT
        for source, raw in _candidates(section, opt, given, inputs):
            values[name] = parse_value(opt.kind, raw, dotted, source)
            sources[dotted] = source
    return values, sources


def section_entries(section: str, inputs: Inputs) -> Mapping[str, Entry]:
    """What the file says in a section; a section that is not a mapping is refused."""
    entry = inputs.sections.get(section)
    if entry is None:
        return {}
    return entries_below(entry, section, inputs.file)


def entries_below(entry: Entry, dotted: str, file: Place | None) -> Mapping[str, Entry]:
    entries = entry.mapping()
    if entries is None:
        raise SettingsError(
            f"{file}:{entry.line}: {dotted}: found {found(entry.value)},"
            " expected `key: value` lines"
        )
    return entries


def refuse_unknown(
    given: Mapping[str, Entry], known: Iterable[str], section: str, file: Place | None
) -> None:
    """An unknown key is one error line, with the nearest known one when there is one."""
    names = list(known)
    for key, entry in given.items():
        if key not in names:
            dotted = f"{section}.{key}" if section else key
            raise SettingsError(
                f"{file}:{entry.line}: {dotted}: unknown key{suggestion(key, names)}"
            )


def suggestion(word: str, known: list[str]) -> str:
    near = difflib.get_close_matches(word.lower(), known, n=1, cutoff=0.6)
    if near:
        return f"; did you mean {near[0]}?"
    return f"; known here: {', '.join(known)}"


def parse_value(kind: Kind, raw: object, dotted: str, source: Source) -> Any:
    try:
        return kind.parse(raw)
    except ValueError as error:
        raise SettingsError(
            f"{source.where}: {dotted}: found {found(raw)}, expected {error}"
        ) from None


def found(raw: object) -> str:
    """A raw value for a message: on one line and not too long."""
    if raw is None:
        return "nothing"
    if isinstance(raw, bool):
        return "true" if raw else "false"
    if isinstance(raw, dict):
        return "a mapping"
    text = f'"{raw}"' if isinstance(raw, str) else str(raw)
    shown = "".join(c if c.isprintable() else "?" for c in text)
    return shown if len(shown) <= _FOUND_CHARACTERS_MAX else shown[:_FOUND_CHARACTERS_MAX] + "…"


def _candidates(
    section: str, opt: Option, given: Mapping[str, Entry], inputs: Inputs
) -> Iterable[tuple[Source, object]]:
    dotted = f"{section}.{opt.key}"
    if dotted in inputs.preset:
        yield inputs.preset_source, inputs.preset[dotted]
    entry = given.get(opt.key)
    if entry is not None:
        yield Source(Strength.FILE, f"{inputs.file}:{entry.line}"), entry.value
    for variable in (*opt.environment, environment_name(section, opt.key)):
        raw = inputs.environ.get(variable)
        if raw and not _is_service_link(opt.key, raw):
            yield Source(Strength.ENVIRONMENT, f"environment {variable}"), raw
    flag = inputs.flags.get(dotted)
    if flag is not None:
        yield Source(Strength.FLAG, f"flag {flag.flag}"), flag.value


def _is_service_link(key: str, raw: str) -> bool:
    """Kubernetes sets NEXUS_BROKER_PORT=tcp://… for a service called nexus-broker: not ours."""
    return key == "port" and raw.startswith("tcp://")
