"""`nexus collector maintain`: the upkeep of a store, now instead of on the collector's schedule."""

from typing import Any

from nexus.cli.collector.flags import collector_flags
from nexus.cli.collector.options import CollectorId, Store, Wait
from nexus.cli.config_place import read_config
from nexus.cli.lazy import single_app
from nexus.cli.options import ConfigFile
from nexus.cli.output import JsonFlag, print_json, print_table
from nexus.cli.patience import waiting

app = single_app()


@app.command()
def maintain(
    *,
    config: ConfigFile = None,
    store: Store = None,
    collector_id: CollectorId = None,
    wait: Wait = False,
    json: JsonFlag = False,
) -> int:
    """Merge small files, remove what is older than its retention, clean up logs and files.

    A running collector does this by itself. Readers are not disturbed.

    \b
    Examples:
      nexus collector maintain --store delta:///var/lib/nexus
      nexus collector maintain --wait --json
    """
    from nexus.settings.collector import load_collector_settings

    given = {
        "store": ("--store", store),
        "collector_id": ("--collector-id", collector_id),
    }
    own = load_collector_settings(read_config(config), flags=collector_flags(given)).collector
    from nexus.lake.maintenance import TableReport
    from nexus.pipeline.collector.tasks import held_store
    from nexus.pipeline.moving.upkeep import added

    tables: dict[str, TableReport] = {}
    with held_store(own, wait=wait, waiting=waiting) as held:
        is_complete = False
        while not is_complete:
            report = held.maintain(lambda: False)
            tables = {t.table: added(tables.get(t.table), t) for t in report.tables}
            is_complete = report.complete
    return _show(list(tables.values()), json=json)


def _show(tables: list[Any], *, json: bool) -> int:
    if json:
        from dataclasses import asdict

        print_json({table.table: asdict(table) for table in tables})
    else:
        columns = ("table", "files", "merged", "into", "rows", "days gone", "files gone", "problem")
        print_table(
            columns,
            [
                (t.table, t.files, t.merged, t.into, t.rows, t.days, t.vacuumed, t.problem)
                for t in tables
            ],
        )
    return 1 if any(table.problem for table in tables) else 0
