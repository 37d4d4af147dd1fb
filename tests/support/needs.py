"""What a test needs from the machine: without it the test is skipped, under CI=true it fails.

A developer without kcat still gets an answer from the other tests; a build never passes by
having tested less than it says.
"""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest


def need_program(name: str) -> str:
    """The path of a program that the test runs."""
    path = shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    return path or missing(f"{name} is not installed (`make packages` installs it)")


def need_root() -> None:
    if os.geteuid() != 0:
        missing("only root may do what this test does")


def missing(what: str) -> NoReturn:
    """End the test because of something that is not here."""
    if os.environ.get("CI", "").lower() in ("true", "1"):
        pytest.fail(f"{what}, and under CI=true nothing is skipped", pytrace=False)
    pytest.skip(what)
