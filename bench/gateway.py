"""Measures the gateway on this machine: what a dashboard asks for, of a day of a large fleet.

    python bench/gateway.py [--readings N] [--quick] [--parts port,http,crowd,postgres]
                            [--folder DIR] [--json FILE]

The store is filled by the simulator (a thousand GPUs, and eight that report every second), with
derived tables. The same questions are asked of the query port in this process, of the gateway
over HTTP in a process of its own, by one client and by 200 at once, and of PostgreSQL with the
same rows. With --folder, tables that are there already are used again. Ratios travel better than
figures: clients and servers share the machine's cores.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import httpx
from gateway_postgres import Postgres
from gateway_tables import Filled, fill, moment_text

from nexus.bench.report import Figure, machine, print_table, save
from nexus.gateway.rendering.series import CHART_COLUMNS
from nexus.gateway.views import READING_COLUMNS, stored
from nexus.lake.url import parse_store_url
from nexus.store.opening import open_store
from nexus.store.port import ANY, Page, Selection, Snapshot, Span

NEXUS: Final = Path(sys.executable).with_name("nexus")
PARTS: Final = ("port", "http", "crowd", "postgres")
FULL, QUICK = 50_000_000, 1_000_000
CLIENTS: Final = 200
GOALS_MS: Final = {
    "hour": 100,
    "hour at 1 s": 100,
    "day": 150,
    "day of all": 150,
    "latest": 150,
    "gpus": 50,
}
WORDS: Final = {
    "hour": "a GPU's last hour, raw",
    "hour at 1 s": "a GPU's last hour, raw, 10,000 of 72,000",
    "day": "a GPU's day, one metric by 2 minutes",
    "day of all": "a GPU's day, 20 metrics by 2 minutes",
    "latest": "latest of 1,008 GPUs",
    "gpus": "gpus, 1,000 of them",
}
DAY_S, HOUR_S = 86_400, 3_600
METRIC: Final = "gpu_util"
# The columns that the gateway asks the port for.
ROWS, CHART = (stored(shown, "canonical") for shown in (READING_COLUMNS, CHART_COLUMNS))

Ask = Callable[[str, random.Random], int]  # asks one question; how many rows came


@dataclass(frozen=True)
class Times:
    """How long answers took, in ms, in order."""

    taken: list[float]
    rows: int

    def at(self, percent: float) -> float:
        return self.taken[min(len(self.taken) - 1, int(len(self.taken) * percent / 100))]

    def __str__(self) -> str:
        return f"{self.at(50):.0f} / {self.at(95):.0f} / {self.at(99):.0f} ms"


def measured(ask: Ask, name: str, count: int) -> Times:
    """One question of a kind after the other, each of another GPU."""
    rng = random.Random(name)
    rows = max(ask(name, rng) for _ in range(3))
    taken = []
    for _ in range(count):
        began = time.perf_counter()
        ask(name, rng)
        taken.append((time.perf_counter() - began) * 1e3)
    return Times(sorted(taken), rows)


def gpu_of(filled: Filled, name: str, rng: random.Random) -> str:
    return rng.choice(filled.quick if name == "hour at 1 s" else filled.slow)


def since(filled: Filled, name: str) -> int:
    return filled.end_s - (DAY_S if name.startswith("day") else HOUR_S)


def port_asker(snapshot: Callable[[], Snapshot], filled: Filled) -> Ask:
    """Asks the query port."""

    def ask(name: str, rng: random.Random) -> int:
        view = snapshot()
        which = Selection(uuids=(gpu_of(filled, name, rng),))
        span = Span(since(filled, name) * 1_000_000, filled.end_s * 1_000_000)
        if name.startswith("hour"):
            found = view.readings(which, span, Page(10_000, columns=ROWS))
        elif name.startswith("day"):
            which = replace(which, metrics=() if name == "day of all" else (METRIC,))
            found = view.rollups(which, span, 120, Page(50_000, columns=CHART))
        elif name == "latest":
            found = view.latest(
                Selection(metrics=(METRIC,)), Page(10_000, columns=ROWS), span.start_us
            )
        else:
            found = view.gpus(ANY, (), Page(1000))
        return int(found.num_rows)

    return ask


def path_of(filled: Filled, name: str, rng: random.Random) -> str:
    """The same question as a request."""
    if name == "gpus":
        return "/api/v1/gpus?limit=1000"
    if name == "latest":
        asked = {"metric": METRIC, "limit": "10000", "since": moment_text(since(filled, name))}
        return f"/api/v1/telemetry/latest?{urlencode(asked)}"
    start, end = moment_text(since(filled, name)), moment_text(filled.end_s)
    words = {"start_time": start, "end_time": end}
    if name.startswith("day"):
        words |= {"layout": "columns", **({} if name == "day of all" else {"metric": METRIC})}
    else:
        words |= {"resolution": "raw", "limit": "10000"}
    return f"/api/v1/gpus/{gpu_of(filled, name, rng)}/telemetry?{urlencode(words)}"


def http_asker(client: httpx.Client, filled: Filled) -> Ask:
    """Asks the gateway, and reads its answer."""

    def ask(name: str, rng: random.Random) -> int:
        answer = client.get(path_of(filled, name, rng)).raise_for_status()
        if name not in counted:  # once: to take an answer apart would be measured, too
            counted[name] = rows_of(answer.content)
        return counted[name]

    counted: dict[str, int] = {}
    return ask


def rows_of(body: bytes) -> int:
    answer = json.loads(body)
    if "series" in answer:
        return sum(len(series["time"]) for series in answer["series"])
    return len(answer["data"])


@contextmanager
def gateway(store: str) -> Iterator[str]:
    """A gateway in a process of its own; its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(NEXUS), "gateway", "--store", store, "--port", str(port)]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        address = f"http://127.0.0.1:{port}"
        try:
            _wait_ready(address, process)
            yield address
        finally:
            process.terminate()
            process.wait(20)


def _wait_ready(address: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if process.poll() is not None:
            raise SystemExit(f"the gateway ended with {process.returncode}")
        try:
            if httpx.get(f"{address}/ready", timeout=5).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.2)
    raise SystemExit("the gateway did not become ready")


def crowd(address: str, filled: Filled, requests: int) -> tuple[Times, int, float]:
    """200 clients at once, each with a mix of all questions; times, errors, requests a second."""
    taken: list[float] = []
    errors: list[str] = []

    async def client(number: int, http: httpx.AsyncClient) -> None:
        rng = random.Random(number)
        for _ in range(requests):
            name = rng.choice(list(GOALS_MS))
            began = time.perf_counter()
            try:
                (await http.get(path_of(filled, name, rng))).raise_for_status()
            except httpx.HTTPError as error:
                errors.append(repr(error))
            taken.append((time.perf_counter() - began) * 1e3)

    async def all_of_them() -> None:
        limits = httpx.Limits(max_connections=CLIENTS, max_keepalive_connections=CLIENTS)
        async with httpx.AsyncClient(base_url=address, timeout=120, limits=limits) as http:
            await asyncio.gather(*(client(number, http) for number in range(CLIENTS)))

    began = time.monotonic()
    asyncio.run(all_of_them())
    for error in sorted(set(errors))[:3]:
        print(f"  error: {error}", file=sys.stderr)
    return Times(sorted(taken), 0), len(errors), len(taken) / (time.monotonic() - began)


def postgres_asker(server: Postgres, filled: Filled) -> Ask:
    """Asks PostgreSQL; rows are read into Python, and no JSON is made of them."""
    run = server.asker()

    def ask(name: str, rng: random.Random) -> int:
        params = {
            "uuid": gpu_of(filled, name, rng),
            "start": since(filled, name),
            "end": filled.end_s,
        }
        return run(name.removesuffix(" at 1 s"), params)

    return ask


def timed(label: str, ask: Ask, count: int, *, goals: bool) -> list[Figure]:
    found = []
    for name, goal in GOALS_MS.items():
        times = measured(ask, name, count)
        said = f"p95 < {goal} ms" if goals else ""
        found.append(Figure(f"{label}: {WORDS[name]} ({times.rows:,} rows)", str(times), said))
        print(f"  {found[-1].measure}: {found[-1].value}", flush=True)
    return found


def filled_store(folder: Path, readings: int, server: Postgres | None) -> tuple[str, Filled]:
    """The store in a folder, filled unless it is there already."""
    store = f"delta://{folder / 'tables'}"
    note = folder / "filled.json"
    if note.exists() and server is None:
        said = json.loads(note.read_text())
        said |= {"slow": tuple(said["slow"]), "quick": tuple(said["quick"])}
        return store, Filled(**said)
    shutil.rmtree(folder / "tables", ignore_errors=True)
    began = time.monotonic()
    seen = server.add if server is not None else lambda name, rows: None
    made = fill(parse_store_url(store), readings, int(time.time()), seen)
    note.write_text(json.dumps(asdict(made)))
    print(
        f"filled: {made.readings:,} readings, {made.rollups:,} rows rolled up, every"
        f" {made.interval_s} s, in {time.monotonic() - began:.0f} s",
        flush=True,
    )
    return store, made


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def run(folder: Path, readings: int, parts: tuple[str, ...], count: int) -> list[Figure]:
    figures: list[Figure] = []
    with ExitStack() as stack:
        server = None
        if "postgres" in parts:
            shutil.rmtree(folder / "postgres", ignore_errors=True)
            server = stack.enter_context(Postgres(folder / "postgres"))
        store, filled = filled_store(folder, readings, server)
        size = size_of(folder / "tables")
        figures.append(Figure("readings", f"{filled.readings:,} in {size / 1e6:,.0f} MB", ""))
        if "port" in parts:
            asked = open_store(store)
            stack.callback(asked.close)
            figures += timed("port", port_asker(asked.snapshot, filled), count, goals=False)
            asked.close()
        if "http" in parts or "crowd" in parts:
            figures += over_http(store, filled, parts, count)
        if server is not None:
            bytes_ = server.finish()
            said = f"{bytes_ / 1e6:,.0f} MB, loaded in {server.load_s:.0f} s"
            figures.append(Figure("PostgreSQL: the same rows", said, ""))
            figures += timed("PostgreSQL", postgres_asker(server, filled), count, goals=False)
    return figures


def over_http(store: str, filled: Filled, parts: tuple[str, ...], count: int) -> list[Figure]:
    figures: list[Figure] = []
    with gateway(store) as address:
        if "http" in parts:
            with httpx.Client(base_url=address, timeout=60) as client:
                figures += timed("HTTP", http_asker(client, filled), count, goals=True)
        if "crowd" in parts:
            times, errors, rate = crowd(address, filled, max(2, count // 20))
            figures.append(Figure(f"{CLIENTS} clients at once, all of these", str(times), ""))
            figures.append(Figure("  requests a second", f"{rate:.0f}", ""))
            figures.append(Figure("  errors", str(errors), "0"))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--readings", type=int, default=None)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK:,} readings, fewer rounds")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--folder", type=Path, default=None, help="where tables are kept")
    parser.add_argument("--json", type=Path, default=None)
    given = parser.parse_args()
    readings = given.readings or (QUICK if given.quick else FULL)
    with ExitStack() as stack:
        folder = given.folder
        if folder is None:
            folder = Path(tempfile.mkdtemp(prefix="nexus-bench-"))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)  # PostgreSQL runs as another user inside
        setting = machine(folder)
        print(setting)
        parts: Any = tuple(part for part in given.parts.split(",") if part)
        figures = run(folder, readings, parts, 40 if given.quick else 200)
    print("\n(p50 / p95 / p99)")
    print_table(figures)
    if given.json is not None:
        save(given.json, setting, figures)


if __name__ == "__main__":
    main()
