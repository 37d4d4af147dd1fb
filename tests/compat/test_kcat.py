"""kcat as people type it: list, produce from a pipe, consume with a format, query, group."""

from __future__ import annotations

import json
import subprocess

import pytest

from support.broker import BrokerProcess
from support.confluent import send
from support.exchange import kcat
from support.needs import need_program


@pytest.fixture(autouse=True)
def _kcat() -> None:
    need_program("kcat")


def test_a_pipe_in_and_a_pipe_out(broker: BrokerProcess, name: str) -> None:
    """The README's way to try it: the topic need not exist."""
    kcat(broker.bootstrap, "-P", "-t", name, stdin=b"hello\nworld\n")
    assert kcat(broker.bootstrap, "-C", "-t", name, "-e", "-q") == b"hello\nworld\n"


def test_the_listing_shows_topics_and_brokers(broker: BrokerProcess, topic: str) -> None:
    listing = json.loads(kcat(broker.bootstrap, "-L", "-J"))
    assert [b["name"] for b in listing["brokers"]] == [broker.bootstrap]
    found = {t["topic"]: t for t in listing["topics"]}
    assert found[topic]["partitions"][0]["isrs"] == [{"id": listing["brokers"][0]["id"]}]


def test_offsets_are_queried(broker: BrokerProcess, topic: str) -> None:
    send(broker.bootstrap, topic, [b"a", b"b", b"c"])
    assert b"offset 3" in kcat(broker.bootstrap, "-Q", "-t", f"{topic}:0:-1")
    assert b"offset 0" in kcat(broker.bootstrap, "-Q", "-t", f"{topic}:0:-2")


def test_the_last_messages_are_read_from_the_end(broker: BrokerProcess, topic: str) -> None:
    send(broker.bootstrap, topic, [b"%d" % n for n in range(10)])
    where = ["-C", "-t", topic, "-p", "0", "-o", "-2", "-e", "-q", "-f", "%o:%s\n"]
    assert kcat(broker.bootstrap, *where) == b"8:8\n9:9\n"


def test_a_group_is_read_and_goes_on_where_it_stopped(
    broker: BrokerProcess, topic: str, name: str
) -> None:
    group = ["-G", f"group-{name}", "-c", "2", "-q", "-X", "auto.offset.reset=earliest", topic]
    send(broker.bootstrap, topic, [b"1", b"2", b"3", b"4"])
    assert read_group(broker, group) == b"1\n2\n"
    assert read_group(broker, group) == b"3\n4\n"


def read_group(broker: BrokerProcess, words: list[str]) -> bytes:
    command = ["kcat", "-b", broker.bootstrap, *words]
    done = subprocess.run(command, capture_output=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def test_an_idempotent_kcat(broker: BrokerProcess, topic: str) -> None:
    """With -E it goes on when the first broker that it tries is just restarting."""
    words = ["-P", "-E", "-t", topic, "-X", "enable.idempotence=true", "-X", "acks=all"]
    kcat(broker.bootstrap, *words, stdin=b"once\nand\nagain\n")
    words = ["-C", "-E", "-t", topic, "-c", "3", "-q"]
    assert kcat(broker.bootstrap, *words) == b"once\nand\nagain\n"
