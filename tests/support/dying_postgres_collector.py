"""`nexus collector` that dies, as by kill -9, just before or after one commit to PostgreSQL.

NEXUS_TEST_DIE says when: `before merge 2` is when the tasks of the third batch of this process have
staged their rows and nothing is committed, `after …` is when PostgreSQL has committed.
"""

import os
import signal
import sys
from typing import Any

from nexus.cli import main
from nexus.pipeline.sink import postgres_sink
from nexus.store.postgres.staging import merge as real


def dying(moment: str, number: int) -> Any:
    seen = 0

    def merge(*words: Any) -> Any:
        nonlocal seen
        is_it = seen == number
        seen += 1
        if is_it and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        done = real(*words)
        if is_it:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    return merge


if __name__ == "__main__":
    when, _, which = os.environ["NEXUS_TEST_DIE"].split()
    vars(postgres_sink)["merge"] = dying(when, int(which))
    sys.argv[0] = "nexus"
    main()
