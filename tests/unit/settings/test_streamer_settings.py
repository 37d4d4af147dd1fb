"""The streamer's settings: the names operators know, the order of strength, every error's line."""

from pathlib import Path

import pytest

from nexus.settings import FlagValue, SettingsError, load_broker_settings
from nexus.settings.streamer import SECTIONS, StreamerSettings, load_streamer_settings


def load(
    text: str | None = None,
    flags: dict[str, object] | None = None,
    tmp_path: Path | None = None,
    **environ: str,
) -> StreamerSettings:
    path = None
    if text is not None:
        assert tmp_path is not None
        path = tmp_path / "nexus.yaml"
        path.write_text(text)
    given = {name: FlagValue("--flag", value) for name, value in (flags or {}).items()}
    return load_streamer_settings(path, flags=given, environ=environ)


def refusal(flags: dict[str, object]) -> str:
    with pytest.raises(SettingsError) as refused:
        load(None, flags)
    line = str(refused.value)
    assert "\n" not in line
    return line


def test_the_defaults_are_what_the_documents_say() -> None:
    settings = load()
    own = settings.streamer
    assert settings == StreamerSettings()
    assert own.source is None
    assert own.queue == "kafka://127.0.0.1:9092/gpu-telemetry"
    assert (own.encoding, own.partitioner, own.partitions) == ("arrow", "murmur2", 12)
    assert (own.loop, own.restamps, own.follow) == (False, False, False)
    assert (own.batch_size, own.interval_s, own.shard) == (10_000, 3.0, (0, 1))
    assert own.state_dir == Path("./data/streamer")
    assert own.http_host == "127.0.0.1"
    assert settings.cluster.cluster_id == "local-cluster"


def test_csv_file_names_the_source() -> None:
    assert load(CSV_FILE="/data/dcgm.csv").streamer.source == "csv:///data/dcgm.csv"
    assert load(CSV_FILE="csv:///data/*.csv").streamer.source == "csv:///data/*.csv"


def test_a_relative_csv_file_is_found_from_where_the_streamer_was_started() -> None:
    assert load(CSV_FILE="dcgm.csv").streamer.source == f"csv://{Path.cwd()}/dcgm.csv"


def test_batch_size_is_how_many_readings_go_together() -> None:
    assert load(BATCH_SIZE="100").streamer.batch_size == 100


@pytest.mark.parametrize(("text", "seconds"), [("3s", 3.0), ("500ms", 0.5), ("1m30s", 90.0)])
def test_stream_interval_is_a_duration(text: str, seconds: float) -> None:
    own = load(STREAM_INTERVAL=text).streamer
    assert own.interval_s == seconds
    assert own.interval_ms == seconds * 1000


@pytest.mark.parametrize(("text", "expected"), [("true", True), ("1", True), ("false", False)])
def test_loop_mode_loops_and_so_restamps(text: str, expected: bool) -> None:
    own = load(LOOP_MODE=text).streamer
    assert (own.loop, own.restamps) == (expected, expected)


def test_cluster_id_is_stamped_on_readings() -> None:
    assert load(CLUSTER_ID="fleet-7").cluster.cluster_id == "fleet-7"


def test_msg_queue_url_is_the_queue() -> None:
    assert load(MSG_QUEUE_URL="kafka://b:9092/t").streamer.queue == "kafka://b:9092/t"


def test_every_option_has_a_variable_of_its_own() -> None:
    own = load(NEXUS_STREAMER_ENCODING="json", NEXUS_STREAMER_SPOOL_SIZE="2GB").streamer
    assert (own.encoding, own.spool_bytes) == ("json", 2 << 30)


def test_a_flag_beats_the_environment_which_beats_the_file(tmp_path: Path) -> None:
    text = "streamer: {batch_size: 1, rate: 1, queue: kafka://file:1/t}\n"
    settings = load(
        text, {"streamer.batch_size": 3}, tmp_path, BATCH_SIZE="2", NEXUS_STREAMER_RATE="2"
    )
    own = settings.streamer
    assert (own.batch_size, own.rate, own.queue) == (3, 2, "kafka://file:1/t")
    assert str(settings.provenance["streamer.batch_size"]) == "flag --flag"
    assert str(settings.provenance["streamer.rate"]) == "environment NEXUS_STREAMER_RATE"
    assert settings.is_given("streamer.queue")
    assert not settings.is_given("streamer.encoding")


def test_our_own_variable_beats_the_familiar_name() -> None:
    assert load(BATCH_SIZE="2", NEXUS_STREAMER_BATCH_SIZE="5").streamer.batch_size == 5


def test_keeping_timestamps_in_a_loop_is_a_choice() -> None:
    assert not load(None, {"streamer.restamp": False}, LOOP_MODE="true").streamer.restamps
    assert load(None, {"streamer.restamp": True}).streamer.restamps


@pytest.mark.parametrize(("text", "speed"), [("1x", 1.0), ("10X", 10.0), ("0.5", 0.5)])
def test_a_speed_is_a_number_of_times(text: str, speed: float) -> None:
    assert load(None, {"streamer.speed": text}).streamer.speed == speed


def test_a_share_counts_from_zero() -> None:
    assert load(None, {"streamer.shard": "2/4"}).streamer.shard == (2, 4)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"streamer.shard": "4/4"}, "expected a share i/n with i from 0 to n-1"),
        ({"streamer.shard": "1"}, "expected a share i/n"),
        ({"streamer.speed": "fast"}, "expected a speed above 0"),
        ({"streamer.speed": "0x"}, "expected a speed above 0"),
        ({"streamer.interval": "3"}, "a duration with its unit, such as 3ms"),
        ({"streamer.encoding": "xml"}, "expected one of arrow, json"),
        ({"streamer.batch_size": 0}, "expected a whole number from 1"),
        ({"streamer.source": ""}, "expected a source such as"),
        ({"streamer.follow": True, "streamer.loop": True}, "contradicts streamer.loop"),
        ({"streamer.rate": 5, "streamer.speed": "1x"}, "contradicts streamer.speed"),
    ],
)
def test_a_wrong_value_is_one_line_that_says_what_would_be_right(
    flags: dict[str, object], says: str
) -> None:
    assert says in refusal(flags)


def test_one_file_serves_the_broker_and_the_streamer(tmp_path: Path) -> None:
    path = tmp_path / "nexus.yaml"
    path.write_text(
        "broker: {port: 9093}\ncluster: {cluster_id: c1}\nstreamer: {encoding: json}\n"
        "topics: {t: {partitions: 2}}\n"
    )
    assert load_broker_settings(path, environ={}).broker.port == 9093
    settings = load_streamer_settings(path, environ={})
    assert settings.streamer.encoding == "json"
    assert settings.cluster.cluster_id == "c1"


def test_an_unknown_key_names_the_nearest_one(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"streamer\.bach_size: unknown key; did you mean"):
        load("streamer: {bach_size: 3}\n", None, tmp_path)


def test_every_setting_can_be_shown() -> None:
    shown = {line.name: line for line in load(BATCH_SIZE="7").shown()}
    assert shown["streamer.batch_size"].value == "7"
    assert shown["streamer.batch_size"].source == "environment BATCH_SIZE"
    assert shown["streamer.shard"].value == "0/1"
    assert shown["streamer.state_dir"].value == "data/streamer"
    assert {name.partition(".")[0] for name in shown} == set(SECTIONS)
