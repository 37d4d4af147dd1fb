"""The comparison for real, as small as it goes; and servers that discard."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from peers.clients.port import Lanes
from peers.discard.serving import discarding
from peers.matrix import BASE, QUICK
from peers.schedule import ON_SERVER, PARTS, Run
from peers.systems import client_of

from support.needs import need_program

TINY = replace(
    QUICK,
    points=[BASE],
    warm_up_s=0.05,
    send_s=0.1,
    read_s=30.0,
    most_bytes=200 * 2000,
    latency_s=0.4,
    latency_rate=50,
    recovery_bytes=1 << 20,
)


@pytest.mark.timeout(400)  # a dozen processes start, which a loaded machine does slowly
@pytest.mark.parametrize(("system", "parts"), [("nexus", PARTS), ("redis", ON_SERVER)])
def test_every_part_is_measured(system: str, parts: tuple[str, ...], tmp_path: Path) -> None:
    if system == "redis":
        need_program("redis-server")
    run = Run([system], TINY, tmp_path)
    kept: list[int] = []
    run.measure(parts, lambda: kept.append(len(run.samples)))
    assert kept[-1] == len(run.samples), "after the last round too"
    assert run.failures == []
    measured = {sample.part for sample in run.samples}
    assert measured - {"survival"} == set(parts)
    assert [s.values["percent"] for s in run.samples if s.part == "survival"] == (
        [100] if "recovery" in parts else []
    )
    values = next(s.values for s in run.samples if s.part == "throughput")
    assert min(values["produce_per_s"], values["consume_per_s"], values["memory_mb"]) > 0
    assert values["disk_bytes_per_message"] > BASE.size / 2
    paced = next(s.values for s in run.samples if s.part == "latency")
    assert 0 < paced["p50_ms"] <= paced["p99_ms"] <= paced["p999_ms"]
    assert list(tmp_path.glob(f"{system}-0*")) == []


@pytest.mark.parametrize("generator", ["the best of this machine", "Python"])
@pytest.mark.parametrize("client", ["redis", "nats", "amqp", "mqtt"])
def test_a_server_that_discards_acknowledges_every_message(
    client: str, generator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if generator == "Python":  # as where nothing can be built in C
        monkeypatch.setattr(f"peers.clients.{client}.library", lambda _: None)
    _send_to_nowhere(client)


def test_the_same_for_etcd() -> None:
    _send_to_nowhere("etcd")


def _send_to_nowhere(client: str) -> None:
    with discarding(client, 1) as (address, name):
        sender = client_of(client).sender(Lanes(address, name))
        sender.send([b"x" * 300] * 20, 0)
        sender.send([b"y" * 70_000] * 2, 0)
        sender.flush()
        sender.close()
