"""Settling what is in hand: acknowledged and stored, failed, or a dead letter, in one step each.

A transaction compares the owner's token, the hand's record, and that nothing was put between the
keys since they were read; then it deletes, stores and counts. It changes the record, so it cannot
happen twice: one whose answer was lost is simply sent again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from nexus.etcd import (
    Compare,
    Delete,
    Get,
    Keys,
    Limits,
    Operation,
    Put,
    TooManyOperations,
    Txn,
    TxnResult,
    mod_revision,
)
from nexus.queue.etcd.attempts import Failure, Places
from nexus.queue.etcd.counts import Count, Step
from nexus.queue.etcd.hands import Claimed, ClaimLost, Hand

_OWN: Final = 2  # operations of every transaction: the hand's record and the tally
_OPERATION_BYTES: Final = 32
_ROOM_BYTES: Final = 16 << 10


class Settlement(NamedTuple):
    """What becomes of one message."""

    claimed: Claimed
    gone: bool  # taken out of the queue
    effects: tuple[Put | Delete, ...] = ()


ByHand = Mapping[Hand, Sequence[Settlement]]


def count_of(settled: Iterable[Settlement]) -> Count:
    """What leaves the queue."""
    return Count.of([each.claimed.key for each in settled if each.gone])


def acknowledged(places: Places, claimed: Claimed, puts: Iterable[Put] = ()) -> Settlement:
    """Done, and what it led to is stored in the same step."""
    record = (Delete(Keys(places.failure(claimed.key))),) if claimed.attempts else ()
    return Settlement(claimed, True, (*puts, *record))


def failed(places: Places, claimed: Claimed, failure: Failure, *, leased: bool) -> Settlement:
    """To be tried again. The count ends with the message, if that has an end."""
    lease = claimed.lease if leased else 0
    return Settlement(claimed, False, (Put(places.failure(claimed.key), failure.to_json(), lease),))


def buried(places: Places, claimed: Claimed, failure: Failure) -> Settlement:
    """A dead letter: kept until somebody looks, with the reason."""
    effects: list[Put | Delete] = [
        Put(places.dead_letter(claimed.key), claimed.value),
        Put(places.cause(claimed.key), failure.to_json()),
    ]
    if claimed.attempts:
        effects.append(Delete(Keys(places.failure(claimed.key))))
    return Settlement(claimed, True, tuple(effects))


def runs(hand: Hand, settled: Iterable[Settlement]) -> list[Keys]:
    """The ranges to delete: between keys that have to stay."""
    gone = {each.claimed.key for each in settled if each.gone} - hand.barriers
    ranges: list[Keys] = []
    first = last = b""
    for key in sorted({*hand.pending, *hand.barriers}):
        if key in gone:
            first, last = first or key, key
        elif first:
            ranges.append(Keys(first, last + b"\x00"))
            first = b""
    return [*ranges, Keys(first, last + b"\x00")] if first else ranges


def transaction(by_hand: ByHand, step: Step, tally: Get) -> Txn:
    """The step that settles messages, of one hand or several, and counts what was taken."""
    when: list[Compare] = [step.when]
    then: list[Operation] = [step.put]
    otherwise: list[Operation] = [tally]
    effects: dict[bytes, Put | Delete] = {}
    for hand, settled in by_hand.items():
        when += [hand.fence.holds(), mod_revision(hand.record).equals(hand.record_revision)]
        for keys in runs(hand, settled):
            when.append(mod_revision(keys).less(hand.revision + 1))
            then.append(Delete(keys))
        then.append(_record_after(hand, {each.claimed.key for each in settled}))
        # As if one message was settled after the other: of two puts of a key the last remains.
        effects |= {_target(effect): effect for each in settled for effect in each.effects}
        otherwise += [
            Get(Keys(hand.fence.key), keys_only=True),
            Get(Keys(hand.record), keys_only=True),
            Get(hand.keys, keys_only=True),
        ]
    return Txn(tuple(when), (*then, *effects.values()), tuple(otherwise))


def _record_after(hand: Hand, settled: set[bytes]) -> Put | Delete:
    if len(settled) == len(hand.pending):
        return Delete(Keys(hand.record))
    return Put(hand.record, hand.described(settled))


def learn(by_hand: ByHand, done: TxnResult, *, in_doubt: bool) -> bool:
    """After a refusal: whether an earlier sending had succeeded; ClaimLost when it cannot.

    Otherwise somebody put messages between those in hand: they are left out from now on.
    """
    landed = False
    for at, hand in enumerate(by_hand):
        owner, record, between = (done.got(1 + at * 3 + each) for each in range(3))
        if owner.first is None or owner.first.create_revision != hand.fence.token:
            raise ClaimLost(f"slot {hand.slot}: another worker owns it by now")
        if record.first is None or record.first.mod_revision != hand.record_revision:
            if not in_doubt:
                raise ClaimLost(f"slot {hand.slot}: somebody removed the record of the claim")
            landed = True
            hand.record_revision = record.first.mod_revision if record.first else 0
        hand.barriers |= {i.key for i in between.items if i.mod_revision > hand.revision}
    return landed


def apply(by_hand: ByHand) -> None:
    """Remember what was settled."""
    for hand, settled in by_hand.items():
        for each in settled:
            hand.pending.pop(each.claimed.key, None)
            if not each.gone:
                hand.barriers.add(each.claimed.key)


def grouped(settlements: Iterable[Settlement], limits: Limits) -> list[list[Settlement]]:
    """Neighbours of one hand together, as many as one transaction takes."""
    groups: list[list[Settlement]] = []
    last: Settlement | None = None
    operations = size = 0
    for each in settlements:
        more, more_bytes = len(each.effects), _bytes_of(each.effects)
        goes_on = last is not None and last.gone  # the range that is deleted just grows
        needed = more + (each.gone and not goes_on)
        if (
            last is not None
            and last.claimed.hand is each.claimed.hand
            and operations + needed <= limits.operations - _OWN
            and size + more_bytes <= limits.request_bytes - _ROOM_BYTES
        ):
            groups[-1].append(each)
            operations, size = operations + needed, size + more_bytes
        else:
            groups.append([each])
            operations, size = more + each.gone, more_bytes
        last = each
    return groups


def parts_of(settlement: Settlement, limits: Limits) -> tuple[list[list[Put | Delete]], Settlement]:
    """Effects that have to go ahead since one transaction cannot hold them all, and the rest."""
    ahead: list[list[Put | Delete]] = []
    effects = list(settlement.effects)
    most = limits.operations - _OWN - 1
    while len(effects) > most or _bytes_of(effects) > limits.request_bytes - _ROOM_BYTES:
        count = _fitting(effects, most, limits.request_bytes - _ROOM_BYTES)
        if count >= len(effects):
            break
        ahead.append(effects[:count])
        effects = effects[count:]
    return ahead, settlement._replace(effects=tuple(effects))


def check(txn: Txn, limits: Limits) -> None:
    """TooManyOperations where the server would say so, with what to do."""
    most = max(len(txn.when), len(txn.then), len(txn.otherwise))
    if most > limits.operations:
        raise TooManyOperations(
            f"{most} operations in one acknowledgement, and etcd takes {limits.operations}:"
            " acknowledge fewer messages at once, or raise etcd's --max-txn-ops"
        )


def _fitting(effects: Sequence[Put | Delete], most: int, room: int) -> int:
    """How many of the first effects fit into one transaction; at least one."""
    count = size = 0
    for effect in effects[:most]:
        size += _bytes_of([effect])
        if count and size > room:
            break
        count += 1
    return max(count, 1)


def _bytes_of(effects: Iterable[Put | Delete]) -> int:
    return sum(
        _OPERATION_BYTES
        + (len(e.key) + len(e.value) if isinstance(e, Put) else 2 * len(e.keys.start))
        for e in effects
    )


def _target(effect: Put | Delete) -> bytes:
    return effect.key if isinstance(effect, Put) else effect.keys.start
