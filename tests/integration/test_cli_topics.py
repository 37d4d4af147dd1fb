"""`nexus topics` against a real broker: what an operator types, and what is really there after."""

import json
import signal
import subprocess
import time
from typing import Any

import pytest

from nexus.cli.entry import run
from support.broker import NEXUS, BrokerProcess
from support.confluent import deliver, producer_of, send, watermarks
from support.fixtures import MakeBroker, MakeTopic

Out = pytest.CaptureFixture[str]


def as_json(capsys: Out, broker: BrokerProcess, *words: str) -> Any:
    capsys.readouterr()
    assert run([*words, "--bootstrap", broker.bootstrap, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_created_topic_is_listed_with_its_partitions_and_messages(
    broker: BrokerProcess, name: str, capsys: Out
) -> None:
    words = ["topics", "create", name, "--partitions", "3", "--bootstrap", broker.bootstrap]
    assert run(words) == 0
    assert capsys.readouterr().out == f"{name}: created\n"
    send(broker.bootstrap, name, [b"a", b"b"])
    rows = {row["topic"]: row for row in as_json(capsys, broker, "topics", "list")}
    assert (rows[name]["partitions"], rows[name]["messages"]) == (3, 2)
    assert len(rows[name]["id"]) == 22


def test_the_brokers_own_topics_are_listed_only_when_asked_for(
    broker: BrokerProcess, topic: str, capsys: Out
) -> None:
    words = ["groups", "reset", "any", "--topic", topic, "--to-earliest", "--execute"]
    as_json(capsys, broker, *words)
    shown = {row["topic"] for row in as_json(capsys, broker, "topics", "list")}
    every = {row["topic"] for row in as_json(capsys, broker, "topics", "list", "--internal")}
    assert "__consumer_offsets" not in shown
    assert "__consumer_offsets" in every


def test_a_topic_that_exists_is_an_error_unless_that_is_fine(
    broker: BrokerProcess, topic: str, name: str, capsys: Out
) -> None:
    other = f"{name}-other"
    words = ["topics", "create", topic, other, "--bootstrap", broker.bootstrap]
    assert run(words) == 1
    captured = capsys.readouterr()
    assert captured.out == f"{other}: created\n"
    assert captured.err.startswith(f"nexus: topic {topic}: ")
    assert run([*words, "--if-not-exists"]) == 0


def test_describe_shows_offsets_and_only_the_settings_of_its_own(
    broker: BrokerProcess, make_topic: MakeTopic, capsys: Out
) -> None:
    topic = make_topic(2, **{"retention.ms": "3600000"})
    send(broker.bootstrap, topic, [b"a"] * 5)
    found = as_json(capsys, broker, "topics", "describe", topic)
    first, second = found["partitions"]
    assert (first["start"], first["end"], first["messages"]) == (0, 5, 5)
    assert (second["end"], second["leader"], second["isr"]) == (0, 1, [1])
    assert found["configs"] == {"retention.ms": {"value": "3600000", "default": False}}
    every = as_json(capsys, broker, "topics", "describe", topic, "--all")
    assert every["configs"]["cleanup.policy"] == {"value": "delete", "default": True}


def test_describe_as_text_has_both_tables(broker: BrokerProcess, topic: str, capsys: Out) -> None:
    assert run(["topics", "describe", topic, "--bootstrap", broker.bootstrap]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"topic {topic}  id ")
    assert "settings: all as by default (--all shows them)" in out


def test_alter_adds_partitions_and_sets_and_unsets(
    broker: BrokerProcess, make_topic: MakeTopic, capsys: Out
) -> None:
    topic = make_topic(1, **{"segment.ms": "60000"})
    words = ["--partitions", "4", "--config", "retention.ms=1000", "--unset", "segment.ms"]
    changed = as_json(capsys, broker, "topics", "alter", topic, *words)["changed"]
    assert changed == ["retention.ms=1000", "segment.ms unset", "partitions=4"]
    found = as_json(capsys, broker, "topics", "describe", topic)
    assert len(found["partitions"]) == 4
    assert found["configs"] == {"retention.ms": {"value": "1000", "default": False}}


@pytest.mark.parametrize(
    "change", [["--partitions", "1"], ["-c", "retention.ms=soon"], ["-c", "no.such=1"]]
)
def test_an_impossible_change_is_one_line(
    broker: BrokerProcess, make_topic: MakeTopic, capsys: Out, change: list[str]
) -> None:
    topic = make_topic(2)
    assert run(["topics", "alter", topic, *change, "--bootstrap", broker.bootstrap]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"nexus: topic {topic}: ")
    assert captured.err.count("\n") == 1


def test_delete_reports_each_topic_and_fails_if_one_did(
    broker: BrokerProcess, topic: str, capsys: Out
) -> None:
    words = ["topics", "delete", topic, "no-such", "--yes", "--bootstrap", broker.bootstrap]
    assert run(words) == 1
    captured = capsys.readouterr()
    assert captured.out == f"{topic}: deleted\n"
    assert captured.err.startswith("nexus: topic no-such: ")
    assert topic not in {row["topic"] for row in as_json(capsys, broker, "topics", "list")}


def test_delete_without_anybody_to_ask_deletes_nothing(
    broker: BrokerProcess, topic: str, capsys: Out
) -> None:
    assert run(["topics", "delete", topic, "--bootstrap", broker.bootstrap]) == 2
    assert "give --yes" in capsys.readouterr().err
    assert watermarks(broker.bootstrap, topic) == (0, 0)


def test_tail_from_a_time_begins_at_the_first_message_of_it(
    broker: BrokerProcess, topic: str, capsys: Out
) -> None:
    producer = producer_of(broker.bootstrap)
    now_ms = time.time_ns() // 1_000_000
    for number, age_ms in enumerate((3_000_000, 2_000_000, 1_000_000)):
        deliver(producer, topic, [f"v{number}".encode()], timestamp=now_ms - age_ms)
    words = ["topics", "tail", topic, "--until-end", "--bootstrap", broker.bootstrap]
    assert run([*words, "--from", "40m"]) == 0
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()] == ["v1", "v2"]


def test_tail_from_the_end_of_an_empty_topic_prints_nothing(
    broker: BrokerProcess, topic: str, capsys: Out
) -> None:
    words = ["topics", "tail", topic, "--until-end", "--bootstrap", broker.bootstrap]
    assert run(words) == 0
    assert capsys.readouterr().out == ""


def test_verify_finds_damage_in_the_files_and_over_the_wire(
    make_broker: MakeBroker, capsys: Out
) -> None:
    broker = make_broker()
    assert run(["topics", "create", "t", "--bootstrap", broker.bootstrap]) == 0
    for number in range(3):
        send(broker.bootstrap, "t", [b"value-%d" % number])
    capsys.readouterr()
    by_files = ["topics", "verify", "t", "--data-dir", str(broker.data_dir)]
    by_wire = ["topics", "verify", "t", "--bootstrap", broker.bootstrap]
    assert (run(by_files), run(by_wire)) == (0, 0)

    path = broker.data_dir / "topics" / "t" / "partition-0" / f"{0:020d}.log"
    at = path.read_bytes().index(b"value-1")
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"VALUE")
    capsys.readouterr()

    assert run(by_files) == 1
    assert f"t partition 0 offset 1 ({path} at byte " in capsys.readouterr().out
    assert run(by_wire) == 1
    assert "t partition 0 offset 1" in capsys.readouterr().out


def test_tail_follows_until_ctrl_c_which_is_quiet(broker: BrokerProcess, topic: str) -> None:
    send(broker.bootstrap, topic, [b"first"])
    words = [str(NEXUS), "topics", "tail", topic, "--from", "beginning", "--json"]
    with subprocess.Popen(
        [*words, "--bootstrap", broker.bootstrap],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as tail:
        assert tail.stdout is not None
        assert tail.stderr is not None
        assert json.loads(tail.stdout.readline())["value"] == "first"
        send(broker.bootstrap, topic, [b"second"])
        assert json.loads(tail.stdout.readline())["value"] == "second"
        tail.send_signal(signal.SIGINT)
        assert tail.wait(20) == 130
        assert tail.stderr.read() == ""
