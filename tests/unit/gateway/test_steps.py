"""Which resolution a chart gets."""

from typing import get_args

import pytest

from nexus.gateway.queries.models import Resolution
from nexus.gateway.steps import RESOLUTIONS, STEPS_S, chosen

SECOND = 1_000_000


@pytest.mark.parametrize(
    ("span_s", "points", "resolution"),
    [
        (0, 1000, "raw"),
        (1000, 1000, "raw"),
        (1001, 1000, "10s"),
        (3600, 1000, "10s"),
        (10_000, 1000, "10s"),
        (6 * 3600, 1000, "30s"),
        (86_400, 1000, "2m"),
        (86_400, 100, "15m"),
        (30 * 86_400, 1000, "1h"),
        (365 * 86_400, 1000, "12h"),
        (20 * 365 * 86_400, 1000, "1d"),
    ],
)
def test_auto_takes_the_finest_that_fits(span_s: int, points: int, resolution: str) -> None:
    assert chosen("auto", 0, span_s * SECOND, points) == resolution


def test_a_named_resolution_is_what_was_named() -> None:
    assert chosen("1m", 0, 365 * 86_400 * SECOND, 1) == "1m"


def test_the_description_names_every_resolution() -> None:
    assert get_args(Resolution) == RESOLUTIONS


def test_every_step_divides_a_day_evenly() -> None:
    assert all(86_400 % step == 0 for step in STEPS_S.values())
