"""Removes readings that are older than a store keeps them: one range for each GPU.

A reading goes when its time and its arrival are both that long ago, so that an archive which is
read today stays, however old its readings are. When something arrived is told by its revision: the
writer notes from time to time how far revisions have come. Who the GPUs are and their last readings
stay: they are small, and people ask for what is gone too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from nexus.etcd import (
    Client,
    Delete,
    DeleteResult,
    Fence,
    Get,
    Keys,
    NoSpace,
    Put,
    fenced,
    mod_revision,
)
from nexus.store.etcd.documents import known_from
from nexus.store.etcd.layout import StoreLayout, data_keys

# Ranges in one transaction: while etcd deletes, everybody waits.
_AT_ONCE: Final = 16
_LIST_KEYS: Final = 10_000
_NOTES: Final = 20  # in the time that readings are kept


class Removed(NamedTuple):
    """How many keys were removed."""

    readings: int
    quarantined: int


class Note(NamedTuple):
    """What had arrived at a moment: everything up to a revision."""

    at_us: int
    revision: int


async def sweep(
    client: Client, layout: StoreLayout, fence: Fence, now_us: int, keep_us: int
) -> Removed:
    """Remove what is older than `keep_us`; Fenced when another writes to the store by now."""
    upto = await _arrived_before(client, layout, fence, now_us, keep_us)
    if not upto:
        return Removed(0, 0)
    readings = 0
    paths = await paths_of(client, layout)
    for start in range(0, len(paths), _AT_ONCE):
        some = paths[start : start + _AT_ONCE]
        ranges = [data_keys(path, None, now_us - keep_us) for path in some]
        readings += await _removed(client, fence, ranges, upto)
    refused = await _removed(client, fence, [layout.quarantine(None, now_us - keep_us)], upto)
    return Removed(readings, refused)


async def paths_of(client: Client, layout: StoreLayout) -> list[str]:
    """Where there are readings, as the index says."""
    paths: list[str] = []
    async for page in client.scan(layout.index):
        known = known_from([item.value for item in page.items])
        paths += [path for each in known.paths.values() for path in each]
    return paths


def noted(notes: Sequence[Note], now: Note, keep_us: int) -> tuple[list[Note], int]:
    """The notes to keep, and the revision up to which everything arrived long enough ago."""
    old = [note for note in notes if note.at_us <= now.at_us - keep_us]
    young = [note for note in notes if now.at_us - keep_us < note.at_us <= now.at_us]
    is_due = not young or now.at_us - young[-1].at_us >= keep_us // _NOTES
    return [*old[-1:], *young, *([now] if is_due else [])], old[-1].revision if old else 0


async def _arrived_before(
    client: Client, layout: StoreLayout, fence: Fence, now_us: int, keep_us: int
) -> int:
    key = layout.meta("arrivals")
    found = await client.range(Get(Keys(key)))
    before = [Note(*each) for each in json.loads(found.first.value)] if found.first else []
    notes, upto = noted(before, Note(now_us, found.revision), keep_us)
    if notes != before:
        with suppress(NoSpace):  # what frees space must not need any
            await fenced(client, fence, [Put(key, json.dumps(notes).encode())])
    return upto


async def _removed(client: Client, fence: Fence, ranges: Sequence[Keys], upto: int) -> int:
    """All keys of these ranges, less those that arrived later."""
    done = await fenced(
        client,
        fence,
        [Delete(keys) for keys in ranges],
        when=[mod_revision(keys).less(upto + 1) for keys in ranges],
    )
    if done.succeeded:
        return sum(each.deleted for each in done.results if isinstance(each, DeleteResult))
    if len(ranges) > 1:
        return sum([await _removed(client, fence, [keys], upto) for keys in ranges])
    return await _picked(client, fence, ranges[0], upto)


async def _picked(client: Client, fence: Fence, keys: Keys, upto: int) -> int:
    """The same for a range that has both kinds in it: by the runs between those that stay."""
    removed = 0
    get: Get | None = Get(keys, limit=_LIST_KEYS, keys_only=True)
    while get is not None:
        page = await client.range(get)
        runs: list[list[bytes]] = [[]]
        for item in page.items:
            if item.mod_revision <= upto:
                runs[-1].append(item.key)
            elif runs[-1]:
                runs.append([])
        for run in filter(None, runs):
            removed += await _removed(client, fence, [Keys(run[0], run[-1] + b"\0")], upto)
        rest = page.more and page.items
        get = get._replace(keys=get.keys.after(page.items[-1].key)) if rest else None
    return removed
