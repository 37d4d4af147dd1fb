"""strace on a running process: to watch system calls, or to make them fail for a while."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.needs import need_program
from support.waiting import wait_until

# Syncs that the kernel would do by itself are refused, so that they come as fdatasync calls.
PLAIN_SYNCS = ("-e", "trace=io_submit,fdatasync", "-e", "inject=io_submit:error=EAGAIN")

# The kernel's queue refuses too, so that the broker falls back to a thread that calls fdatasync.
SYNCS = "fdatasync,fsync,io_submit"
# The kernel says that it synced, and did nothing.
LYING_SYNCS = (
    *("-e", "trace=io_submit,fdatasync,fsync", "-e", "inject=io_submit:error=EAGAIN"),
    *("-e", "inject=fdatasync,fsync:retval=0"),
)

_LINE = re.compile(r"^(?:\d+\s+)?(?P<call>\w+)\((?P<arguments>.*)\)\s+= (?P<result>-?\d+)")
_HALF = re.compile(r"<\.\.\. (?P<call>\w+) resumed>.*\)\s+= (?P<result>-?\d+)")


@contextmanager
def traced(pid: int, output: Path, *options: str) -> Iterator[Path]:
    """strace attached to a process and all its threads while the block runs; what it wrote."""
    need_program("strace")
    said = output.with_suffix(".stderr")
    with said.open("wb") as stderr:
        command = ["strace", "-f", "-p", str(pid), "-o", str(output), *options]
        tracer = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=stderr)
    try:
        wait_until(lambda: "attached" in said.read_text() or tracer.poll(), what="strace attached")
        assert tracer.poll() is None, said.read_text()
        yield output
    finally:
        # strace detaches on SIGINT and leaves the process as it was.
        tracer.send_signal(signal.SIGINT)
        try:
            tracer.wait(10)
        except subprocess.TimeoutExpired:
            tracer.kill()
            tracer.wait(10)


@contextmanager
def failing(pid: int, output: Path, calls: str, error: str) -> Iterator[Path]:
    """Every one of these system calls fails with this error while the block runs."""
    options = ("-e", f"trace={calls}", "-e", f"inject={calls}:error={error}")
    with traced(pid, output, *options) as log:
        yield log


def results(output: Path, call: str) -> list[int]:
    """What each finished system call of this name returned."""
    found: list[int] = []
    for line in output.read_text(errors="replace").splitlines():
        match = _LINE.search(line) or _HALF.search(line)
        if match and match["call"] == call:
            found.append(int(match["result"]))
    return found
