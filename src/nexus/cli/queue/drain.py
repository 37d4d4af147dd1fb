"""`nexus queue drain`: takes messages out by hand; works at the quota too."""

import json as json_format
import os
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import IO, Annotated

import typer

from nexus.cli.confirm import Yes, confirm
from nexus.cli.lazy import single_app
from nexus.cli.output import JsonFlag, print_json
from nexus.cli.queue.options import Queue, Slots, age_ms, ask, now_ms, queue_of, slots_of
from nexus.etcd import Client, Get, Keys, KeyValue
from nexus.queue.etcd.draining import Drain, Drained
from nexus.queue.etcd.layout import Layout, Slot
from nexus.settings.errors import SettingsError

app = single_app()


@app.command()
def drain(
    *,
    slot: Slots = None,
    older: Annotated[
        str | None,
        typer.Option("--older-than", metavar="TIME", help="Only what was published before then."),
    ] = None,
    dead: Annotated[bool, typer.Option("--dead", help="Dead letters instead.")] = False,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Append the messages to a file first, a JSON line each."),
    ] = None,
    yes: Yes = False,
    queue: Queue = None,
    json: JsonFlag = False,
) -> int:
    """Delete messages that wait, or dead letters; they are counted as taken out.

    Works when etcd is at its quota (NOSPACE), where nothing else can make room.

    \b
    Examples:
      nexus queue drain --older-than 1h
      nexus queue drain --slot local-cluster/3 --save messages.jsonl --yes
      nexus queue drain --dead --yes
    """
    url, slots, before_ms = queue_of(queue), slots_of(slot), age_ms(older, "--older-than")
    if dead and (slots or before_ms is not None):
        raise SettingsError("flag --dead: takes all dead letters; leave out --slot, --older-than")
    before_ns = None if before_ms is None else (now_ms() - before_ms) * 1_000_000
    layout = url.layout
    ranges = ask(url, lambda client: _ranges(client, layout, slots, before_ns, dead))
    waiting = ask(url, lambda client: _count(client, ranges))
    what = "dead letters" if dead else "keys of messages"
    if waiting:
        confirm(f"Delete {waiting} {what} of {url.place}?", yes)
    file = None if save is None else save.open("a", encoding="utf-8")
    try:
        done = ask(url, lambda client: _drained(client, layout, ranges, dead, file))
    finally:
        if file is not None:
            file.close()
    _print(done, json)
    return 0


async def _ranges(
    client: Client, layout: Layout, slots: list[Slot], before_ns: int | None, dead: bool
) -> list[Keys]:
    """What is to be emptied. By age it goes by slots, whose keys begin with the time."""
    from nexus.queue.etcd.admin import slot_range
    from nexus.queue.etcd.slots import known_slots

    if dead:
        return [layout.dead_letters]
    if not slots and before_ns is None:
        return [layout.messages]
    chosen = slots or await known_slots(client, layout)
    return [slot_range(layout, each, before_ns) for each in chosen]


async def _count(client: Client, ranges: list[Keys]) -> int:
    found = [await client.range(Get(keys, count_only=True)) for keys in ranges]
    return sum(each.total for each in found)


async def _drained(
    client: Client, layout: Layout, ranges: list[Keys], dead: bool, file: IO[str] | None
) -> Drained:
    drain = Drain(client, layout, None if file is None else _Saved(file))
    for keys in ranges:
        pages: AsyncGenerator[Drained, None] = (
            drain.dead_letters() if dead else drain.messages(keys)
        )
        async for _ in pages:
            pass
    return await drain.count_afterwards()


class _Saved:
    """Writes messages to a file; they are on the disk when a call returns."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def __call__(self, items: Sequence[KeyValue]) -> None:
        from nexus.cli.queue.showing import as_document

        for item in items:
            self._file.write(json_format.dumps(as_document(item), ensure_ascii=False) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def _print(done: Drained, json: bool) -> None:
    if json:
        print_json({"taken": done.taken._asdict(), "uncounted": done.uncounted._asdict()})
        return
    print(f"{done.taken.keys} keys ({done.taken.messages} messages) were deleted")
    if done.uncounted.keys:
        print(
            f"{done.uncounted.keys} of them could not be counted, since etcd takes no puts; they"
            " show as expired. Now run nexus queue doctor --recover"
        )
