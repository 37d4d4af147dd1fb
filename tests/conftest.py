"""Fixtures that every kind of test may use: a shared broker, brokers of one's own, and topics.

The shared broker serves a whole test process under topic names of each test's own. A test that
makes it end, or makes it log a traceback, fails itself and nobody else.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import settings

from support import broker as brokers
from support.broker import BrokerProcess
from support.confluent import admin_of, create_topic
from support.fixtures import MakeBroker, MakeTopic

# A busy machine is no reason to fail: examples have no deadline of their own.
settings.register_profile("nexus", deadline=None)
settings.load_profile("nexus")
# Tests that run in the background ignore Ctrl-C, and so would every program that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A failed test shows what its brokers wrote."""
    outcome: Any = yield
    report = outcome.get_result()
    if report.failed:
        for broker in brokers.running:
            last = broker.stderr.splitlines()[-12:]
            report.sections.append((f"broker {broker.bootstrap}", "\n".join(last)))


@pytest.fixture(scope="session")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path_factory.mktemp("shared-broker"))
    broker.start()
    yield broker
    assert broker.stop() == 0, broker.stderr


@pytest.fixture
def broker(shared_broker: BrokerProcess) -> Iterator[BrokerProcess]:
    """The shared broker, watched: it must outlive the test without one unexpected exception."""
    if not shared_broker.alive:
        shared_broker.start()
    said_before = len(shared_broker.stderr)
    yield shared_broker
    assert shared_broker.alive, "the broker ended during this test"
    assert shared_broker.faults(said_before) == []


@pytest.fixture
def make_broker(tmp_path: Path) -> Iterator[MakeBroker]:
    """Brokers for tests that stop, kill or starve them; started, and ended with the test."""
    made: list[BrokerProcess] = []

    def make(**options: Any) -> BrokerProcess:
        started = BrokerProcess(tmp_path / f"broker-{len(made)}", **options)
        made.append(started)
        started.start()
        return started

    yield make
    for each in made:
        each.kill()


@pytest.fixture
def own_broker(make_broker: MakeBroker) -> BrokerProcess:
    return make_broker()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name no other test uses, and that says which test did: for topics and groups."""
    slug = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name)[:80].strip("-")
    return f"{slug}-{uuid4().hex[:6]}"


@pytest.fixture
def make_topic(broker: BrokerProcess, name: str) -> MakeTopic:
    """Creates topics on the shared broker: `make_topic(6, **{"retention.ms": "1000"})`."""
    admin = admin_of(broker.bootstrap)
    made: list[str] = []

    def make(partitions: int = 1, **configs: str) -> str:
        topic = f"{name}-{len(made)}" if made else name
        made.append(topic)
        create_topic(admin, topic, partitions, configs)
        return topic

    return make


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    """A topic of one partition on the shared broker."""
    return make_topic()
