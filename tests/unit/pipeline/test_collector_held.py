"""A collector of a queue in etcd, as it is shown, named and remembered."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console

from nexus.pipeline.collector.display import panel
from nexus.pipeline.collector.listener import report_of
from nexus.pipeline.collector.naming import folder_of, queue_name, stream_plan
from nexus.pipeline.collector.progress import Held
from nexus.pipeline.collector.report import health_of, status_of, summary_of
from nexus.pipeline.collector.stream import last_committed
from nexus.queue.url import parse_queue_url
from nexus.settings.collector import CollectorSection
from support.views import STORE, HandClock, batch, running

PLACE = {"*": 0, "queue": "ab12", "east/0": [9], "east/1": [4, 9, "175_h_0_1"]}


def test_what_waits_is_what_the_queue_says() -> None:
    progress = running(HandClock())
    assert progress.view().lag is None
    progress.holds(Held({0: 3, 1: 0}))
    view = progress.view()
    assert (view.lag, view.lags(), view.has_lag) == (3, {0: 3, 1: 0}, True)
    progress.holds(Held({0: 0, 1: 0}))
    assert not progress.view().has_lag


def test_a_queue_that_answers_again_is_no_problem_any_more() -> None:
    progress = running(HandClock())
    progress.queue(None, "etcd is away")
    assert not health_of(progress.view(), 60.0)[0]
    progress.holds(Held({}))
    assert health_of(progress.view(), 60.0)[0]


def test_expired_messages_and_a_filling_database_are_seen() -> None:
    progress = running(HandClock())
    batch(progress, 0, 10, end=30)
    progress.holds(Held({0: 1}, 2.5, expired=7, in_use_bytes=800, quota_bytes=1000))
    view = progress.view()
    screen = Console(width=120, record=True, file=None)
    with screen.capture() as drawn:
        screen.print(panel(view))
    assert "80% full" in drawn.get()
    assert "expired" in drawn.get()
    assert status_of(view)["queue"]["oldest_seconds"] == 2.5
    assert "7 messages expired in the queue" in summary_of(view)


def test_a_report_hands_on_whatever_the_source_says() -> None:
    said = {"name": STORE, "batchId": 3, "sources": [{"endOffset": json.dumps(PLACE)}]}
    report = report_of(said)
    assert report.place == PLACE
    assert report.ends == {}, "these are no offsets"


def test_the_last_committed_place_is_read_from_a_checkpoint(tmp_path: Path) -> None:
    assert last_committed(tmp_path) is None
    for log, number, text in (
        ("offsets", 3, "v1\n{}\n" + json.dumps({"*": 0})),
        ("offsets", 4, "v1\n{}\n" + json.dumps(PLACE)),
        ("offsets", 5, "v1\n{}\n" + json.dumps({"*": 99})),
        ("commits", 3, "v1\n{}"),
        ("commits", 4, "v1\n{}"),
        ("commits", ".4.crc", ""),
    ):
        (tmp_path / log).mkdir(exist_ok=True)
        (tmp_path / log / str(number)).write_text(text)
    assert last_committed(tmp_path) == (4, PLACE), "batch 5 was planned, and is not committed"
    (tmp_path / "offsets" / "4").unlink()
    assert last_committed(tmp_path) is None


def test_a_checkpoint_is_of_the_queue_however_it_is_addressed() -> None:
    names = {
        queue_name(parse_queue_url(url))
        for url in (
            "etcd://n1:2379,n2:2379/q",
            "etcd://n2:2379,n1:2379/q?ttl=60&form=packed",
            "etcd://nexus@n1:2379,n2:2379/q",
        )
    }
    assert len(names) == 1
    (name,) = names
    assert folder_of(name, "delta:///x/tables", "").startswith("q-to-tables-")


def test_the_source_waits_for_the_doorbell_but_never_long() -> None:
    queue = parse_queue_url("etcd://n1:2379/q")
    for trigger_ms, available_now, wait in (
        (200, False, "200ms"),
        (60_000, False, "1000ms"),
        (200, True, "0ms"),
    ):
        own = CollectorSection(queue=str(queue), trigger_ms=trigger_ms, available_now=available_now)
        plan = stream_plan(own, queue, STORE, 0.0, {"acks": "true"})
        assert (plan.source["wait"], plan.source["acks"]) == (wait, "true")
    kafka = parse_queue_url("kafka://h:1/t")
    assert "wait" not in stream_plan(CollectorSection(), kafka, STORE, 0.0).source
