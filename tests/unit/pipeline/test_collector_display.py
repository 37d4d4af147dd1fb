"""What people and programs see while a collector runs: the live line, JSON lines, metrics."""

import asyncio
import io
import json
import logging
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console

from nexus.pipeline.collector.display import json_line, panel, show, show_line
from nexus.pipeline.collector.metrics import METRICS, CollectorRegistry
from nexus.pipeline.collector.progress import Phase, Progress, View
from support.views import STORE, HandClock, batch, bounds, running

PAGE = Path(__file__).parents[3] / "docs" / "collector.md"


def drawn(view: View, width: int = 100) -> str:
    screen = Console(file=io.StringIO(), width=width, force_terminal=False)
    screen.print(panel(view))
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue()


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def progress(clock: HandClock) -> Progress:
    made = running(clock)
    batch(made, 0, 12_345, end=30)
    made.queue(bounds(50))
    return made


def test_the_line_has_what_an_operator_looks_for(progress: Progress, clock: HandClock) -> None:
    clock.now += 3
    names, values = drawn(progress.view()).splitlines()
    expected = ["readings", "rate", "lag", "batch", "quarantined", "last commit", "state"]
    assert [name for name in expected if name not in names] == []
    for value in ("12,345", "/s", "20 messages", "0.5 s", "3 s ago", "running"):
        assert value in values


def test_it_says_when_everything_is_stored(progress: Progress) -> None:
    progress.queue(bounds(30))
    assert "caught up" in drawn(progress.view())


def test_a_problem_has_a_line_of_its_own(progress: Progress) -> None:
    progress.queue(None, "queue kafka://h: no broker answers")
    text = drawn(progress.view())
    assert "queue away" in text
    assert "no broker answers; trying again" in text


def test_a_job_that_fails_has_a_line_too(progress: Progress) -> None:
    progress.chore("derive", 1.0, "no room", {})
    assert "derive: no room; trying again" in drawn(progress.view())


@pytest.mark.parametrize(
    ("phase", "note", "says"),
    [
        (Phase.STARTING, "Spark", "starting Spark  7 s"),
        (Phase.STANDBY, "c-1 writes to it", "standing by: c-1 writes to it  7 s"),
        (Phase.WAITING, "no broker answers", "waiting for the queue: no broker answers  7 s"),
    ],
)
def test_before_it_runs_it_says_what_it_waits_for(
    clock: HandClock, phase: Phase, note: str, says: str
) -> None:
    progress = Progress((STORE,), clock)
    progress.enter(Phase.STANDBY if phase is Phase.STARTING else Phase.STARTING)
    progress.enter(phase, note)
    clock.now += 7
    assert drawn(progress.view()).strip() == says


def test_while_it_stops_the_numbers_stay(progress: Progress) -> None:
    progress.enter(Phase.STOPPING, "after the running batch")
    text = drawn(progress.view())
    assert "12,345" in text
    assert "stopping: after the running batch" in text


def test_a_json_line_is_one_object_with_the_same_facts(progress: Progress) -> None:
    line = json_line(progress.view())
    assert "\n" not in line
    said = json.loads(line)
    assert (said["readings"], said["lag_messages"], said["phase"]) == (12_345, 20, "running")
    assert said["stores"][0]["store"] == STORE
    assert said["time"].endswith("+00:00")


async def shown_for(seconds: float, showing: Coroutine[Any, Any, None]) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await showing


def test_json_comes_with_every_batch_and_change(
    progress: Progress, capsys: pytest.CaptureFixture[str]
) -> None:
    async def story() -> None:
        task = asyncio.create_task(shown_for(0.9, show(progress.view, as_json=True)))
        await asyncio.sleep(0.3)
        batch(progress, 1, 5, end=40)
        await task

    asyncio.run(story())
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["batches"] for line in lines] == [1, 2]


def test_the_line_draws_over_itself_until_cancelled(
    progress: Progress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # of other tests, with closed streams
    screen = Console(file=io.StringIO(), width=100, force_terminal=True)
    asyncio.run(shown_for(0.1, show_line(progress.view, screen)))
    assert isinstance(screen.file, io.StringIO)
    assert "12,345" in screen.file.getvalue()


def test_metrics_are_what_the_view_says(progress: Progress, clock: HandClock) -> None:
    clock.now += 2
    progress.chore("derive", 1.5, "", {})
    text = CollectorRegistry(progress.view).render().decode()
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found["nexus_collector_readings_stored_total", STORE] == 12_345
    assert found["nexus_collector_lag_messages", "0"] == 20
    assert found["nexus_collector_offset", "0"] == 30
    assert found["nexus_collector_seconds_since_commit",] == 2
    assert found["nexus_collector_batch_seconds_bucket", "0.5"] == 1
    assert found["nexus_collector_phase_seconds_total", "addBatch"] == 0.4
    assert found["nexus_collector_job_seconds", "derive"] == 1.5
    assert found["nexus_collector_queue_away",] == 0


def test_every_metric_is_on_the_page() -> None:
    page = PAGE.read_text()
    names = [
        f"nexus_collector_{name}{'_total' if kind == 'counter' else ''}"
        for kind, name, *_ in METRICS
    ]
    assert [name for name in names if f"`{name}" not in page] == []
