"""From settings to command lines: what the parts agree on, and what the user may decide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nexus.settings.errors import SettingsError
from nexus.settings.options import FlagValue
from nexus.settings.up import UpSettings, load_up_settings
from nexus.up.plan import Plan, make_plan

PORTS = ("broker.port", "broker.http_port", "collector.http_port", "gateway.port", "up.proxy_port")


def settings_of(environ: dict[str, str] | None = None, **flags: Any) -> UpSettings:
    """Settings with ports that the system chooses."""
    given = {key: FlagValue("--x", 0) for key in (*PORTS, "streamer.http_port")}
    given |= {key.replace("__", "."): FlagValue("--y", value) for key, value in flags.items()}
    return load_up_settings(flags=given, environ=environ or {})


def plan_of(environ: dict[str, str] | None = None, **flags: Any) -> Plan:
    return make_plan(settings_of(environ, **flags), None)


def words_of(plan: Plan, name: str) -> list[str]:
    (program,) = [p for p in plan.programs() if p.name == name]
    return list(program.command)


def after(words: list[str], flag: str) -> str:
    return words[words.index(flag) + 1]


def test_without_a_source_there_is_a_recording_and_a_fleet() -> None:
    plan = plan_of()
    names = [program.name for program in plan.programs()]
    assert names == ["broker", "collector", "streamer-recording", "streamer-fleet", "gateway"]
    recording = words_of(plan, "streamer-recording")
    assert after(recording, "--source") == "recording://"
    assert "--loop" in recording
    assert after(words_of(plan, "streamer-fleet"), "--source") == "sim://?hosts=4&gpus=8&seed=1"


def test_the_users_sources_take_their_place() -> None:
    plan = plan_of(up__source=["csv:///a.csv", "exporter://n:1,m:2"], streamer__loop=True)
    sources = {p.name: after(list(p.command), "--source") for p in plan.programs()[2:4]}
    assert sources == {"streamer-1": "csv:///a.csv", "streamer-2": "exporter://n:1,m:2"}
    assert "--loop" in words_of(plan, "streamer-1")


def test_the_streamers_own_source_counts_here_too() -> None:
    plan = plan_of({"CSV_FILE": "/a.csv"})
    assert after(words_of(plan, "streamer"), "--source") == "csv:///a.csv"


def test_everybody_has_the_same_queue_and_the_same_tables() -> None:
    plan = plan_of({"MSG_QUEUE_URL": "kafka://elsewhere:1/t"}, up__data_dir=Path("/d"))
    for name in ("collector", "gateway", "streamer-fleet"):
        assert after(words_of(plan, name), "--queue") == plan.queue
    assert plan.queue.startswith("kafka://127.0.0.1:")
    for name in ("collector", "gateway"):
        assert after(words_of(plan, name), "--store") == "delta:/d/tables"
    assert after(words_of(plan, "gateway"), "--collector-url") == plan.collector_url


def test_one_directory_holds_everything_unless_a_part_says_otherwise() -> None:
    plan = plan_of({"NEXUS_BROKER_DATA_DIR": "/fast"}, up__data_dir=Path("/d"))
    assert after(words_of(plan, "broker"), "--data-dir") == "/fast"
    assert after(words_of(plan, "collector"), "--data-dir") == "/d/collector"
    assert after(words_of(plan, "streamer-fleet"), "--state-dir") == "/d/streamer"
    assert {program.log.parent for program in plan.programs()} == {Path("/d/logs")}


def test_tables_may_be_elsewhere() -> None:
    plan = plan_of({"NEXUS_COLLECTOR_STORE": "s3://lake/nexus"})
    assert after(words_of(plan, "gateway"), "--store") == "s3://lake/nexus"


def test_parts_can_be_left_out() -> None:
    plan = plan_of(up__collector=False, up__gateway=False)
    assert [p.name for p in plan.programs()] == ["broker", "streamer-recording", "streamer-fleet"]
    assert plan.dashboard is None
    assert plan.collector_url is None


def test_parts_stop_in_the_order_in_which_nothing_is_lost() -> None:
    order = sorted(plan_of().programs(), key=lambda program: program.part.stop_by)
    names = [program.name for program in order]
    assert names == ["streamer-recording", "streamer-fleet", "collector", "gateway", "broker"]
    assert order[-1].part.stop_by < 1


def test_a_part_that_listens_everywhere_is_asked_on_this_machine() -> None:
    plan = plan_of(gateway__host="0.0.0.0", broker__host="0.0.0.0")
    assert after(words_of(plan, "gateway"), "--host") == "0.0.0.0"
    assert str(plan.dashboard).startswith("http://127.0.0.1:")
    assert after(words_of(plan, "broker"), "--listen").startswith("0.0.0.0:")
    assert plan.queue.startswith("kafka://127.0.0.1:")


def test_every_part_reads_the_same_file(tmp_path: Path) -> None:
    file = tmp_path / "nexus.yaml"
    file.write_text("up: {stop_timeout: 20s, restart_delay_max: 5s}\nstorage: {fsync: never}\n")
    plan = make_plan(load_up_settings(file, flags=_chosen(), environ={}), file)
    assert all(after(list(p.command), "--config") == str(file) for p in plan.programs())
    assert (plan.rules.stop_s, plan.rules.restart_max_s) == (20.0, 5.0)


def test_a_mistake_in_any_parts_section_is_told_before_a_start(tmp_path: Path) -> None:
    file = tmp_path / "nexus.yaml"
    file.write_text("collector:\n  triger: 1s\n")
    with pytest.raises(SettingsError, match=r":2: collector.triger: unknown key; did you mean"):
        load_up_settings(file, environ={})


def test_settings_come_from_flag_environment_and_file_in_this_order(tmp_path: Path) -> None:
    file = tmp_path / "nexus.yaml"
    file.write_text(
        "up: {data_dir: /file, demo_seconds: 3, log_size: 1MB, fleet: 'sim://?hosts=2'}"
    )
    environ = {"NEXUS_UP_DATA_DIR": "/environment", "NEXUS_DEMO_SECONDS": "4"}
    flags = {"up.data_dir": FlagValue("--data-dir", Path("/flag"))}
    own = load_up_settings(file, flags=flags, environ=environ).up
    assert (own.data_dir, own.demo_seconds, own.log_bytes) == (Path("/flag"), 4, 1 << 20)
    assert own.fleet == "sim://?hosts=2"


def _chosen() -> dict[str, FlagValue]:
    return {key: FlagValue("--x", 0) for key in (*PORTS, "streamer.http_port")}


def test_the_proxy_runs_when_it_is_asked_for() -> None:
    assert plan_of().proxy_url is None
    plan = plan_of(up__proxy=True)
    words = words_of(plan, "proxy")
    assert after(words, "--brokers") == plan.addresses["broker"].reachable
    assert plan.proxy_url == f"http://127.0.0.1:{after(words, '--port')}"
    elsewhere = plan_of(up__proxy=True, up__queue="kafka://a:1,b:2/t")
    assert after(words_of(elsewhere, "proxy"), "--brokers") == "a:1,b:2"


def test_a_queue_in_etcd_has_no_broker_for_the_proxy() -> None:
    with pytest.raises(SettingsError, match="the proxy needs a broker, and the queue is etcd"):
        settings_of(up__proxy=True, up__queue="etcd")
