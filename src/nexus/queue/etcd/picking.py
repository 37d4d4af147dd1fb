"""Which keys of a slot may be claimed together: decisions only, over keys that were listed.

A claim is a run of neighbours, so that one delete-range acknowledges it. A key that somebody has
in hand, or that has to wait, ends a run; one that failed before is a run of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from nexus.etcd import KeyValue
from nexus.queue.etcd.layout import readings_in

Runs = deque[list[bytes]]


def runs_of(
    listed: Iterable[KeyValue],
    taken: Callable[[KeyValue], bool],
    alone: Callable[[bytes], bool],
) -> Runs:
    """Listed keys, in order, as runs."""
    runs: Runs = deque()
    run: list[bytes] = []
    for item in listed:
        single = alone(item.key)
        if taken(item) or single:
            if run:
                runs.append(run)
            run = []
            if single and not taken(item):
                runs.append([item.key])
        else:
            run.append(item.key)
    if run:
        runs.append(run)
    return runs


def cut(runs: Runs, readings: int, keys: int) -> list[bytes]:
    """Off the first run: as many keys as hold so many readings, at least one, at most `keys`."""
    if not runs:
        return []
    run = runs.popleft()
    count, inside = 0, 0
    for key in run[:keys]:
        inside += readings_in(key)
        if count and inside > readings:
            break
        count += 1
    if count < len(run):
        runs.appendleft(run[count:])
    return run[:count]
