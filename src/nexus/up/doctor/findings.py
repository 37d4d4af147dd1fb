"""What a check found: how bad it is, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Level(Enum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor's; `advice` is what to do when all is not well."""

    check: str
    level: Level
    found: str
    advice: str = ""


def ok(check: str, found: str) -> Finding:
    return Finding(check, Level.OK, found)


def warning(check: str, found: str, advice: str) -> Finding:
    return Finding(check, Level.WARNING, found, advice)


def problem(check: str, found: str, advice: str) -> Finding:
    return Finding(check, Level.PROBLEM, found, advice)
