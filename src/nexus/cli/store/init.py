"""`nexus store init`: makes the tables of a store."""

from nexus.cli.lazy import single_app
from nexus.cli.output import JsonFlag
from nexus.cli.store.options import StoreUrl, tell

app = single_app()


@app.command()
def init(*, store: StoreUrl, json: JsonFlag = False) -> int:
    """Make the tables of a store in an empty database.

    A collector does so by itself when it starts. This is for a database whose collector may not
    make tables. Tables that are there already are brought forward, and nothing in them is lost.

    \b
    Examples:
      nexus store init --store postgresql://owner@db.example/telemetry?sslmode=verify-full
      nexus store init --store influxdb://tsdb.example:8086/telemetry?ssl=true
    """
    from nexus.store.making import make_store

    return tell(make_store(store), json=json)
