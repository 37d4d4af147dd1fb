"""A status of a thousand partitions fits a screen: what belongs together is said together."""

from __future__ import annotations

from uuid import uuid4

import pytest

from nexus.cli.cluster.running import size
from nexus.cli.cluster.status import _document, _print
from nexus.cluster.partition_state import PartitionState
from nexus.cluster.port import Member, Report, TopicInfo, View


def test_a_thousand_partitions_that_are_not_well_fit_a_screen(
    capsys: pytest.CaptureFixture[str],
) -> None:
    view = View(controller=1)
    view.members.update({n: Member(n, f"broker-{n}", 9092) for n in (1, 2)})
    for topic in ("a", "b"):
        view.topics[topic] = TopicInfo(topic, uuid4(), 500, {})
        for number in range(500):
            in_sync = (1, 2) if number in (3, 7) else (1, 2, 3)
            view.partitions[topic, number] = PartitionState((1, 2, 3), 1, 0, in_sync)
    view.partitions["a", 4] = PartitionState((1, 2, 3), 1, 0, (1,))
    view.reports[2] = Report({("a", 1): (2048.0, 100.0, 1.0, 1.0, 5.0)}, {}, ("a/9",))
    _print(_document(view))
    said = capsys.readouterr().out
    assert "under replicated: 5: a/3-4, a/7, b/3, b/7" in said
    assert "damaged: 1: a/9 on 2" in said
    assert "2 KB/s" in said
    assert len(said.splitlines()) < 24
    assert max(map(len, said.splitlines())) <= 100


def test_sizes_are_short() -> None:
    found = [size(n) for n in (0, 999, 1000, 1 << 20, 5 << 30, 1 << 50)]
    assert found == ["0 B", "999 B", "0.977 KB", "1 MB", "5 GB", "1.02e+03 TB"]
