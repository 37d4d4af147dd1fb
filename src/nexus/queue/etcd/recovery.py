"""What a worker does with a slot that it has come to own: take up what the last owner left.

Messages that were in hand when a worker died have failed once more, for that reason; they are
claimed singly from then on, so that one of them that kills workers takes no other along.
"""

from __future__ import annotations

from nexus.etcd import Client, Delete, Get, Keys, KeyValue
from nexus.queue.etcd.attempts import Failure
from nexus.queue.etcd.failing import Failing
from nexus.queue.etcd.hands import Hand, Record, records
from nexus.queue.etcd.layout import Layout
from nexus.queue.etcd.owned import OwnedSlot
from nexus.queue.etcd.settler import Settler


async def recover(
    client: Client, layout: Layout, owned: OwnedSlot, settler: Settler, failing: Failing
) -> int:
    """How many messages were given back."""
    left = [Get(records(layout, owned.slot)), Get(owned.places.failures())]
    done = await client.txn(then=left)
    owned.failures = {
        owned.places.message_of(item.key): Failure.of(item.value) for item in done.got(1).items
    }
    returned = 0
    for item in done.got(0).items:
        hand = await _hand(client, owned, item)
        claims = list(hand.pending.values())
        if claims:
            reason = f"worker {hand.worker} ended with it in hand"
            dead = await failing.fail(claims, reason, owned.note)
            owned.settled(hand, [claimed.key for claimed in dead])
        else:
            await settler.fenced(hand, [Delete(Keys(item.key))])
        returned += len(claims)
    return returned


async def _hand(client: Client, owned: OwnedSlot, item: KeyValue) -> Hand:
    """What a record says was in hand, and is still there, as if it was in ours."""
    record = Record.of(item.value) or Record("unknown", item.key, item.key)
    hand = Hand(owned.slot, owned.fence, item.key, record.first, record.last, record.worker)
    async for page in client.scan(record.keys):
        hand.filled(page.items, item.create_revision, owned.attempts())
    hand.record_revision = item.mod_revision
    hand.pending.pop(item.key, None)  # of a record that could not be read
    return hand
