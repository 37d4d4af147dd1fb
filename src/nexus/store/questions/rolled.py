"""The rollups that there are, and which of them a question can be answered from."""

from __future__ import annotations

from typing import Final

from nexus.store.questions.asking import Asking
from nexus.store.questions.coverage import Rolled
from nexus.store.questions.spans import HOUR, MINUTE, Stretch

WIDTHS: Final = {"rollup_1h": HOUR, "rollup_1m": MINUTE}


def rollups_for(asking: Asking, asked: Stretch, width: int | None) -> list[Rolled]:
    """The rollups that windows of a width can be made of, the coarsest first; None is any."""
    found = (
        asking.rolled(name, own, asked)
        for name, own in WIDTHS.items()
        if width is None or width % own == 0
    )
    return [rollup for rollup in found if rollup is not None]
