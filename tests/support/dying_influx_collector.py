"""`nexus collector` that dies, as by kill -9, just before or after one commit to InfluxDB.

NEXUS_TEST_DIE says when: `before commit 2` is when the tasks of the third batch of this process
have written their points and the journal does not say so, `after …` is when it does.
"""

import os
import signal
import sys
from typing import Any

from nexus.cli import main
from nexus.store.influx.lock import InfluxLock

real = InfluxLock.commit


def dying(moment: str, number: int) -> Any:
    seen = 0

    def commit(self: InfluxLock, entry: Any) -> Any:
        nonlocal seen
        if not entry.app:
            return real(self, entry)
        is_it = seen == number
        seen += 1
        if is_it and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        done = real(self, entry)
        if is_it:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    return commit


if __name__ == "__main__":
    when, _, which = os.environ["NEXUS_TEST_DIE"].split()
    setattr(InfluxLock, "commit", dying(when, int(which)))  # noqa: B010
    sys.argv[0] = "nexus"
    main()
