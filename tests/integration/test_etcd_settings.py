"""Settings in one key of a real etcd: read at the start, taken up while a part runs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nexus.cli.config_place import loaded, read_config
from nexus.cli.entry import run
from nexus.etcd.blocking import BlockingClient
from nexus.etcd_settings.document import parse_settings_key, read_settings
from nexus.etcd_settings.errors import SettingsAway
from nexus.etcd_settings.following import SettingsFollower
from nexus.queue.etcd.counts import totals
from nexus.queue.etcd.layout import Layout
from nexus.settings.errors import SettingsError
from nexus.settings.place import Document
from nexus.settings.streamer import SECTIONS, StreamerSettings, load_streamer_settings
from support.broker import NEXUS
from support.etcd import EtcdMember
from support.ports import free_port
from support.waiting import wait_until

Put = Callable[[str], None]


@pytest.fixture
def place(etcd: EtcdMember, name: str) -> str:
    return f"etcd://{etcd.endpoint}/{name}/config"


@pytest.fixture
def put(etcd: EtcdMember, name: str) -> Iterator[Put]:
    with BlockingClient(etcd.config()) as client:
        yield lambda text: client.put(f"/{name}/config".encode(), text.encode()) and None


def load(config: Document | Path | None) -> StreamerSettings:
    return load_streamer_settings(config, environ={})


# Reading


def test_the_document_is_one_key_and_the_same_yaml_as_in_a_file(place: str, put: Put) -> None:
    put("streamer: {rate: 7}\nbroker: {port: 9192}\n")
    settings = load(read_config(place))
    assert settings.streamer.rate == 7
    assert settings.provenance["streamer.rate"].where == f"{place}:1"


def test_the_environment_may_name_it_and_config_show_tells_where_values_are_from(
    place: str, put: Put, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    put("broker:\n  port: 9192\n")
    monkeypatch.setenv("NEXUS_CONFIG", place)
    assert run(["config", "show", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["broker.port"] == {"value": "9192", "source": f"{place}:2"}


def test_a_mistake_names_key_and_line(
    place: str, put: Put, capsys: pytest.CaptureFixture[str]
) -> None:
    put("streamer:\n  rat: 7\n")
    assert run(["streamer", "--config", place]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"nexus: {place}:2: streamer.rat: unknown key; did you mean rate?")


def test_a_key_that_is_not_there_is_told_with_how_to_put_it(place: str, name: str) -> None:
    with pytest.raises(SettingsError, match=f"etcdctl put /{name}/config < nexus.yaml"):
        read_settings(place)


def test_without_a_path_it_is_the_usual_key_and_unknown_options_are_refused() -> None:
    assert str(parse_settings_key("etcd://h:1")) == "etcd://h:1/telemetry/config"
    with pytest.raises(SettingsError, match="unknown option ttl"):
        parse_settings_key("etcd://h:1/k?ttl=1h")
    with pytest.raises(SettingsError, match="expected etcd://host:port"):
        parse_settings_key("etcd://h:port/k")


def test_an_etcd_that_is_away_is_no_mistake_in_the_settings() -> None:
    with pytest.raises(SettingsAway, match="the settings cannot be read"):
        read_settings(f"etcd://127.0.0.1:{free_port()}/k", timeout_s=0.5)


# Following


@contextmanager
def followed(place: str) -> Iterator[list[int]]:
    """The rates that a part takes up."""
    taken: list[int] = []
    settings, follow = loaded(place, load, SECTIONS)
    assert follow is not None
    with follow(settings, lambda changed: taken.append(changed.streamer.rate)):
        yield taken


def warnings(caplog: pytest.LogCaptureFixture, about: str) -> Sequence[dict[str, Any]]:
    return [vars(r)["nexus_fields"] for r in caplog.records if about in r.message]


def test_a_file_is_read_once_and_not_followed(tmp_path: Path) -> None:
    file = tmp_path / "nexus.yaml"
    file.write_text("streamer: {rate: 7}")
    settings, follow = loaded(str(file), load, SECTIONS)
    assert (settings.streamer.rate, follow) == (7, None)


def test_what_may_change_is_taken_up_and_the_rest_is_told_once(
    place: str, put: Put, caplog: pytest.LogCaptureFixture
) -> None:
    put("streamer: {rate: 1}")
    with followed(place) as taken, caplog.at_level("INFO"):
        put("streamer: {rate: 2}")
        wait_until(lambda: taken == [2], what="the new rate")
        put("streamer: {rate: 2, encoding: json}")
        restart = "counts after a restart"
        wait_until(lambda: warnings(caplog, restart), what="a word about the encoding")
        put("streamer: {rate: 3, encoding: json}")
        wait_until(lambda: taken == [2, 3], what="the newer rate")
    (told,) = warnings(caplog, restart)
    assert told == {"setting": "streamer.encoding", "to": "json", "runs_with": "arrow"}


def test_a_mistake_or_a_deleted_key_changes_nothing_and_what_follows_counts(
    etcd: EtcdMember, place: str, put: Put, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    put("streamer: {rate: 1}")
    with followed(place) as taken, caplog.at_level("INFO"):
        put("streamer: {rate: many}")
        wait_until(lambda: warnings(caplog, "have a mistake"), what="a word about the mistake")
        with BlockingClient(etcd.config()) as client:
            client.delete(f"/{name}/config".encode())
        wait_until(lambda: warnings(caplog, "are gone"), what="a word about the deleted key")
        assert taken == []
        put("streamer: {rate: 4}")
        wait_until(lambda: taken == [4], what="the rate after all")


def test_a_change_while_etcd_was_away_is_taken_up_when_it_is_back(
    tmp_path: Path, name: str
) -> None:
    member = EtcdMember(tmp_path).start()
    key = parse_settings_key(f"etcd://{member.endpoint}/{name}")

    def put(text: str) -> None:
        with BlockingClient(member.config()) as client:
            client.put(key.key, text.encode())

    put("streamer: {rate: 1}")
    taken: list[int] = []
    follow = SettingsFollower(key, load, SECTIONS, again_s=0.1)
    try:
        started = load(read_settings(str(key)))
        with follow(started, lambda changed: taken.append(changed.streamer.rate)):
            member.kill()
            member.start()
            put("streamer: {rate: 5}")
            wait_until(lambda: taken == [5], within=30, what="the rate")
    finally:
        member.kill()


@contextmanager
def running(log: Path, *words: str) -> Iterator[None]:
    """A part as a process of its own, with its log; it ends well."""
    with log.open("wb") as err:
        process = subprocess.Popen([str(NEXUS), *words], stdout=err, stderr=err)
    try:
        yield
    finally:
        process.terminate()
        assert process.wait(30) == 0, log.read_text()


@pytest.mark.parametrize("part", ["broker", "gateway"])
def test_a_server_that_runs_logs_as_the_new_level_says(
    place: str, put: Put, tmp_path: Path, part: str
) -> None:
    put(f"{part}: {{log_level: info, log_format: json}}")
    log = tmp_path / "log"
    words = [part, "--config", place]
    if part == "broker":
        words += ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data-dir", str(tmp_path)]
    else:
        words += ["--port", str(free_port()), "--store", f"delta:{tmp_path / 'tables'}"]
    with running(log, *words):
        wait_until(lambda: "ready" in log.read_text(), within=60, what="a start")
        put(f"{part}: {{log_level: error, log_format: json}}")
        wait_until(lambda: "a setting changed" in log.read_text(), what="the new level")
    assert "stopping" not in log.read_text()  # which is told as information


def test_a_streamer_that_runs_goes_at_the_new_pace(
    etcd: EtcdMember, place: str, put: Put, name: str, tmp_path: Path
) -> None:
    put("streamer: {rate: 1, loop: true, log_format: json}")
    log = tmp_path / "log"
    words = ["--config", place, "--source", "recording://", "--state-dir", str(tmp_path)]
    words += ["--queue", f"etcd://{etcd.endpoint}/{name}/queue"]
    words += ["--http", f"127.0.0.1:{free_port()}"]

    def published() -> int:
        with BlockingClient(etcd.config()) as client:
            found = client.run(lambda c: totals(c, Layout(f"/{name}/queue")))
            return found.published.messages

    with running(log, "streamer", *words):
        wait_until(lambda: published() > 0, within=60, what="a first reading")
        put("streamer: {rate: 0, loop: true, log_format: json, speed: 1000}")
        wait_until(lambda: published() > 1000, within=60, what="readings at the new pace")
    assert "a setting changed" in log.read_text()
