"""The collector on a real Spark cluster whose workers do not have nexus, with tables in S3.

One executor is killed on the way.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from support.broker import BrokerProcess
from support.collectors import CollectorProcess, kill
from support.fixtures import MakeTopic
from support.object_store import CREDENTIALS, object_store, store_at
from support.reckoning import check_store, committed, ends
from support.sender import Sender
from support.spark_cluster import WORKERS, spark_cluster

PARTITIONS = 3
FEW = ("--batch-size", "800")
SMALL = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


@pytest.mark.timeout(600)
def test_it_ships_itself_to_workers_that_lack_it(
    broker: BrokerProcess, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(PARTITIONS)
    sender = Sender(broker.bootstrap, topic, PARTITIONS, seed=5)
    sender.scrapes(15)
    sender.stop()
    with object_store() as address, spark_cluster(tmp_path / "spark", CREDENTIALS) as cluster:
        assert importable(cluster.python, "pyarrow", tmp_path)
        assert not importable(cluster.python, "nexus", tmp_path)
        store = store_at(address, "nexus")
        conf = [word for key, value in SMALL.items() for word in ("--conf", f"{key}={value}")]
        collector = CollectorProcess(
            tmp_path / "collector",
            f"kafka://{broker.bootstrap}/{topic}",
            str(store),
            ("--master", cluster.master, "--available-now", *FEW, "--group", topic, *conf),
            settings=f"python: {cluster.python}",
        )
        try:
            collector.start().wait_batches(1)
            executors = cluster.executors()
            assert len(executors) == WORKERS
            kill(executors[0])
            assert collector.wait(300) == 0, collector.told()
            collector.wait_gone()
        finally:
            collector.kill_all()
        for number in range(WORKERS):
            assert list(cluster.work(number).glob("app-*/*/nexus.zip")), "it worked on both"
        print(check_store(store, sender))
    there = ends(broker.bootstrap, topic, PARTITIONS)
    assert committed(broker.bootstrap, topic, PARTITIONS, topic) == there


def importable(python: Path, module: str, folder: Path) -> bool:
    told = subprocess.run(
        [str(python), "-c", f"import {module}"], cwd=folder, check=False, stderr=subprocess.DEVNULL
    )
    return told.returncode == 0
