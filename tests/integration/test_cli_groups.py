"""`nexus groups` against a real broker: lag, members, and offsets that move only when told to."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer

from nexus.cli.entry import run
from support.broker import BrokerProcess
from support.confluent import consumer_of, poll_for, send
from support.sharing import Member
from support.waiting import wait_until

Out = pytest.CaptureFixture[str]


def as_json(capsys: Out, broker: BrokerProcess, *words: str) -> Any:
    capsys.readouterr()
    assert run([*words, "--bootstrap", broker.bootstrap, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def member(broker: BrokerProcess, topic: str, name: str) -> Iterator[Consumer]:
    """A member of group `name` that has read and committed 3 of the topic's 10 messages."""
    send(broker.bootstrap, topic, [b"%d" % n for n in range(10)])
    consumer = consumer_of(broker.bootstrap, **{"group.id": name, "client.id": "reader"})
    consumer.subscribe([topic])
    last = poll_for(consumer, 3)[-1]
    consumer.commit(message=last, asynchronous=False)
    yield consumer
    consumer.close()


@pytest.fixture
def left(member: Consumer, name: str) -> str:
    """The group's name, after its member has left."""
    member.close()
    return name


def committed(capsys: Out, broker: BrokerProcess, group: str) -> list[int]:
    rows = as_json(capsys, broker, "groups", "describe", group)["partitions"]
    return [row["committed"] for row in rows]


@pytest.mark.usefixtures("member")
def test_describe_shows_lag_and_who_reads(
    broker: BrokerProcess, topic: str, name: str, capsys: Out
) -> None:
    group = as_json(capsys, broker, "groups", "describe", name)
    (row,) = group["partitions"]
    assert (group["state"], group["members"], group["lag"]) == ("stable", 1, 7)
    assert (row["topic"], row["committed"], row["end"], row["lag"]) == (topic, 3, 10, 7)
    assert (row["client"], row["host"].strip("/")) == ("reader", "127.0.0.1")


@pytest.mark.usefixtures("member")
def test_list_shows_state_and_members(broker: BrokerProcess, name: str, capsys: Out) -> None:
    rows = {row["group"]: row for row in as_json(capsys, broker, "groups", "list")}
    assert (rows[name]["state"], rows[name]["members"]) == ("stable", 1)
    assert rows[name]["assignor"] == "range"


@pytest.mark.usefixtures("member")
def test_the_offsets_of_a_group_with_members_stay(
    broker: BrokerProcess, name: str, capsys: Out
) -> None:
    words = ["groups", "reset", name, "--to-earliest", "--execute"]
    assert run([*words, "--bootstrap", broker.bootstrap]) == 1
    assert "has 1 member(s), first reader at " in capsys.readouterr().err
    assert run(["groups", "delete", name, "--yes", "--bootstrap", broker.bootstrap]) == 1
    assert committed(capsys, broker, name) == [3]


@pytest.mark.parametrize(
    ("where", "offset"),
    [
        (["--to-earliest"], 0),
        (["--to-latest"], 10),
        (["--to-offset", "5"], 5),
        (["--to-offset", "99"], 10),
        (["--shift-by", "2"], 5),
        (["--shift-by", "-99"], 0),
        (["--to-time", "1h"], 0),
        (["--to-time", "2100-01-01T00:00:00Z"], 10),
    ],
)
def test_a_reset_moves_the_offset_only_when_executed(
    broker: BrokerProcess, left: str, capsys: Out, where: list[str], offset: int
) -> None:
    words = ["groups", "reset", left, *where]
    planned = as_json(capsys, broker, *words)
    assert (planned["executed"], planned["partitions"][0]["to"]) == (False, offset)
    assert committed(capsys, broker, left) == [3]
    done = as_json(capsys, broker, *words, "--execute")
    assert done["executed"]
    assert committed(capsys, broker, left) == [offset]


def test_a_deleted_group_is_gone_and_says_so(broker: BrokerProcess, left: str, capsys: Out) -> None:
    words = ["groups", "delete", left, "no-such", "--yes", "--bootstrap", broker.bootstrap]
    assert run(words) == 1
    captured = capsys.readouterr()
    assert captured.out == f"{left}: deleted\n"
    assert captured.err.startswith("nexus: group no-such: ")
    assert run(["groups", "describe", left, "--bootstrap", broker.bootstrap]) == 1
    assert capsys.readouterr().err == (
        f"nexus: group {left} does not exist (see nexus groups list)\n"
    )


def test_a_share_group_is_listed_and_described(
    broker: BrokerProcess, topic: str, name: str, capsys: Out
) -> None:
    send(broker.bootstrap, topic, [b"%d" % n for n in range(10)])
    with Member(broker.port, name, topic) as member:
        taken = [one.offset for one in member.take(4)]
        assert member.settle(taken[:3]) == 0
        rows = {row["group"]: row for row in as_json(capsys, broker, "groups", "list")}
        assert rows[name] == {
            "group": name,
            "type": "share",
            "state": "stable",
            "members": 1,
            "assignor": None,
        }
        group = as_json(capsys, broker, "groups", "describe", name)
        assert [one["member"] for one in group["members"]] == [member.id]
        (row,) = group["partitions"]
        assert (row["topic"], row["start"], row["end"]) == (topic, 3, 10)
        assert (row["waiting"], row["in_flight"], group["waiting"]) == (7, 1, 7)

    def is_empty() -> bool:
        found = as_json(capsys, broker, "groups", "describe", name)
        return bool(found["state"] == "empty" and found["waiting"] == 7)

    wait_until(is_empty, within=30, what="the member to be gone")
    assert run(["groups", "describe", name, "--bootstrap", broker.bootstrap]) == 0
    assert f"share group {name}  state empty  members 0  waiting 7" in capsys.readouterr().out
