"""The alert rules that are shipped: Prometheus takes them, they fire, and brokers export all that
they ask for."""

from __future__ import annotations

import re
import subprocess
import urllib.request
from pathlib import Path

import pytest

from support.broker import BrokerProcess
from support.needs import need_program

RULES = Path(__file__).parents[2] / "deploy" / "prometheus" / "nexus-rules.yml"
CASES = RULES.with_name("nexus-rules-test.yml")
ALONE = """
broker: {{id: 1}}
cluster: {{mode: static, peers: ["1@127.0.0.1:{port}"]}}
"""
# These have a series for each topic, group, follower or kind of error: a broker alone has none.
WITH_TRAFFIC = {
    "nexus_broker_errors_total",
    "nexus_broker_group_lag",
    "nexus_broker_topic_messages_in_total",
    "nexus_cluster_replication_lag_seconds",
}


@pytest.mark.parametrize("words", [("check", "rules", RULES.name), ("test", "rules", CASES.name)])
def test_promtool_takes_the_rules_and_they_fire_as_they_should(words: tuple[str, ...]) -> None:
    done = subprocess.run(
        [need_program("promtool"), *words],
        cwd=RULES.parent,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_rule_is_tried() -> None:
    alerts = re.findall(r"alert: (\w+)", RULES.read_text())
    assert len(alerts) >= 10
    assert [name for name in alerts if f'alertname="{name}"' not in CASES.read_text()] == []


def test_a_broker_exports_every_metric_that_a_rule_asks_for(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    broker.settings = ALONE.format(port=broker.port)
    broker.start()
    try:
        with urllib.request.urlopen(f"{broker.http_url}/metrics", timeout=10) as page:
            text = page.read().decode()
    finally:
        broker.stop()
    declared = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    shown = set(re.findall(r"^(nexus_\w+)[ {]", text, re.MULTILINE))
    asked = set(re.findall(r"\bnexus_(?:broker|cluster)_\w+", RULES.read_text()))
    families = {re.sub("_(bucket|count|sum)$", "", name) for name in asked}
    assert len(families) >= 10
    assert sorted(families - declared) == []
    assert sorted(asked - shown) == sorted(WITH_TRAFFIC)
