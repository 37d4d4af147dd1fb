"""How `nexus up` talks, and what it sees of its parts while they run."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest
from rich.console import Console

from nexus.up.events import Over, Settled, WasReady
from nexus.up.machine import Part, house_of
from nexus.up.runner import Program
from nexus.up.summary import Summary, Tally
from nexus.up.versions import newest_version
from nexus.up.voice import JsonVoice, PlainVoice, TerminalVoice, voice_for
from nexus.up.watch import Sight, Watcher
from nexus.up.words import Facts

PROGRAM = Program(Part("broker"), ("x",), "http://x/", Path("broker.log"))
FACTS = Facts({"broker": PROGRAM}, "http://here", "logs", lambda name: "")
HOUSE = house_of([Part("broker")])
SUMMARY = Summary(60.0, 1.0, HOUSE, Sight(), Tally(5, 1))


def test_without_a_terminal_there_are_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    voice = voice_for(FACTS, as_json=False)
    assert type(voice) is PlainVoice
    for notice in (WasReady("broker", 0.4), Settled(), Over()):
        voice.notice(notice)
    for _ in range(2):
        voice.show(Sight(rows_after_s=12.0), HOUSE)
    voice.summary(SUMMARY)
    voice.close()
    assert capsys.readouterr().out.splitlines() == [
        "broker ready in 0.4 s",
        "dashboard: http://here   (Ctrl-C stops everything; logs in logs)",
        "first readings to see after 12.0 s",
        "stopped in 1.0 s after a run of 60 s",
        "5 readings stored, 1 GPUs seen, no restarts",
    ]


def test_for_programs_there_is_an_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    voice = voice_for(FACTS, as_json=True)
    assert type(voice) is JsonVoice
    voice.notice(WasReady("broker", 0.4))
    for _ in range(2):
        voice.show(Sight(rows_after_s=12.0), HOUSE)
    voice.summary(SUMMARY)
    voice.close()
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["event"] for event in events] == ["ready", "rows", "summary"]
    assert events[-1]["readings_stored"] == 5


def test_on_a_terminal_one_line_is_drawn_over_itself_and_gone_at_the_end() -> None:
    screen = io.StringIO()
    voice = TerminalVoice(FACTS, Console(file=screen, force_terminal=True, width=80))
    voice.show(Sight(readings=7, rate=3.0), HOUSE)
    voice.notice(WasReady("broker", 0.4))
    assert "7 readings stored" in screen.getvalue()
    voice.summary(SUMMARY)
    voice.close()
    assert screen.getvalue().endswith("5 readings stored, 1 GPUs seen, no restarts\x1b[0m\n")


class Parts(BaseHTTPRequestHandler):
    """A collector and a gateway in one: its tables fill after it was asked twice."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        status = {"readings": 12, "rate": 3.5, "lag_messages": 0, "problem": ""}
        rows: list[dict[str, int]] = [{}] if self.asked.count(self.path) > 2 else []
        body = json.dumps(status if self.path.endswith("/status") else {"data": rows}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def parts() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Parts) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_the_watcher_sees_numbers_memory_and_when_there_is_something_to_see(parts: str) -> None:
    shown: list[Sight] = []

    async def story() -> None:
        watching = asyncio.create_task(Watcher(parts, parts, shown.append).run())
        async with asyncio.timeout(20):
            while not (shown and shown[-1].rows_after_s):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching

    asyncio.run(story())
    assert shown[0].rows_after_s is None
    last = shown[-1]
    assert (last.readings, last.rate, last.lag_messages) == (12, 3.5, 0)
    assert last.memory_peak_bytes >= last.memory_bytes > 1 << 20
    assert "/api/v1/telemetry/latest?limit=1" in Parts.asked


def test_the_tables_version_is_known_without_opening_them(tmp_path: Path) -> None:
    store = f"delta:{tmp_path}"
    assert newest_version(store) == -1
    log = tmp_path / "readings" / "_delta_log"
    log.mkdir(parents=True)
    for name in ("00000000000000000009.json", "00000000000000000010.json", "_last_checkpoint.json"):
        (log / name).touch()
    assert newest_version(store) == 10
