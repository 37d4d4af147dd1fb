"""`nexus store copy` in processes that kill themselves, as the kernel would, in mid-day.

python dying_copy.py FROM TO…: a process for each target, which dies with its seventh portion.
"""

from __future__ import annotations

import os
import signal
import sys
from functools import partial

import pyarrow as pa

from nexus.cli.entry import run
from nexus.pipeline.moving import delta, etcd, influx, postgres
from nexus.pipeline.moving.port import Slice, Writer
from nexus.store.etcd.lock import EtcdWriterLock

ROWS, DEATH = 40, 7
WRITERS: list[type[Writer]] = [
    delta.DeltaWriter,
    etcd.EtcdWriter,
    influx.InfluxWriter,
    postgres.PostgresWriter,
]


def die_in_mid_day() -> None:
    """Let every writer take small portions, and one of them be the last."""
    # A lease outlives its holder; nobody need wait ten seconds for that here.
    vars(etcd)["EtcdWriterLock"] = partial(EtcdWriterLock, lease_s=1)
    vars(delta)["COMMIT_ROWS"] = 2 * ROWS
    portions = 0
    for kind in WRITERS:
        kind.portion_rows = ROWS
        add = kind.add

        def dying(writer: Writer, part: Slice, some: pa.Table, add: object = add) -> pa.Table:
            nonlocal portions
            portions += 1
            left = add(writer, part, some)  # type: ignore[operator]
            if portions == DEATH:
                os.kill(os.getpid(), signal.SIGKILL)
            return left

        kind.add = dying  # type: ignore[method-assign, assignment]


def main(source: str, targets: list[str]) -> None:
    for target in targets:
        child = os.fork()
        if not child:
            die_in_mid_day()
            os._exit(run(["store", "copy", source, target]))
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            sys.exit(f"{target}: it did not die")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
