"""`nexus store vacuum`: makes room in a store, and loses nothing."""

from typing import Annotated

import typer

from nexus.cli.confirm import Yes, confirm
from nexus.cli.lazy import single_app
from nexus.cli.output import JsonFlag, print_json, print_table
from nexus.cli.patience import wait_for
from nexus.cli.store.options import StoreAddress, Wait, owner

app = single_app()


@app.command()
def vacuum(
    store: StoreAddress,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")
    ] = False,
    wait: Wait = False,
    yes: Yes = False,
    json: JsonFlag = False,
) -> int:
    """Merge small files and remove dead ones, dead rows and history; no row that counts is lost.

    Delta tables are merged and vacuumed, as by nexus collector maintain. PostgreSQL's tables are
    vacuumed and analysed where they need it, and left-over staging tables go. etcd forgets its
    history and is defragmented, member by member, each of which answers nobody meanwhile.

    \b
    Examples:
      nexus store vacuum delta:///var/lib/nexus --dry-run
      nexus store vacuum postgresql://nexus@db.example/telemetry
      nexus store vacuum etcd://etcd-1:2379 --yes
    """
    from nexus.pipeline.moving.upkeep import Asked, vacuumed
    from nexus.store.opening import scheme_of

    if scheme_of(store) == "etcd" and not dry_run:
        confirm("Members of etcd answer nobody while they are defragmented. Go on?", yes)
    asked = Asked(owner(), wait_for if wait else None, dry_run)
    steps = list(vacuumed(store, asked))
    ok = all(step.done for step in steps)
    if json:
        print_json({"ok": ok, "dry_run": dry_run, "steps": [step._asdict() for step in steps]})
    elif not steps:
        print("nothing to do")
    else:
        print_table(
            ("what", "would be done" if dry_run else "done"),
            [(step.what, step.said if step.done else f"NOT DONE: {step.said}") for step in steps],
        )
    return 0 if ok else 1
