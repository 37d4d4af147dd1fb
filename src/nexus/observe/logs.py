"""Structured logs on the standard library's logging: a message and named fields.

A terminal gets lines for people, anything else one JSON object a line. A log call never raises,
and nothing that a client sent can forge a line or drive the terminal.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, Literal, TextIO

Fields = Mapping[str, object]
Form = Literal["auto", "human", "json"]

_RESET: Final = "\x1b[0m"
_COLOURS: Final = {"DEBUG": "\x1b[2m", "WARNING": "\x1b[33m", "ERROR": "\x1b[31m"}
_FIELDS: Final = "nexus_fields"
_RESERVED: Final = frozenset({"time", "level", "logger", "message", "error"})


class Log:
    """A named logger whose calls take fields as keywords: `log.info("rolled", topic="t")`."""

    __slots__ = ("_fields", "_logger")

    def __init__(self, logger: logging.Logger, fields: Fields | None = None) -> None:
        self._logger = logger
        self._fields = dict(fields or {})

    def bind(self, **fields: object) -> Log:
        """The same logger with fields that every line of it carries."""
        return Log(self._logger, {**self._fields, **fields})

    def debug(self, message: str, /, **fields: object) -> None:
        self._write(logging.DEBUG, message, fields)

    def info(self, message: str, /, **fields: object) -> None:
        self._write(logging.INFO, message, fields)

    def warning(self, message: str, /, **fields: object) -> None:
        self._write(logging.WARNING, message, fields)

    def error(self, message: str, /, **fields: object) -> None:
        self._write(logging.ERROR, message, fields)

    def exception(self, message: str, /, **fields: object) -> None:
        """An error with the traceback of the exception being handled."""
        self._write(logging.ERROR, message, fields, exc_info=True)

    def _write(self, level: int, message: str, fields: Fields, *, exc_info: bool = False) -> None:
        if self._logger.isEnabledFor(level):
            extra = {_FIELDS: {**self._fields, **fields}}
            self._logger.log(level, message, exc_info=exc_info, extra=extra)


def get_logger(name: str) -> Log:
    return Log(logging.getLogger(name))


def configure(level: str = "info", stream: TextIO | None = None, form: Form = "auto") -> None:
    """Send every log of this process to `stream` (standard error); a later call replaces it."""
    target = stream or sys.stderr
    handler = _QuietHandler(target)
    terminal = _is_terminal(target)
    human = form == "human" or (form == "auto" and terminal)
    handler.setFormatter(HumanFormatter(colour=terminal) if human else JsonFormatter())
    root = logging.getLogger()
    for old in [h for h in root.handlers if isinstance(h, _QuietHandler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    if root.level > logging.DEBUG:
        logging.getLogger("httpx").setLevel(logging.WARNING)  # it tells of every request


class HumanFormatter(logging.Formatter):
    """`12:30:01.123 INFO  broker.server: segment rolled topic=t partition=3`"""

    def __init__(self, *, colour: bool) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created).strftime("%H:%M:%S.%f")[:-3]
        pairs = "".join(f" {name}={_plain(value)}" for name, value in _fields_of(record).items())
        head = f"{time} {record.levelname:<7} {_short(record.name)}: "
        line = head + _printable(_message_of(record)) + pairs
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        colour = _COLOURS.get(record.levelname) if self._colour else None
        return f"{colour}{line}{_RESET}" if colour else line


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": _utc(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message_of(record),
        }
        for name, value in _fields_of(record).items():
            entry[f"{name}_" if name in _RESERVED else name] = value
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        try:
            return json.dumps(entry, default=_text)
        except (TypeError, ValueError):
            return json.dumps({name: _text(value) for name, value in entry.items()})


class _QuietHandler(logging.StreamHandler[TextIO]):
    """Drops a line that cannot be written: a full disk or closed pipe must not stop the work."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - overrides the library's
        pass

    def flush(self) -> None:
        with suppress(ValueError, OSError):
            super().flush()


def _fields_of(record: logging.LogRecord) -> Fields:
    fields: Fields = getattr(record, _FIELDS, {})
    return fields


def _message_of(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - a library's bad format string still names its place
        return str(record.msg)


def _short(name: str) -> str:
    return name.removeprefix("nexus.")


def _utc(created: float) -> str:
    return datetime.fromtimestamp(created, UTC).isoformat(timespec="milliseconds")


def _plain(value: object) -> str:
    """A field's value as one word, quoted where it would not be one."""
    text = _text(value)
    if text and text.isprintable() and not set(text) & {" ", '"', "="}:
        return text
    return json.dumps(text)


def _printable(text: str) -> str:
    return text if text.isprintable() else json.dumps(text)[1:-1]


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - whatever an object's own code raises
        return f"<{type(value).__name__}>"


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except (AttributeError, ValueError):
        return False
