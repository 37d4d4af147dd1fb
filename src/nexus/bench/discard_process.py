"""Runs the discarding server in a process of its own for as long as it is needed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from nexus.bench.clients import BenchFailed


@contextmanager
def discard_server(partitions: int) -> Iterator[tuple[str, str]]:
    """Its address, and the name of a topic to send to."""
    code = f"from nexus.bench.discard import main; main({partitions})"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("discarding on "):
            raise BenchFailed("the discarding server did not start")
        yield line.removeprefix("discarding on ").strip(), "discard"
    finally:
        process.terminate()
        process.wait(10)
        if process.stdout is not None:
            process.stdout.close()
