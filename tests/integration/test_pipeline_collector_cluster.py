"""The collector on a real Spark cluster, whose workers have neither nexus nor its directory."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from support.broker import BrokerProcess
from support.cluster import SparkCluster, bare_python
from support.collectors import CollectorProcess
from support.fixtures import MakeTopic
from support.published import arrow_messages, json_messages, publish
from support.readings import fleet


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    made = SparkCluster(tmp_path / "cluster")
    try:
        yield made.start()
    finally:
        made.stop()


@pytest.mark.timeout(600)
def test_it_ships_itself_to_the_workers_of_a_cluster_and_ends_after_the_running_batch(
    tmp_path: Path, broker: BrokerProcess, make_topic: MakeTopic, cluster: SparkCluster
) -> None:
    topic = make_topic(2)
    publish(broker.bootstrap, topic, arrow_messages(fleet(2000, gpus=16), 200), (0, 1))
    publish(broker.bootstrap, topic, json_messages(fleet(100, gpus=4, seed=2)), (0, 1))
    python = bare_python(tmp_path / "bare")
    assert subprocess.run([python, "-c", "import pyarrow, deltalake"], check=False).returncode == 0
    assert subprocess.run([python, "-c", "import nexus"], capture_output=True).returncode == 1

    collector = CollectorProcess(
        tmp_path / "collector",
        f"kafka://{broker.bootstrap}/{topic}",
        f"delta://{tmp_path}/tables",
        flags=("--master", cluster.url, "--group", topic, "--trigger", "200ms"),
        settings=f"derive_interval: 1s, python: {python}, conf: {{spark.executor.memory: 512m}}",
    )
    try:
        collector.start()
        collector.wait_line(lambda line: line["readings"] == 2100, "every reading")
        collector.wait_line(
            lambda line: line["jobs"].get("derive", {}).get("runs"), "a derived table"
        )
        assert collector.stop() == 0, collector.told()
        collector.wait_gone()
    finally:
        collector.kill_all()
    assert collector.last()["phase"] == "ended"
    assert collector.last()["lag_messages"] == 0
    assert not collector.last()["problem"]
    assert DeltaTable(f"{tmp_path}/tables/readings").to_pyarrow_table().num_rows == 2100
    assert DeltaTable(f"{tmp_path}/tables/gpus").to_pyarrow_table().num_rows > 0
