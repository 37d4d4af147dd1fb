"""`nexus store migrate`: brings the tables of a store forward."""

from nexus.cli.lazy import single_app
from nexus.cli.output import JsonFlag
from nexus.cli.store.options import StoreUrl, tell

app = single_app()


@app.command()
def migrate(*, store: StoreUrl, json: JsonFlag = False) -> int:
    """Bring the tables of a store forward to the version of this program.

    Versions only grow: tables that are newer than the program are refused and left alone. Stop
    the collector first; it says when its store has to be brought forward.

    \b
    Examples:
      nexus store migrate --store postgresql://owner@db.example/telemetry
    """
    from nexus.store.making import migrate_store

    return tell(migrate_store(store), json=json)
