"""Clusters and hosts: how many GPUs they have and what these do."""

from __future__ import annotations

from typing import Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from nexus.gateway.answers.gpus import gpu_reply
from nexus.gateway.asking import PREFIX_LEAST, Ask
from nexus.gateway.errors import Ambiguous
from nexus.gateway.paging import Pages
from nexus.gateway.queries.models import PageQuery
from nexus.gateway.rendering.json_rows import json_rows
from nexus.gateway.replies import Reply, table_reply
from nexus.gateway.views import gpu_view
from nexus.store.port import ANY, GPU_KEY, LIMIT_MAX, Page, Selection
from nexus.telemetry.scalars import scalar
from nexus.web.problems import NotFound

CLUSTER: Final = ("cluster",)
HOST: Final = ("cluster", "hostname")


def clusters(ask: Ask, query: PageQuery) -> Reply:
    """Every cluster."""
    return _groups(ask, query, ANY, CLUSTER)


def cluster(ask: Ask, name: str) -> Reply:
    """One cluster."""
    return Reply(json_rows(_cluster(ask, name)))


def cluster_stats(ask: Ask, name: str) -> Reply:
    """One cluster, and the same by model and by namespace."""
    whole = json_rows(_cluster(ask, name))
    parts = b",".join(
        orjson.dumps(f"by_{group}") + b":[" + json_rows(_by(ask, name, group)) + b"]"
        for group in ("model", "namespace")
    )
    return Reply(whole[:-1] + b"," + parts + b"}")


def hosts(ask: Ask, name: str, query: PageQuery) -> Reply:
    """The hosts of a cluster."""
    _cluster(ask, name)
    return _groups(ask, query, Selection(clusters=(name,)), HOST)


def host(ask: Ask, name: str, hostname: str) -> Reply:
    """One host."""
    return Reply(json_rows(_host(ask, name, hostname)))


def host_gpus(ask: Ask, name: str, hostname: str, query: PageQuery) -> Reply:
    """The GPUs of a host."""
    _host(ask, name, hostname)
    pages = Pages(ask.path, query, GPU_KEY)
    rows = ask.snapshot.gpus(_on_host(name, hostname), (), pages.page())
    kept, cursor = pages.cut(rows)
    return table_reply(ask.form, gpu_view(kept), cursor)


def host_gpu(ask: Ask, name: str, hostname: str, given: str) -> Reply:
    """A host's GPU by index, uuid or a unique prefix of its uuid."""
    _host(ask, name, hostname)
    rows = ask.snapshot.gpus(_on_host(name, hostname), (), Page(LIMIT_MAX))
    uuid = _meant(rows, given, f"{hostname} in {name}")
    return gpu_reply(ask, rows.filter(pc.equal(rows.column("uuid"), scalar(uuid, pa.string()))))


def cluster_metrics(ask: Ask, name: str, query: PageQuery) -> Reply:
    """The metrics that have readings in a cluster, with their newest."""
    _cluster(ask, name)
    pages = Pages(ask.path, query, ("metric",))
    rows = ask.snapshot.metrics(Selection(clusters=(name,)))
    kept, cursor = pages.of_groups(rows)
    return table_reply(ask.form, kept, cursor)


def _groups(ask: Ask, query: PageQuery, which: Selection, by: tuple[str, ...]) -> Reply:
    pages = Pages(ask.path, query, by)
    kept, cursor = pages.of_groups(ask.snapshot.fleet(which, by))
    return table_reply(ask.form, kept, cursor)


def _cluster(ask: Ask, name: str) -> pa.Table:
    rows = ask.snapshot.fleet(Selection(clusters=(name,)), CLUSTER)
    if not rows.num_rows:
        raise NotFound(f"there is no cluster {name}; /api/v1/clusters lists them")
    return rows


def _host(ask: Ask, name: str, hostname: str) -> pa.Table:
    rows = ask.snapshot.fleet(_on_host(name, hostname), HOST)
    if not rows.num_rows:
        raise NotFound(f"there is no host {hostname} in the cluster {name}")
    return rows


def _by(ask: Ask, name: str, group: str) -> pa.Table:
    return ask.snapshot.fleet(Selection(clusters=(name,)), (group,))


def _on_host(name: str, hostname: str) -> Selection:
    return Selection(clusters=(name,), hostnames=(hostname,))


def _meant(rows: pa.Table, given: str, where: str) -> str:
    """Of several GPUs that had an index in turn, the one that was seen last."""
    uuids: list[str] = sorted(set(rows.column("uuid").to_pylist()))
    if given in uuids:
        return given
    held = rows.filter(pc.equal(rows.column("gpu"), scalar(given, pa.string())))
    if held.num_rows:
        newest = held.sort_by([("last_seen", "descending"), ("uuid", "ascending")])
        return str(newest.column("uuid")[0].as_py())
    found = [u for u in uuids if u.startswith(given)] if len(given) >= PREFIX_LEAST else []
    if len(found) > 1:
        raise Ambiguous(f"{given} is the beginning of several uuids: {', '.join(found[:8])}")
    if not found:
        raise NotFound(f"no GPU on {where} has the index or uuid {given}")
    return found[0]
