"""GPUs: lists of them, and one with its labels and last readings."""

from __future__ import annotations

from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from nexus.gateway.asking import Ask
from nexus.gateway.paging import Pages
from nexus.gateway.queries.models import GpusQuery
from nexus.gateway.rendering.json_rows import json_rows
from nexus.gateway.replies import Reply, table_reply
from nexus.gateway.views import gpu_view, reading_view
from nexus.store.port import GPU_KEY, LIMIT_MAX, Page, Selection
from nexus.telemetry.labels import labels_of
from nexus.telemetry.scalars import EMPTY

LATELY_US: Final = 3_600_000_000  # before the GPU's last reading


def list_gpus(ask: Ask, query: GpusQuery) -> Reply:
    """GPUs by uuid."""
    pages = Pages(ask.path, query, GPU_KEY)
    rows = ask.snapshot.gpus(ask.selection(query), tuple(query.state), pages.page())
    kept, cursor = pages.cut(rows)
    return table_reply(ask.form, gpu_view(kept), cursor)


def one_gpu(ask: Ask, uuid: str) -> Reply:
    """The GPU that a uuid or its unique prefix names."""
    named = ask.uuid_of(uuid)
    return gpu_reply(ask, ask.snapshot.gpu(named))


def gpu_reply(ask: Ask, rows: pa.Table) -> Reply:
    """One GPU, whose MIG instances, if it has some, are beside it."""
    uuid = rows.column("uuid")[0].as_py()
    rows = rows.sort_by([("mig", "ascending")])
    whole = rows.slice(0, 1)
    parts = rows.filter(pc.not_equal(rows.column("mig"), EMPTY))
    latest = ask.snapshot.latest(Selection(uuids=(uuid,)), Page(LIMIT_MAX), _lately(rows))
    more = b'"labels":%b,"migs":[%b],"latest":[%b]' % (
        orjson.dumps(_labels(whole)),
        json_rows(gpu_view(parts)),
        json_rows(reading_view(latest, "canonical")),
    )
    return Reply(json_rows(gpu_view(whole))[:-1] + b"," + more + b"}")


def _lately(rows: pa.Table) -> int:
    """Since when a series counts as going on: a GPU has those of every pod that ever held it."""
    seen: int = pc.max(rows.column("last_seen")).cast(pa.int64()).as_py()
    return seen - LATELY_US


def _labels(rows: pa.Table) -> dict[str, Any]:
    return dict(labels_of(rows.column("labels")[0].as_py()))
