"""`nexus up` with etcd: what is started, on whose etcd, and what is said when there is none."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from nexus.etcd.maintenance import Alarm, AlarmKind, Status
from nexus.settings.errors import SettingsError
from nexus.settings.options import FlagValue
from nexus.settings.up import UpSettings, load_up_settings
from nexus.up.doctor.etcd_checks import check_etcd, check_etcd_program
from nexus.up.errors import NoEtcd, PortTaken
from nexus.up.etcd_server import etcd_environment, find_etcd
from nexus.up.plan import Plan, make_plan
from nexus.up.runner import Program

PORTS = ("broker.port", "broker.http_port", "collector.http_port", "gateway.port", "up.etcd_port")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program that could be etcd."""
    path = tmp_path / "my-etcd"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def settings_of(environ: dict[str, str] | None = None, **flags: Any) -> UpSettings:
    given = {key: FlagValue("--x", 0) for key in (*PORTS, "streamer.http_port")}
    given |= {f"up.{key}": FlagValue(f"--{key}", value) for key, value in flags.items()}
    return load_up_settings(flags=given, environ=environ or {})


def plan_of(environ: dict[str, str] | None = None, **flags: Any) -> Plan:
    return make_plan(settings_of(environ, **flags), None)


def programs_of(plan: Plan) -> dict[str, Program]:
    return {program.name: program for program in plan.programs()}


def after(program: Program, flag: str) -> str:
    return program.command[program.command.index(flag) + 1]


def test_an_etcd_of_our_own_takes_the_brokers_place(program: Path) -> None:
    plan = plan_of({"ETCD_BIN": str(program)}, queue="etcd", data_dir=Path("/d"), source=["nvml:"])
    found = programs_of(plan)
    assert list(found) == ["etcd", "collector", "streamer", "gateway"]
    assert found["etcd"].command[0] == str(program)
    assert after(found["etcd"], "--data-dir") == "/d/etcd"
    assert after(found["etcd"], "--listen-client-urls") == plan.addresses["etcd"].url
    assert found["etcd"].probe == f"{plan.addresses['etcd'].url}/health"
    for name in ("collector", "streamer", "gateway"):
        assert found[name].part.needs == ("etcd",)
        assert after(found[name], "--queue") == f"etcd://{plan.addresses['etcd'].reachable}"
    assert after(found["gateway"], "--store") == "delta:/d/tables"
    last = max(plan.programs(), key=lambda each: each.part.stop_by)
    assert last.name == "etcd"


def test_queue_and_store_share_one_etcd(program: Path) -> None:
    plan = plan_of({"ETCD_BIN": str(program)}, queue="etcd", store=["etcd", "delta"])
    collector = programs_of(plan)["collector"]
    own = f"etcd://{plan.addresses['etcd'].reachable}"
    stores = [
        word
        for flag, word in zip(collector.command, collector.command[1:], strict=False)
        if flag == "--store"
    ]
    assert stores == [own, "delta:data/tables"]
    assert after(programs_of(plan)["gateway"], "--store") == own


def test_a_broker_may_have_its_store_in_etcd(program: Path) -> None:
    plan = plan_of({"ETCD_BIN": str(program)}, store="etcd")
    found = programs_of(plan)
    assert {"broker", "etcd"} < found.keys()
    assert plan.queue.startswith("kafka://")
    assert found["gateway"].part.needs == ("broker", "etcd")


def test_an_etcd_that_is_named_is_used_and_none_is_started() -> None:
    queue = "etcd://nexus@n1:2379,n2:2379/q?ca=/ca.pem&ttl=1h"
    plan = plan_of(queue=queue, store="etcd", source=["nvml:"])
    assert list(programs_of(plan)) == ["collector", "streamer", "gateway"]
    assert plan.queue == queue
    assert plan.stores == ("etcd://nexus@n1:2379,n2:2379?ca=/ca.pem",)
    assert all(program.part.needs == () for program in plan.programs())


def test_the_etcd_of_the_environment_counts_as_named() -> None:
    environ = {"ETCD_ENDPOINTS": "https://n1:2379,https://n2:2379"}
    plan = plan_of(environ, queue="etcd", store="etcd")
    assert "etcd" not in programs_of(plan)
    assert plan.queue == plan.stores[0] == "etcd://n1:2379,n2:2379?tls=true"


def test_a_kafka_cluster_that_is_named_is_used_too() -> None:
    plan = plan_of(queue="kafka://b1:9092/t", source=["nvml:"])
    assert list(programs_of(plan)) == ["collector", "streamer", "gateway"]
    assert plan.queue == "kafka://b1:9092/t"


@pytest.mark.parametrize(
    ("flag", "value"),
    [("queue", "redis"), ("queue", ""), ("store", "tables"), ("store", ["etcd", "etcd"])],
)
def test_what_is_neither_a_name_nor_an_address_is_refused(flag: str, value: object) -> None:
    with pytest.raises(SettingsError, match=f"flag --{flag}: up.{flag}: found .*expected .*etcd"):
        settings_of(None, **{flag: value})


def test_a_taken_port_says_that_the_etcd_there_may_be_used(program: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortTaken) as refused:
            plan_of({"ETCD_BIN": str(program)}, queue="etcd", etcd_port=port)
    advice = f"--etcd-port, or use the etcd that runs there: --queue etcd://127.0.0.1:{port}"
    assert str(refused.value).endswith(advice)


def test_a_missing_etcd_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(NoEtcd, match=r"make setup-etcd, or apt-get install etcd-server.*ETCD_BIN"):
        plan_of(queue="etcd")
    with pytest.raises(NoEtcd, match=r"^/no/etcd is no program: set ETCD_BIN"):
        find_etcd("/no/etcd")


def test_etcd_is_not_given_what_it_would_take_for_orders() -> None:
    environ = {"ETCD_NAME": "x", "ETCD_ENDPOINTS": "y", "ETCD_UNSUPPORTED_ARCH": "arm64", "A": "b"}
    assert etcd_environment(environ) == {"ETCD_UNSUPPORTED_ARCH": "arm64", "A": "b"}


# The doctor


def member(version: str = "3.4.23", leader: int = 1) -> Status:
    return Status(1, leader, 9, 2, version, 5 << 20, 1 << 20, (), False)


def test_the_doctor_knows_the_program_and_its_version() -> None:
    def missing() -> str:
        raise NoEtcd("there is no etcd: install it")

    found = check_etcd_program(lambda: "/usr/bin/etcd", lambda _: "etcd Version: 3.4.23")
    assert (found.level.value, found.found) == ("ok", "version 3.4.23 in /usr/bin/etcd")
    old = check_etcd_program(lambda: "/usr/bin/etcd", lambda _: "etcd Version: 3.3.9")
    assert (old.level.value, old.advice) == ("problem", "install etcd 3.4 or newer")
    none = check_etcd_program(missing, lambda _: "")
    assert (none.level.value, none.found, none.advice) == (
        "problem",
        "there is no etcd",
        "install it",
    )


def test_the_doctor_tells_an_alarm_and_a_lost_leader() -> None:
    url = "etcd://h:1"
    well = check_etcd(url, lambda _: ([member()], ()))
    assert (well.level.value, well.found) == (
        "ok",
        "etcd://h:1 answers, version 3.4.23, 5 MB of data",
    )
    full = check_etcd(url, lambda _: ([member()], (Alarm(1, AlarmKind.NO_SPACE),)))
    assert (full.level.value, "NO_SPACE" in full.found) == ("problem", True)
    assert "nexus queue doctor" in full.advice
    alone = check_etcd(url, lambda _: ([member(leader=0)], ()))
    assert (alone.level.value, "no leader" in alone.found) == ("problem", True)
