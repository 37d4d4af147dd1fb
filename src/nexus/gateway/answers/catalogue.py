"""The metric catalogue, and which of it is collected."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from nexus.gateway.asking import Ask
from nexus.gateway.paging import Pages
from nexus.gateway.queries.models import PageQuery
from nexus.gateway.rendering.forms import Form
from nexus.gateway.replies import Reply, table_reply
from nexus.store.port import ANY
from nexus.telemetry.catalogue import METRICS, Metric

_SOURCES: Final = pa.list_(pa.struct([("name", pa.string()), ("unit", pa.string())]))
_SCHEMA: Final = pa.schema(
    [
        *(pa.field(name, pa.string(), nullable=False) for name in ("name", "unit", "kind")),
        pa.field("description", pa.string(), nullable=False),
        pa.field("sources", _SOURCES, nullable=False),
        pa.field("collected", pa.bool_(), nullable=False),
    ]
)
UNKNOWN: Final = "unknown"


def metrics(ask: Ask, query: PageQuery) -> Reply:
    """Every metric of the catalogue, and those that only a source knows, by name."""
    collected = ask.snapshot.metrics(ANY)
    units = dict(zip(collected["metric"].to_pylist(), collected["unit"].to_pylist(), strict=True))
    rows = [_known(metric, metric.name in units) for metric in METRICS.values()]
    rows += [_unknown(name, unit) for name, unit in units.items() if name not in METRICS]
    pages = Pages(ask.path, query, ("name",))
    kept, cursor = pages.of_groups(pa.Table.from_pylist(rows, _SCHEMA))
    return table_reply(ask.form, _flat(kept) if ask.form is Form.CSV else kept, cursor)


def _known(metric: Metric, collected: bool) -> dict[str, Any]:
    return {
        "name": metric.name,
        "unit": metric.unit,
        "kind": metric.kind.value,
        "description": metric.description,
        "sources": [{"name": source.name, "unit": source.unit} for source in metric.sources],
        "collected": collected,
    }


def _unknown(name: str, unit: str) -> dict[str, Any]:
    return {
        "name": name,
        "unit": unit,
        "kind": UNKNOWN,
        "description": "",
        "sources": [],
        "collected": True,
    }


def _flat(rows: pa.Table) -> pa.Table:
    """The source names in one cell, with spaces between."""
    at = rows.schema.get_field_index("sources")
    texts = [" ".join(source["name"] for source in cell) for cell in rows["sources"].to_pylist()]
    return rows.set_column(at, pa.field("sources", pa.string()), pa.array(texts, pa.string()))
