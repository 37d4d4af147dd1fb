"""`nexus collector` that dies, as by kill -9, at one exact moment of one commit.

NEXUS_TEST_DIE says when: `before readings 2` is before the third commit of new files to the table
of readings by this process, `after …` is after it. The product has no hook for this: its method
is wrapped here.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from nexus.cli import main
from nexus.lake.table import LakeTable


def dying(real: Callable[..., int], moment: str, table: str, number: int) -> Callable[..., int]:
    seen = 0

    def commit(self: LakeTable, added: Any, *rest: Any, **more: Any) -> int:
        nonlocal seen
        is_it = self.spec.name == table and bool(added) and seen == number
        seen += self.spec.name == table and bool(added)
        if is_it and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        version = real(self, added, *rest, **more)
        if is_it:
            os.kill(os.getpid(), signal.SIGKILL)
        return version

    return commit


if __name__ == "__main__":
    when, what, which = os.environ["NEXUS_TEST_DIE"].split()
    LakeTable.commit = dying(LakeTable.commit, when, what, int(which))  # type: ignore[method-assign]
    sys.argv[0] = "nexus"
    main()
