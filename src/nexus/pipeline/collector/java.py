"""Finds the Java that Spark will run on, and says what to install when there is none that will do.

The version comes from the installation's own `release` file; asking Java itself takes longer.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nexus.pipeline.errors import PipelineError

LEAST: Final = 17
_RELEASE: Final = re.compile(r'^JAVA_VERSION="([^"]+)"', re.MULTILINE)
_SAID: Final = re.compile(r'version "([^"]+)"')
_ANSWER_S: Final = 20.0
_ADVICE: Final = (
    f"install Java {LEAST} or newer (Debian and Ubuntu: apt install openjdk-{LEAST}-jre-headless),"
    " or set JAVA_HOME to where one is"
)


class NoJava(PipelineError):
    """Raised when there is no Java that Spark can run on."""


@dataclass(frozen=True, slots=True)
class Java:
    """One installation: its home and its version, such as 17.0.15."""

    home: Path
    version: str


def find_java(environ: Mapping[str, str]) -> Java:
    """The Java that Spark's scripts will start: JAVA_HOME's, else the one on the path."""
    program = _program(environ)
    home = program.resolve().parents[1]
    version = _released(home) or _asked(program)
    if version is None:
        raise NoJava(f"{program} does not say which Java it is: {_ADVICE}")
    if major(version) < LEAST:
        raise NoJava(f"Spark cannot run on {program}, which is Java {version}: {_ADVICE}")
    return Java(home, version)


def major(version: str) -> int:
    """17 of `17.0.15`, 8 of `1.8.0_292`; 0 of what is no version."""
    numbers = [int(part) for part in re.findall(r"\d+", version)]
    if not numbers:
        return 0
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def _program(environ: Mapping[str, str]) -> Path:
    home = environ.get("JAVA_HOME")
    if home:
        program = Path(home) / "bin" / "java"
        if not program.is_file():
            raise NoJava(f"JAVA_HOME is {home}, where there is no bin/java: {_ADVICE}")
        return program
    found = shutil.which("java", path=environ.get("PATH"))
    if found is None:
        raise NoJava(f"Spark needs Java, and there is none on the path: {_ADVICE}")
    return Path(found)


def _released(home: Path) -> str | None:
    try:
        found = _RELEASE.search((home / "release").read_text(errors="replace"))
    except OSError:
        return None
    return found[1] if found else None


def _asked(program: Path) -> str | None:
    try:
        said = subprocess.run(
            [str(program), "-version"], capture_output=True, timeout=_ANSWER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _SAID.search(said.stderr.decode(errors="replace"))
    return found[1] if found else None
