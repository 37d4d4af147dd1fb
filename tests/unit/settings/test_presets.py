"""A preset sets a group of values; each can still be set by itself, and says where it is from."""

from __future__ import annotations

from pathlib import Path

import pytest

from nexus.settings import BrokerSettings, FlagValue, SettingsError, load_broker_settings
from nexus.settings.presets import PRESETS


def loaded(tmp_path: Path, text: str, **environ: str) -> BrokerSettings:
    path = tmp_path / "nexus.yaml"
    path.write_text(text)
    return load_broker_settings(path, environ=environ)


def sources(settings: BrokerSettings) -> dict[str, tuple[str, str]]:
    return {one.name: (one.value, one.source) for one in settings.shown()}


@pytest.mark.parametrize("name", PRESETS)
def test_every_value_of_a_preset_is_taken_and_says_so(tmp_path: Path, name: str) -> None:
    settings = loaded(tmp_path, f"cluster: {{preset: {name}}}\n")
    shown = sources(settings)
    where = f"preset {name} ({tmp_path}/nexus.yaml:1)"
    assert {shown[dotted][1] for dotted in PRESETS[name]} == {where}
    assert shown["storage.segment_size"][1] == "default"


def test_what_a_preset_sets_can_be_set_by_itself(tmp_path: Path) -> None:
    text = "cluster: {preset: consistency}\nreplication: {mode: sync}\n"
    settings = loaded(tmp_path, text, NEXUS_REPLICATION_MIN_INSYNC_REPLICAS="3")
    assert settings.replication.mode == "sync"
    assert settings.replication.min_insync_replicas == 3
    assert settings.replication.default_replication_factor == 3
    shown = sources(settings)
    assert shown["replication.mode"][1].endswith("nexus.yaml:2")
    assert shown["replication.min_insync_replicas"][1].startswith("environment")


def test_a_preset_may_come_from_a_flag_and_none_is_none() -> None:
    flags = {"cluster.preset": FlagValue("--set", "throughput")}
    settings = load_broker_settings(flags=flags, environ={})
    assert (settings.storage.fsync, settings.replication.mode) == ("interval", "async")
    plain = load_broker_settings(environ={})
    assert (plain.storage.fsync, plain.replication.mode) == ("commit", "sync")


def test_an_interval_alone_still_chooses_fsync_against_a_preset(tmp_path: Path) -> None:
    text = "cluster: {preset: consistency}\nstorage: {fsync_interval: 2s}\n"
    assert loaded(tmp_path, text).storage.fsync == "interval"


def test_an_unknown_preset_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="throughput"):
        loaded(tmp_path, "cluster: {preset: fast}\n")


def test_a_topic_has_its_own_strategy_and_mode(tmp_path: Path) -> None:
    text = "topics: {t: {partition_strategy: modulo, replication_mode: quorum}}\n"
    [topic] = loaded(tmp_path, text).topics
    assert topic.configs == {"partition.strategy": "modulo", "replication.mode": "quorum"}
