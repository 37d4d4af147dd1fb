"""The collector's settings: the names operators know, the order of strength, every error's line."""

from datetime import timedelta
from pathlib import Path
from socket import gethostname

import pytest

from nexus.settings import FlagValue, SettingsError, load_broker_settings
from nexus.settings.collector import SECTIONS, CollectorSettings, load_collector_settings


def load(
    text: str | None = None,
    flags: dict[str, object] | None = None,
    tmp_path: Path | None = None,
    **environ: str,
) -> CollectorSettings:
    path = None
    if text is not None:
        assert tmp_path is not None
        path = tmp_path / "nexus.yaml"
        path.write_text(text)
    given = {f"collector.{name}": FlagValue("--flag", v) for name, v in (flags or {}).items()}
    return load_collector_settings(path, flags=given, environ=environ)


def refusal(flags: dict[str, object]) -> str:
    with pytest.raises(SettingsError) as refused:
        load(None, flags)
    line = str(refused.value)
    assert "\n" not in line
    return line


def test_the_defaults_are_what_the_documents_say() -> None:
    settings = load()
    own = settings.collector
    assert settings == CollectorSettings()
    assert own.queue == "kafka://127.0.0.1:9092/gpu-telemetry"
    assert own.stores == ("delta:./data/tables",)
    assert (own.start, own.partitions, own.group) == ("earliest", "", "nexus-collector")
    assert (own.trigger_ms, own.available_now, own.on_gone) == (2000, False, "fail")
    assert own.data_dir == Path("./data/collector")
    assert (own.http_host, own.http_port) == ("127.0.0.1", 9466)
    assert own.name == gethostname()
    assert own.retention == {
        "readings": timedelta(days=30),
        "quarantine": timedelta(days=30),
        "rollup_1m": timedelta(days=90),
        "rollup_1h": timedelta(days=730),
    }


@pytest.mark.parametrize(
    ("variable", "text", "field", "value"),
    [
        ("MSG_QUEUE_URL", "kafka://b:9092/t", "queue", "kafka://b:9092/t"),
        ("WORKERS", "3", "workers", 3),
        ("BATCH_SIZE", "500", "batch_size", 500),
        ("POLL_TIMEOUT", "4s", "poll_timeout_ms", 4000),
        ("PROCESSING_INTERVAL", "250ms", "trigger_ms", 250),
        ("COLLECTOR_ID", "c-7", "collector_id", "c-7"),
        ("NEXUS_COLLECTOR_GROUP", "mine", "group", "mine"),
    ],
)
def test_the_names_that_operators_know(variable: str, text: str, field: str, value: object) -> None:
    own = load_collector_settings(environ={variable: text}).collector
    assert getattr(own, field) == value


def test_a_flag_beats_the_environment_which_beats_the_file(tmp_path: Path) -> None:
    text = "collector: {batch_size: 1, trigger: 1s, group: file}\n"
    settings = load(text, {"batch_size": 3}, tmp_path, BATCH_SIZE="2", NEXUS_COLLECTOR_TRIGGER="9s")
    own = settings.collector
    assert (own.batch_size, own.trigger_ms, own.group) == (3, 9000, "file")
    assert settings.is_given("collector.group")
    assert not settings.is_given("collector.memory")


def test_partitions_are_written_in_order_and_without_overlap() -> None:
    assert load(None, {"partitions": "7, 0-3,2-5"}).collector.partitions == "0-5,7"
    assert load(None, {"partitions": 4}).collector.partitions == "4"


@pytest.mark.parametrize(
    "text",
    [
        "earliest",
        "latest",
        "2025-07-18T20:00:00Z",
        "2025-07-18",
        "1752871354000",
        "2h",
        '{"0": 12}',
    ],
)
def test_a_start_is_an_end_a_time_an_age_or_offsets(text: str) -> None:
    assert load(None, {"from": text}).collector.start == text


def test_a_time_in_the_file_needs_no_quotes(tmp_path: Path) -> None:
    own = load("collector: {from: 2025-07-18T20:00:00Z}\n", None, tmp_path).collector
    assert own.start.startswith("2025-07-18T20:00:00")


def test_several_stores_may_be_given_in_each_way(tmp_path: Path) -> None:
    both = ("delta:///a", "s3://b/c")
    assert load(None, {"store": ["delta:///a", "s3://b/c"]}).collector.stores == both
    assert load(NEXUS_COLLECTOR_STORE="delta:///a, s3://b/c").collector.stores == both
    members = "etcd://a:2379,b:2379,[::1]:2379/p"
    found = load(NEXUS_COLLECTOR_STORE=f"delta:///a,{members}, s3://b/c").collector.stores
    assert found == ("delta:///a", members, "s3://b/c")
    text = "collector:\n  store: [delta:///a, 's3://b/c']\n"
    assert load(text, None, tmp_path).collector.stores == both


def test_properties_of_spark_come_as_pairs_or_as_a_mapping(tmp_path: Path) -> None:
    flags: dict[str, object] = {"conf": ["spark.a=1", "spark.b=x=y"]}
    assert load(None, flags).collector.conf == (("spark.a", "1"), ("spark.b", "x=y"))
    text = "collector:\n  conf: {spark.ui.enabled: true, spark.executor.memory: 2g}\n"
    pairs = load(text, None, tmp_path).collector.conf
    assert dict(pairs) == {"spark.ui.enabled": "true", "spark.executor.memory": "2g"}


def test_a_table_that_is_kept_for_ever_has_no_retention() -> None:
    assert "rollup_1h" not in load(None, {"retention_rollup_1h": -1}).collector.retention


def test_the_stronger_of_workers_and_a_local_master_decides() -> None:
    own = load(None, {"master": "local[4]"}, WORKERS="2").collector
    assert (own.master, own.workers) == ("local[4]", 0)
    own = load(None, {"workers": 3}, NEXUS_COLLECTOR_MASTER="local[*]").collector
    assert (own.master, own.cores) == (None, 3)
    own = load(None, {"master": "spark://h:7077", "workers": 8}).collector
    assert (own.master, own.workers) == ("spark://h:7077", 8)


@pytest.mark.parametrize(
    ("master", "cores"), [("local", 1), ("local[3]", 3), ("local[7,2]", 7), ("spark://h:1", 5)]
)
def test_a_local_master_says_how_many_tasks_run_at_once(master: str, cores: int) -> None:
    assert load(None, {"master": master}, WORKERS="5").collector.cores == cores


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"partitions": "5-3"}, "expected partitions such as 0-5,7"),
        ({"from": "soon"}, "expected earliest, latest, a time"),
        ({"from": '{"0": -1}'}, "expected earliest"),
        ({"store": "tables"}, "expected stores such as delta:///"),
        ({"store": ["delta:///a", "delta:///a"]}, "each once"),
        ({"conf": ["spark.a"]}, "expected key=value"),
        ({"conf": ["a b=1"]}, "expected key=value"),
        ({"trigger": "2"}, "a duration with its unit"),
        ({"batch_size": 0}, "expected a whole number from 1"),
        ({"on_gone": "wait"}, "expected one of fail, skip"),
        ({"retention_readings": "1h"}, "at least 24h, or -1 for no limit"),
        ({"master": "local[2]", "workers": 3}, "contradicts collector.master local[2]"),
    ],
)
def test_a_wrong_value_is_one_line_that_says_what_would_be_right(
    flags: dict[str, object], says: str
) -> None:
    assert says in refusal(flags)


def test_one_file_serves_every_part(tmp_path: Path) -> None:
    path = tmp_path / "nexus.yaml"
    path.write_text("broker: {port: 9093}\ncluster: {cluster_id: c1}\ncollector: {memory: 2GB}\n")
    assert load_broker_settings(path, environ={}).broker.port == 9093
    settings = load_collector_settings(path, environ={})
    assert settings.collector.memory_bytes == 2 << 30
    assert settings.cluster.cluster_id == "c1"


def test_an_unknown_key_names_the_nearest_one(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"collector\.triger: unknown key; did you mean"):
        load("collector: {triger: 3s}\n", None, tmp_path)


def test_every_setting_can_be_shown() -> None:
    shown = {line.name: line for line in load(WORKERS="7").shown()}
    assert shown["collector.workers"].value == "7"
    assert shown["collector.workers"].source == "environment WORKERS"
    assert shown["collector.store"].value == "delta:./data/tables"
    assert shown["collector.retention_rollup_1h"].value == "730d"
    assert {name.partition(".")[0] for name in shown} == set(SECTIONS)


def test_a_range_of_partitions_may_be_told_by_its_ends() -> None:
    ends = {"COLLECTOR_RANGE_START": "4", "COLLECTOR_RANGE_END": "7"}
    assert load(None, None, None, **ends).collector.partitions == "4-7"
    assert load(None, {"partitions": "0-1"}, None, **ends).collector.partitions == "0-1"
    one = {"COLLECTOR_RANGE_START": "3", "COLLECTOR_RANGE_END": "3"}
    assert load(None, None, None, **one).collector.partitions == "3"


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"COLLECTOR_RANGE_START": "4"}, "needs the range's other end"),
        ({"COLLECTOR_RANGE_START": "4", "COLLECTOR_RANGE_END": "3"}, "from 4 to 3 is empty"),
        (
            {
                "COLLECTOR_RANGE_START": "0",
                "COLLECTOR_RANGE_END": "3",
                "NEXUS_COLLECTOR_PARTITIONS": "1",
            },
            "contradicts range_start",
        ),
    ],
)
def test_a_range_that_cannot_be_is_refused(environ: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        load(None, None, None, **environ)
