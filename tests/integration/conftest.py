"""What several modules of integration tests start for themselves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nexus.bench.local_influx import LocalInflux
from nexus.bench.local_postgres import LocalPostgres
from support.etcd import EtcdMember
from support.influx import influx_server
from support.postgres import postgres_server


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdMember]:
    """A member with default flags; tests share it, each with a prefix of its own."""
    member = EtcdMember(tmp_path_factory.mktemp("etcd")).start()
    yield member
    member.kill()


@pytest.fixture(scope="session")
def postgres() -> Iterator[LocalPostgres]:
    """A server that tests share, each with a database of its own; nobody stops it."""
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def influx() -> Iterator[LocalInflux]:
    """A server that tests share, each with a database of its own; nobody stops it."""
    with influx_server() as server:
        yield server
