"""The pages under docs/ keep up with the code: settings, proofs and links are really there."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from nexus.broker.topic_config import DEFINITIONS
from nexus.gateway.live.metrics import LiveMetrics
from nexus.observe.metrics import Registry
from nexus.settings.broker import SECTIONS
from nexus.settings.collector import CollectorSection
from nexus.settings.gateway import GatewaySection
from nexus.settings.options import options_of
from nexus.settings.streamer import StreamerSection
from nexus.settings.up import UpSection

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = [*DOCS.glob("*.md"), *ROOT.glob("*.md")]
PROOF = re.compile(r"`([a-z_/]+/test_\w+\.py)::([Tt]est\w+)`")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)[^)]*\)")


def section_of(page: str, heading: str) -> str:
    return page.partition(f"\n### {heading}")[2].partition("\n### ")[0]


@pytest.mark.parametrize("section", SECTIONS)
def test_every_setting_is_on_the_operations_page(section: str) -> None:
    page = (DOCS / "operations.md").read_text()
    heading = "`cluster`" if section == "replication" else f"`{section}`"
    text = section_of(page, heading)
    cls = SECTIONS[section]
    assert fields(cls)
    missing = [o.key for o in options_of(cls).values() if f"`{o.key}`" not in text]
    assert missing == []


def test_every_setting_of_the_streamer_is_on_its_page() -> None:
    text = section_of((DOCS / "streamer.md").read_text(), "`streamer`")
    keys = [option.key for option in options_of(StreamerSection).values()]
    assert [key for key in keys if f"`{key}`" not in text] == []


def test_every_setting_of_the_collector_is_on_its_page() -> None:
    text = section_of((DOCS / "collector.md").read_text(), "`collector`")
    keys = [option.key for option in options_of(CollectorSection).values()]
    assert [key for key in keys if f"`{key}`" not in text] == []


def test_every_setting_of_up_is_on_the_operations_page() -> None:
    text = section_of((DOCS / "operations.md").read_text(), "`up`")
    keys = [option.key for option in options_of(UpSection).values()]
    assert [key for key in keys if f"`{key}`" not in text] == []


def test_every_setting_of_the_gateway_is_on_its_page() -> None:
    text = section_of((DOCS / "api.md").read_text(), "`gateway`")
    keys = [option.key for option in options_of(GatewaySection).values()]
    assert [key for key in keys if f"`{key}`" not in text] == []


def test_every_metric_of_the_live_stream_is_on_the_operations_page() -> None:
    registry = Registry()
    LiveMetrics(registry)
    page = (DOCS / "operations.md").read_text()
    names = re.findall(
        r"^(nexus_gateway_live_\w+_total) ", registry.render().decode(), re.MULTILINE
    )
    assert len(names) > 9
    assert [name for name in names if f"`{name}`" not in page] == []


def test_every_topic_setting_is_on_the_operations_page() -> None:
    text = section_of((DOCS / "operations.md").read_text(), "`topics`")
    assert [name for name in DEFINITIONS if f"`{name}`" not in text] == []


def test_every_proof_of_a_guarantee_is_a_test_that_exists() -> None:
    proofs = PROOF.findall((DOCS / "guarantees.md").read_text())
    assert len(proofs) > 20
    absent = [
        f"{path}::{name}"
        for path, name in proofs
        if not re.search(rf"def {name}\(|^{name}\b", _text(ROOT / "tests" / path), re.MULTILINE)
    ]
    assert absent == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file(page: Path) -> None:
    targets = LINK.findall(page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_every_folder_of_the_package_is_on_the_map() -> None:
    page = (DOCS / "architecture.md").read_text()
    folders = [p.name for p in (ROOT / "src" / "nexus").iterdir() if (p / "__init__.py").exists()]
    assert [name for name in folders if f"  {name}/" not in page] == []


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""
