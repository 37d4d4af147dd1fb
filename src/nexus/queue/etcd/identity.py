"""Which queue this is: an id that is made with it, for revisions mean nothing in another etcd.

Whoever keeps a place in a queue keeps the id with it. An etcd that was made anew, or another one
under the same address, has none or another; its revisions begin again, and whoever went on from
the old place would take new messages for old ones.
"""

from __future__ import annotations

import secrets

from nexus.etcd import Ambiguous, Client, Compare, Get, Keys, Put, absent, value
from nexus.queue.errors import QueueError
from nexus.queue.etcd.layout import Layout
from nexus.queue.etcd.positions import Positions

_DIGITS = 16


class QueueAnew(QueueError):
    """Raised when a place is of another queue, or of one that was set back."""

    exit_code = 1


async def identity(client: Client, layout: Layout) -> str:
    """The queue's id; made now if it has none."""
    key = layout.meta("id")
    new = secrets.token_hex(_DIGITS // 2)
    while True:
        try:
            done = await client.txn(
                when=[absent(key)], then=[Put(key, new.encode())], otherwise=[Get(Keys(key))]
            )
        except Ambiguous:
            continue
        return new if done.succeeded else done.got(0).items[0].value.decode(errors="replace")


def is_queue(layout: Layout, queue: str) -> Compare:
    """For a transaction: it is still this queue."""
    return value(layout.meta("id")).equals(queue.encode())


def refuse_another(layout: Layout, found: str, revision: int, place: Positions) -> None:
    """QueueAnew unless a place is of this queue, and not beyond its newest revision."""
    if found == place.queue and place.newest <= revision:
        return
    why = "is another queue than the one that was read before"
    if found == place.queue:
        why = f"is at revision {revision}, but was read up to {place.newest}: it was set back"
    raise QueueAnew(
        f"queue {layout.prefix}: {why}; to read it from its start, remove the collector's"
        " checkpoint or use another --data-dir"
    )
