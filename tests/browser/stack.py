"""The real thing behind the dashboard: a broker, a simulated fleet streaming into it, a Delta store
with the minutes before, and a gateway over both. No Spark: the test itself stores the readings.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa

from nexus.lake.table import LakeTable
from nexus.streamer.simulator import Simulation, SimulatorConfig
from nexus.streamer.simulator.render import Renderer
from nexus.telemetry.tables import TABLES
from support.broker import BrokerProcess
from support.gateways import GatewayProcess, store_readings
from support.lake import FENCE, store_in, written
from support.streamers import StreamerProcess
from support.waiting import wait_until

HOSTS, GPUS = 4, 8
MINUTES = 12
INTERVAL_MS = 5_000


@dataclass(frozen=True)
class Stack:
    """What a test asks: the same address for the API and the page."""

    url: str

    def json(self, path: str, **params: Any) -> Any:
        answer = httpx.get(f"{self.url}/api/v1/{path}", params=params, timeout=30)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def gpus(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.json("gpus", limit=10_000)["data"]
        return found


def past_readings(seed: int = 1) -> pa.Table:
    """The last minutes of a fleet, as a streamer would have sent them."""
    ticks = MINUTES * 60_000 // INTERVAL_MS
    now_ms = int(time.time() * 1000) // INTERVAL_MS * INTERVAL_MS
    config = SimulatorConfig(
        HOSTS, GPUS, seed, INTERVAL_MS, start_ms=now_ms - ticks * INTERVAL_MS, faults=("silent",)
    )
    simulation = Simulation(config)
    table = Renderer(simulation).table(simulation.advance(ticks))
    at = table.schema.get_field_index("cluster")
    table = table.set_column(at, "cluster", pa.array(["local-cluster"] * table.num_rows))
    return table.append_column("ingested", table.column("timestamp"))


def store_refusal(folder: Path, raw: bytes) -> None:
    """Put one message into quarantine, as a collector that could not read it would."""
    table = LakeTable.open(store_in(folder), TABLES["quarantine"])
    now = datetime.now(UTC)
    row = {
        "refused": now,
        "reason": "the value is no number",
        "stage": "decode",
        "topic": "gpu-telemetry",
        "partition": 3,
        "offset": 77,
        "row": 0,
        "content_type": "application/json",
        "source": "curl",
        "raw": raw,
        "day": now.date(),
    }
    rows = pa.Table.from_pylist([row], table.spec.schema)
    table.append([written(table.files_of, rows, str(now.date()))], "test", 0, FENCE)


@contextmanager
def running_stack(directory: Path) -> Iterator[Stack]:
    """All of it, running; ended in order."""
    store = directory / "tables"
    store_readings(store, past_readings())
    store_refusal(store, b'{"value": "<b>many</b>"}')
    with ExitStack() as parts:
        broker = BrokerProcess(directory / "broker")
        broker.start()
        parts.callback(broker.kill)
        queue = f"kafka://{broker.bootstrap}/gpu-telemetry"
        source = f"sim://?hosts={HOSTS}&gpus={GPUS}&seed=1&faults=none"
        streamer = StreamerProcess(directory / "streamer", queue, source, ("--interval", "1s"))
        parts.callback(streamer.start().kill)
        gateway = GatewayProcess(directory / "gateway", store, ("--queue", queue)).start()
        parts.callback(gateway.kill)
        stack = Stack(gateway.url)
        wait_until(lambda: len(stack.gpus()) == HOSTS * GPUS, within=20, what="the fleet")
        yield stack
