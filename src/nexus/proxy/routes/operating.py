"""What operators and supervisors ask: topics, status, statistics, health, metrics."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import orjson

from nexus import __version__
from nexus.observe.health import memory
from nexus.observe.metrics import FamilySnapshot
from nexus.proxy import schemas
from nexus.proxy.errors import NoBroker
from nexus.proxy.http import JSON, Request, Response, document, within
from nexus.proxy.route import Route
from nexus.proxy.status import broker_facts, statistics, topic_facts
from nexus.web.problems import BadParameter

if TYPE_CHECKING:
    from nexus.proxy.proxy import Proxy

_CREATED: Final = 201


async def topics(proxy: Proxy, request: Request, query: dict[str, str]) -> Response:
    await proxy.topology.refresh()
    known = proxy.topology.topics.values()
    shown = [topic_facts(topic) for topic in known if not topic.is_internal]
    return document({"topics": sorted(shown, key=lambda topic: str(topic["name"]))})


async def make_topic(proxy: Proxy, request: Request, query: dict[str, str]) -> Response:
    body = await within(proxy.request_timeout_s, request.body())
    name, partitions, replication, configs = _wanted(body)
    deadline = monotonic() + proxy.request_timeout_s
    made = await proxy.topics.make(
        name, partitions, configs, deadline, replication=replication or -1
    )
    return document(topic_facts(made), _CREATED)


def _wanted(body: bytes) -> tuple[str, int | None, int | None, dict[str, str]]:
    try:
        found: Any = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadParameter(f"the body is not JSON: {error}") from None
    if not isinstance(found, dict) or not isinstance(found.get("name"), str):
        raise BadParameter.of("name", "is missing")
    unknown = found.keys() - {"name", "partitions", "replication", "configs"}
    if unknown:
        raise BadParameter.of(min(unknown)[:100], "is not known here")
    configs = found.get("configs", {})
    if not isinstance(configs, dict) or not all(isinstance(v, str) for v in configs.values()):
        raise BadParameter.of("configs", "expected names with texts")
    return (
        found["name"],
        _bounded(found, "partitions", 10_000),
        _bounded(found, "replication", 100),
        configs,
    )


def _bounded(found: dict[str, Any], name: str, most: int) -> int | None:
    value = found.get(name)
    if value is not None and (type(value) is not int or not 1 <= value <= most):
        raise BadParameter.of(name, f"expected a whole number from 1 to {most}")
    return value


async def status(proxy: Proxy, request: Request, query: dict[str, str]) -> Response:
    topology = proxy.topology
    return document(
        {
            "version": __version__,
            "cluster": topology.cluster_id,
            "mode": "static" if topology.is_static else "cluster",
            "controller": topology.controller,
            "virtual_nodes": topology.virtual_nodes,
            "brokers": broker_facts(topology),
            "topics": {
                name: {"owners": list(topic.leaders)}
                for name, topic in sorted(topology.topics.items())
            },
            "in_flight_bytes": proxy.budget.held,
            "requests": proxy.active,
            "consumers": proxy.sharing.consumers,
        }
    )


async def stats(proxy: Proxy, request: Request, query: dict[str, str]) -> Response:
    return document(statistics(proxy.metrics, proxy.topology))


async def health(proxy: Proxy, request: Request, query: dict[str, str]) -> Response:
    uptime_s = round(monotonic() - proxy.began_at, 3)
    said = {"status": "ok", "version": __version__, "uptime_s": uptime_s, "memory": memory()}
    return document(said)


async def ready(proxy: Proxy, request: Request, query: dict[str, str]) -> Response:
    up = [broker.name for broker in proxy.topology.brokers.values() if broker.is_well]
    if not up or proxy.is_ending:
        raise NoBroker("no broker answers" if not up else "the proxy stops")
    return document({"status": "ready", "brokers": up})


async def metrics(proxy: Proxy, request: Request, query: dict[str, str]) -> Response:
    body, kind = await asyncio.to_thread(_exposition, proxy.metrics.registry.snapshot())
    return Response(body, kind=kind)


def _exposition(snapshots: list[FamilySnapshot]) -> tuple[bytes, str]:
    from nexus.observe.exposition import CONTENT_TYPE, encode  # noqa: PLC0415 - slow to load

    return encode(snapshots), CONTENT_TYPE


async def description(proxy: Proxy, request: Request, query: dict[str, str]) -> Response:
    return Response(proxy.description)


_FACTS: Final = {"type": "object"}

ROUTES: Final = (
    Route(
        "GET",
        "/topics",
        topics,
        "The topics and who leads their partitions",
        schemas.record({"topics": schemas.listed(schemas.TOPIC_SHOWN)}),
        problems=(503,),
        tag="Topics",
    ),
    Route(
        "POST",
        "/topics",
        make_topic,
        "Make a topic",
        schemas.TOPIC_SHOWN,
        bodies={JSON: schemas.NEW_TOPIC},
        status=_CREATED,
        problems=(400, 409, 413, 422, 503),
        tag="Topics",
    ),
    Route("GET", "/status", status, "Brokers, owners, circuits, what is under way", _FACTS),
    Route("GET", "/stats", stats, "Requests, latency and errors, by route and by broker", _FACTS),
    Route("GET", "/health", health, "The process is alive", _FACTS),
    Route("GET", "/ready", ready, "A broker answers", _FACTS, problems=(503,)),
    Route("GET", "/metrics", metrics, "For Prometheus", schemas.TEXT, answer_type="text/plain"),
    Route("GET", "/openapi.json", description, "This description", _FACTS),
)
