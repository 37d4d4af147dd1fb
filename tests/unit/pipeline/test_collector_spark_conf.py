"""What Spark and its source are told: sparing by default, and every setting has its effect."""

import importlib.util
import subprocess
import sys
import xml.etree.ElementTree as ET
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from nexus.pipeline.collector.conf import Places, is_local, log_settings, pools, spark_conf
from nexus.pipeline.collector.naming import folder_of, source_options, start_of, stream_plan
from nexus.pipeline.collector.shipping import ship
from nexus.pipeline.source.options import parse_options
from nexus.queue.url import parse_queue_url
from nexus.settings.collector import CollectorSection, load_collector_settings

PLACES = Places(Path("/d/x"))


def told(**environ: str) -> CollectorSection:
    return load_collector_settings(environ=environ).collector


def test_workers_is_how_many_tasks_run_at_once() -> None:
    conf = spark_conf(told(WORKERS="3"), PLACES)
    assert conf["spark.master"] == "local[3,2]"
    assert conf["spark.sql.shuffle.partitions"] == "3"
    assert source_options(told(WORKERS="3"), PLACES.folder, 0.0)["tasks"] == "6"


def test_on_a_cluster_workers_bounds_the_cores_and_executors() -> None:
    own = told(WORKERS="8", NEXUS_COLLECTOR_MASTER="spark://h:7077")
    conf = spark_conf(own, PLACES, shipped=[Path("/d/x/nexus.zip")])
    assert conf["spark.master"] == "spark://h:7077"
    assert conf["spark.cores.max"] == conf["spark.executor.instances"] == "8"
    assert conf["spark.submit.pyFiles"] == "/d/x/nexus.zip"
    assert "spark.driver.bindAddress" not in conf
    assert not is_local(conf)


def test_batch_size_is_how_many_readings_a_batch_has_at_most() -> None:
    options = source_options(told(BATCH_SIZE="500"), PLACES.folder, 0.0)
    assert parse_options(options).limits.readings == 500


def test_poll_timeout_is_how_long_the_queue_may_be_silent() -> None:
    options = source_options(told(POLL_TIMEOUT="1500ms"), PLACES.folder, 0.0)
    assert parse_options(options).poll_timeout_s == 1.5


def test_processing_interval_is_how_often_a_stream_looks_for_more() -> None:
    own = told(PROCESSING_INTERVAL="250ms", NEXUS_COLLECTOR_DATA_DIR="/d")
    plan = stream_plan(own, parse_queue_url(own.queue), "delta:///x", 0.0)
    assert plan.trigger_ms == 250
    assert plan.checkpoint.parent == Path(plan.source["start_file"]).parent
    assert (plan.origin, plan.available_now) == ("gpu-telemetry", False)


def test_collector_id_is_the_name_of_the_application() -> None:
    assert spark_conf(told(COLLECTOR_ID="c-7"), PLACES)["spark.app.name"] == "nexus-collector-c-7"


def test_every_option_of_the_source_is_one_that_it_knows() -> None:
    own = replace(told(), partitions="0-5", start="2h", on_gone="skip")
    options = parse_options(source_options(own, Path("/d/x"), 10_000.0))
    assert options.form == "narrow"
    assert options.start.moment_ms == 10_000_000 - 7_200_000
    assert options.start_file == Path("/d/x/start.json")
    assert 5 in options.partitions
    assert 6 not in options.partitions
    assert options.on_gone == "skip"


@pytest.mark.parametrize("text", ["earliest", "latest", "2025-07-18T20:00:00Z", "17", '{"0": 1}'])
def test_a_start_that_is_no_age_is_left_to_the_source(text: str) -> None:
    assert start_of(text, 1e6) == text


def test_what_the_user_says_has_the_last_word() -> None:
    own = told(NEXUS_COLLECTOR_CONF="spark.driver.memory=3g")
    assert spark_conf(own, PLACES)["spark.driver.memory"] == "3g"
    own = replace(own, conf=(("spark.master", "local[1]"), ("spark.ui.enabled", "true")))
    conf = spark_conf(own, PLACES)
    assert (conf["spark.master"], conf["spark.ui.enabled"]) == ("local[1]", "true")


def test_more_java_options_are_added_to_ours() -> None:
    own = replace(told(), conf=(("spark.driver.extraJavaOptions", "-Dx=1"),))
    options = spark_conf(own, PLACES, ["-XX:SharedArchiveFile=/a"])["spark.driver.extraJavaOptions"]
    assert options.endswith("-XX:SharedArchiveFile=/a -Dx=1")
    assert "-XX:+UseSerialGC" in options
    assert "log4j2.configurationFile=file:///d/x/log4j2.properties" in options


def test_workers_on_this_machine_are_forked_with_their_modules_loaded() -> None:
    name = "spark.python.daemon.module"
    module = spark_conf(told(), PLACES)[name]
    assert importlib.util.find_spec(module) is not None
    assert name not in spark_conf(told(NEXUS_COLLECTOR_MASTER="spark://h:1"), PLACES)
    assert name not in spark_conf(told(NEXUS_COLLECTOR_PYTHON="/other/python"), PLACES)


def test_what_workers_need_is_loaded_and_what_they_do_not_is_not() -> None:
    code = (
        "import sys; from nexus.pipeline.collector.worker_daemon import preload;"
        "preload('pyspark.worker');"
        "assert {'pyspark.worker', 'nexus.pipeline.sink.writer'} <= set(sys.modules);"
        "sys.exit('pandas' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_sparks_log_goes_to_a_file_of_bounded_size() -> None:
    text = log_settings(PLACES)
    assert "appender.file.fileName = /d/x/spark.log" in text
    assert "policies.size = 10MB" in text
    assert "console" not in text.lower()


def test_the_stream_has_the_greater_share_of_the_cores() -> None:
    weights = {p.get("name"): int(p.findtext("weight") or 0) for p in ET.fromstring(pools())}
    assert weights == {"stream": 4, "derive": 1}


def test_each_queue_store_and_choice_of_partitions_has_a_folder_of_its_own() -> None:
    queue, store = "kafka://h:9092/gpu-telemetry", "delta:///var/lake"
    names = {
        folder_of(queue, store, ""),
        folder_of(queue, store, "0-5"),
        folder_of("kafka://other:9092/gpu-telemetry", store, ""),
        folder_of(queue, "s3://bucket/lake", ""),
    }
    assert len(names) == 4
    assert all(name.startswith("gpu-telemetry-to-lake-") for name in names)
    assert folder_of(queue, store, "") == folder_of(queue, store, "")


def test_what_is_shipped_holds_every_module_once(tmp_path: Path) -> None:
    path = ship(tmp_path)
    first = path.read_bytes()
    names = zipfile.ZipFile(path).namelist()
    assert "nexus/pipeline/source/datasource.py" in names
    assert "nexus/telemetry/codec.py" in names
    assert len(set(names)) == len(names)
    assert ship(tmp_path).read_bytes() == first
