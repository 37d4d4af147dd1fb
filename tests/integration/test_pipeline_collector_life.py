"""A real collector from its start to its end: what it tells, to whom, and what it refuses.

Starts of Spark are dear, so the tests of this file are one story.
"""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from support.broker import NEXUS, BrokerProcess
from support.collectors import CollectorProcess
from support.fixtures import MakeTopic
from support.published import arrow_messages, publish
from support.readings import fleet

PARTITIONS = 4
FAMILIAR = {
    "WORKERS": "1",
    "BATCH_SIZE": "1000",
    "POLL_TIMEOUT": "5s",
    "PROCESSING_INTERVAL": "300ms",
}


@pytest.fixture
def pair(
    tmp_path: Path, broker: BrokerProcess, make_topic: MakeTopic
) -> Iterator[tuple[CollectorProcess, CollectorProcess]]:
    """Two collectors for one queue and one store."""
    topic = make_topic(PARTITIONS)

    def make(name: str) -> CollectorProcess:
        return CollectorProcess(
            tmp_path / name,
            f"kafka://{broker.bootstrap}/{topic}",
            f"delta://{tmp_path}/tables",
            flags=("--group", topic),
            environ=FAMILIAR | {"COLLECTOR_ID": name},
            data_dir=tmp_path / "data",
        )

    made = make("c-7"), make("c-8")
    yield made
    for each in made:
        each.kill_all()


def nexus(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(NEXUS), *words], capture_output=True, text=True, timeout=60, check=False
    )


def page(http: str, path: str) -> str:
    with urllib.request.urlopen(http + path, timeout=10) as answer:
        text: str = answer.read().decode()
    return text


@pytest.mark.timeout(400)
def test_a_collector_from_start_to_end(
    pair: tuple[CollectorProcess, CollectorProcess], broker: BrokerProcess, tmp_path: Path
) -> None:
    collector, second = pair
    topic = collector.queue.rpartition("/")[2]
    messages = arrow_messages(fleet(2500, gpus=16), 250)
    publish(broker.bootstrap, topic, messages, range(PARTITIONS))
    line = collector.start().wait_line(
        lambda line: line["readings"] == 2500 and line["lag_messages"] == 0, "2500 readings"
    )

    # The names that operators know have their effect.
    assert line["collector"] == "c-7"
    (java,) = [words for words in collector.processes().values() if "SparkSubmit" in words]
    assert "spark.master=local[1,2]" in java
    sizes = [line["stores"][0]["readings_last_batch"] for line in collector.lines()]
    assert 0 < max(sizes) <= 1000
    assert line["batches"] >= 3

    # It tells the same everywhere.
    health = json.loads(page(line["http"], "/health"))
    assert (health["status"], health["ready"], health["lag_messages"]) == ("running", True, 0)
    metrics = page(line["http"], "/metrics")
    assert f'nexus_collector_readings_stored_total{{store="{collector.store}"}} 2500.0' in metrics
    assert json.loads(page(line["http"], "/api/v1/status"))["readings"] == 2500
    assert DeltaTable(f"{tmp_path}/tables/readings").to_pyarrow_table().num_rows == 2500

    # Another for the same store stands by, and work by hand is refused.
    waiting = second.start().wait_phase("standing by")
    assert "c-7" in waiting["note"]
    assert json.loads(page(waiting["http"], "/health"))["status"] == "standing by"
    busy = nexus("collector", "maintain", "--store", collector.store)
    assert busy.returncode == 1
    assert "c-7" in busy.stderr

    # Told to stop, it ends with everything committed, and the other takes over.
    assert collector.stop() == 0, collector.told()
    collector.wait_gone()
    assert (collector.last()["phase"], collector.last()["problem"]) == ("ended", "")
    described = nexus("groups", "describe", topic, "--bootstrap", broker.bootstrap, "--json")
    assert json.loads(described.stdout)["lag"] == 0, described.stdout
    second.wait_phase("running")

    # Without its Java machine it ends, says so, and leaves nothing behind.
    second.kill_java()
    assert second.wait() == 1
    second.wait_gone()
    assert "Java machine ended by itself (killed by signal 9" in second.stderr
    assert "Traceback" not in second.stderr
