"""What a running broker exports is what the operations page explains."""

from __future__ import annotations

from pathlib import Path

from support.broker import BrokerProcess

OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"
PARTS = ("_bucket", "_count", "_sum")


def family(name: str) -> str:
    for part in PARTS:
        name = name.removesuffix(part)
    return name


def test_every_metric_is_on_the_operations_page(broker: BrokerProcess) -> None:
    page = OPERATIONS.read_text()
    exported = {family(sample.name) for sample in broker.metrics()}
    assert "nexus_broker_fsync_seconds" in exported
    assert sorted(name for name in exported if f"`{name}`" not in page) == []
