"""Two versions of a part's settings: what differs, and what a running part may take up."""

from __future__ import annotations

from pathlib import Path

import pytest

from nexus.settings.changes import Change, changes_between
from nexus.settings.collector import load_collector_settings
from nexus.settings.document import entries_of
from nexus.settings.errors import SettingsError
from nexus.settings.options import FlagValue
from nexus.settings.place import Document, config_place
from nexus.settings.streamer import SECTIONS, StreamerSettings, load_streamer_settings


def settings_of(text: str, **flags: object) -> StreamerSettings:
    given = {f"streamer.{key}": FlagValue(f"--{key}", value) for key, value in flags.items()}
    return load_streamer_settings(Document("etcd://h/k", text), flags=given, environ={})


def changes(before: str, after: str, **flags: object) -> list[Change]:
    return list(
        changes_between(settings_of(before, **flags), settings_of(after, **flags), SECTIONS)
    )


def test_a_document_is_read_like_a_file_and_named_in_messages(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("streamer: {rate: 5}")
    place, entries = entries_of(Document("etcd://h/k", file.read_text()))
    assert (place, entries) == ("etcd://h/k", entries_of(file)[1])
    shown = {s.name: s for s in settings_of("streamer: {rate: 5}").shown()}
    assert (shown["streamer.rate"].value, shown["streamer.rate"].source) == ("5", "etcd://h/k:1")


def test_the_pace_may_change_and_the_queue_may_not() -> None:
    found = changes("streamer: {rate: 5}", "streamer: {rate: 7, queue: 'kafka://other:1/t'}")
    assert found == [
        Change(
            "streamer.queue",
            "kafka://127.0.0.1:9092/gpu-telemetry",
            "kafka://other:1/t",
            live=False,
        ),
        Change("streamer.rate", "5", "7", live=True),
    ]


def test_what_a_flag_decides_does_not_change() -> None:
    assert changes("streamer: {rate: 5}", "streamer: {rate: 7}", rate=9) == []


def test_a_value_that_is_taken_away_goes_back_to_its_default() -> None:
    (change,) = changes("cluster: {cluster_id: a}", "")
    assert (change.name, change.before) == ("cluster.cluster_id", "a")


def test_retention_may_change_while_a_collector_runs() -> None:
    document = Document("x", "collector: {retention_readings: 7d}")
    own = load_collector_settings(document, environ={}).collector
    assert own.retention["readings"].days == 7


def test_what_only_commands_can_read_is_no_file() -> None:
    with pytest.raises(SettingsError, match="NEXUS_CONFIG: etcd://h/k is read by the `nexus` com"):
        load_streamer_settings(environ={"NEXUS_CONFIG": "etcd://h/k"})


def test_the_flag_says_where_settings_are_else_the_environment() -> None:
    assert config_place("a.yaml", {"NEXUS_CONFIG": "b.yaml"}) == "a.yaml"
    assert config_place(None, {"NEXUS_CONFIG": "etcd://h/k"}) == "etcd://h/k"
    assert config_place(None, {}) is None
