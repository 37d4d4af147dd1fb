"""The numbers on the cluster's page are those that the strategies give, over 200 topics each."""

from __future__ import annotations

import re
from pathlib import Path

from nexus.cluster.assignment.modulo import Modulo
from nexus.cluster.assignment.moves import assigned, plan
from nexus.cluster.assignment.port import Node, Strategy, Wanted
from nexus.cluster.assignment.ring import RingStrategy

PAGE = Path(__file__).parents[3] / "docs" / "cluster.md"
ROW = re.compile(r"^\| (\d+) → (\d+) \| (\d+) \| (\d+) % \| (\d+) % \| (\d+) % \|$", re.MULTILINE)
TOPICS = 200


def percent(strategy: Strategy, before: int, after: int, partitions: int) -> float:
    topics = [Wanted(f"topic-{n}", partitions) for n in range(TOPICS)]
    spread = [
        assigned(strategy, topics, [Node(node) for node in range(1, count + 1)])
        for count in (before, after)
    ]
    return 100 * plan(*spread).copied / (TOPICS * partitions)


def test_what_the_page_says_of_moves_is_so() -> None:
    rows = [tuple(map(int, row)) for row in ROW.findall(PAGE.read_text())]
    assert len(rows) == 5
    for before, after, partitions, ring, modulo, fair in rows:
        assert abs(percent(RingStrategy(), before, after, partitions) - ring) < 0.55
        assert abs(percent(Modulo(), before, after, partitions) - modulo) < 0.55
        assert abs(100 / after - fair) < 0.55
