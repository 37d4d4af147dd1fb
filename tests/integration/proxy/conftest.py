"""One broker with two proxies before it, shared by all tests here; each has topics of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.broker import BrokerProcess
from support.proxies import Proxies, ProxyProcess, two_proxies


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    made = BrokerProcess(tmp_path_factory.mktemp("proxied-broker"))
    made.start()
    yield made
    assert made.faults() == []
    made.kill()


@pytest.fixture(scope="session")
def proxies(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxies]:
    with two_proxies(tmp_path_factory.mktemp("proxies"), broker.bootstrap) as made:
        yield made


@pytest.fixture
def proxy(proxies: Proxies) -> ProxyProcess:
    return proxies[0]
