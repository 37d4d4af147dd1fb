"""Facts for people: brokers and their circuits, topics, and how long answers take."""

from __future__ import annotations

from time import monotonic

from nexus.observe.metrics import Histogram, HistogramState
from nexus.proxy.metrics import ProxyMetrics
from nexus.proxy.topology import Topic, Topology

Facts = dict[str, object]


def topic_facts(topic: Topic) -> Facts:
    return {
        "name": topic.name,
        "partitions": len(topic.leaders),
        "leaders": list(topic.leaders),
    }


def broker_facts(topology: Topology) -> list[Facts]:
    """Each broker with its circuit and how many partitions it owns."""
    owned: dict[int, int] = {}
    for topic in topology.topics.values():
        for leader in topic.leaders:
            owned[leader] = owned.get(leader, 0) + 1
    now = monotonic()
    return [
        {
            "id": node,
            "address": "{}:{}".format(*broker.address),
            "healthy": broker.is_well,
            "circuit": broker.breaker.state(now),
            "problem": broker.problem,
            "partitions": owned.get(node, 0),
            "in_flight": broker.in_flight,
        }
        for node, broker in sorted(topology.brokers.items())
    ]


def statistics(metrics: ProxyMetrics, topology: Topology) -> Facts:
    """Counts since the start; latencies in milliseconds."""
    requests: dict[str, dict[str, int]] = {}
    for (route, status), count in metrics.registry.values("nexus_proxy_requests").items():
        requests.setdefault(route, {})[status] = int(count)  # type: ignore[arg-type]
    return {
        "requests": requests,
        "latency_ms": {
            route: _shown(state)
            for (route,), state in metrics.registry.values("nexus_proxy_request_seconds").items()
            if isinstance(state, HistogramState)
        },
        "brokers": {
            broker.name: {
                "requests": broker.requests,
                "errors": broker.errors,
                "latency_ms": _shown(_state(broker.latency)),
            }
            for broker in topology.all_brokers()
        },
        "moves": topology.moves,
    }


def _state(histogram: Histogram) -> HistogramState:
    return histogram.state()


def _shown(state: HistogramState) -> Facts:
    return {f"p{part}": _quantile(state, part / 100) for part in (50, 95, 99)}


def _quantile(state: HistogramState, share: float) -> float | None:
    """The bound below which this share of the values lies."""
    total = state.cumulative[-1]
    if not total:
        return None
    for bound, count in zip(state.bounds, state.cumulative, strict=False):
        if count >= share * total:
            return bound * 1000
    return state.bounds[-1] * 1000
