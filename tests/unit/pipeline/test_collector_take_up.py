"""Settings that change while a collector runs: how long tables are kept, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from nexus.lake.url import parse_store_url
from nexus.pipeline.collector.stores import DeltaStore
from nexus.settings.collector import CollectorSection


def test_the_next_upkeep_keeps_tables_as_long_as_the_new_settings_say(tmp_path: Path) -> None:
    started = CollectorSection()
    store = DeltaStore(parse_store_url(f"delta:{tmp_path}"), started)
    changed = replace(started, retention_readings_ms=86_400_000, trigger_ms=1)
    store.take_up(changed)
    assert store.own.retention["readings"] == timedelta(days=1)
    assert store.own.retention["rollup_1h"] == timedelta(days=730)
    assert store.own.trigger_ms == started.trigger_ms
