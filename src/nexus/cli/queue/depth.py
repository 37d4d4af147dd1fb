"""`nexus queue depth`: how much waits, where, since when, and who takes it out."""

from typing import Any

from nexus.cli.lazy import single_app
from nexus.cli.output import JsonFlag, print_json, print_table
from nexus.cli.queue.options import Queue, age, ask, now_ms, queue_of

app = single_app()


@app.command()
def depth(*, queue: Queue = None, json: JsonFlag = False) -> int:
    """Show how much waits in each slot, since when, who reads it, and the queue's totals.

    A slot is a partition of one cluster. A key holds one message, or many in packed form.

    \b
    Examples:
      nexus queue depth
      nexus queue depth --queue etcd://etcd-1:2379,etcd-2:2379/telemetry/queue --json
    """
    from nexus.queue.etcd.admin import overview

    url = queue_of(queue)
    found = ask(url, lambda client: overview(client, url.layout))
    now = now_ms()
    document: dict[str, Any] = {
        "queue": url.place,
        "waiting": found.totals.waiting,
        "published": found.totals.published._asdict(),
        "taken": found.totals.taken._asdict(),
        "expired": found.totals.expired,
        "in_hand": found.in_hand,
        "failed": found.failed,
        "dead": found.dead,
        "beside": found.beside,
        "workers": found.workers,
        "oldest_age_ms": _age_ms(found.oldest_ms, now),
        "slots": [
            {
                "slot": str(each.slot),
                "keys": each.keys,
                "oldest_age_ms": _age_ms(each.oldest_ms, now),
                "reader": each.reader or None,
            }
            for each in found.slots
        ],
    }
    if json:
        print_json(document)
        return 0
    rows = [(str(s.slot), s.keys, age(s.oldest_ms, now), s.reader) for s in found.slots]
    print_table(("slot", "keys", "oldest", "reader"), rows)
    _print_totals(document)
    return 0


def _print_totals(said: dict[str, Any]) -> None:
    published, taken = said["published"], said["taken"]
    print(
        f"\n{said['waiting']} keys wait; published {published['keys']} keys"
        f" ({published['messages']} messages), taken out {taken['keys']} ({taken['messages']}),"
        f" expired {said['expired']}"
    )
    print(
        f"{said['in_hand']} claims in hand, {said['failed']} messages failed,"
        f" {said['dead']} dead letters, {said['beside']} keys beside the slots"
    )


def _age_ms(since_ms: int | None, now: int) -> int | None:
    return None if since_ms is None else max(0, now - since_ms)
