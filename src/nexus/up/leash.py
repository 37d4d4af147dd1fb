"""Becomes another program that the kernel kills when whoever started it is gone, however it went.

Run as a script, before anything else: `python -I -S leash.py PARENT PROGRAM ARGUMENT…`.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(parent: int, command: list[str]) -> None:
    """Never returns."""
    # At once and not in good order: what is killed holds no port, and every part recovers from it.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it went before the kernel was told
        os.kill(os.getpid(), signal.SIGKILL)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
