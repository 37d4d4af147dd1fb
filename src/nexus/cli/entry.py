"""The entry point: runs a command line, and turns what went wrong into one line and a code.

0 is success, 1 a failure, 2 a wrong call or setting, 130 Ctrl-C. No tracebacks for known errors.
"""

import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from nexus.cli.plain import plain_broker_call
from nexus.errors import NexusError


def main() -> None:
    """The `nexus` command."""
    code = run(sys.argv[1:])
    if threading.active_count() > 1:
        _leave_threads(code)
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit code; prints at most one line about an error."""
    try:
        code = _dispatch(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        return _reader_gone()
    except KeyboardInterrupt:
        return 130
    except NexusError as error:
        return fail(str(error), getattr(error, "exit_code", 1))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return fail(f"{where}{error.strerror or error}", 1)
    return code


def fail(message: str, code: int) -> int:
    """One line on standard error."""
    print(f"nexus: {message}", file=sys.stderr)
    return code


def _dispatch(arguments: Sequence[str]) -> int:
    call = plain_broker_call(arguments)
    if call is not None:
        return call.start()
    from nexus.cli.app import run_command

    return run_command(arguments)


def _leave_threads(code: int) -> NoReturn:
    """End without taking the interpreter apart under threads that may still be in native code.

    A failure may leave some, of Spark's gateway or of a commit under way. A collector whose Java
    machine was killed has been seen to end with a segmentation fault instead of its code.
    """
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _reader_gone() -> int:
    """Whoever read our output has closed it (`nexus topics tail | head`): stop without a word."""
    # The interpreter flushes standard output once more at exit; that must find somewhere to go.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1
