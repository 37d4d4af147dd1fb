"""What several modules of integration tests start for themselves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.etcd import EtcdMember


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdMember]:
    """A member with default flags; tests share it, each with a prefix of its own."""
    member = EtcdMember(tmp_path_factory.mktemp("etcd")).start()
    yield member
    member.kill()
