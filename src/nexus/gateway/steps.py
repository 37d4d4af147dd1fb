"""Resolutions: raw readings, or buckets of a step that divides a minute, an hour or a day.

`auto` takes the finest that gives a chart no more points than it has pixels.
"""

from typing import Final

RAW: Final = "raw"
AUTO: Final = "auto"
STEPS_S: Final = {
    "1s": 1,
    "2s": 2,
    "5s": 5,
    "10s": 10,
    "15s": 15,
    "20s": 20,
    "30s": 30,
    "1m": 60,
    "2m": 120,
    "3m": 180,
    "5m": 300,
    "10m": 600,
    "15m": 900,
    "20m": 1200,
    "30m": 1800,
    "1h": 3600,
    "2h": 7200,
    "3h": 10_800,
    "4h": 14_400,
    "6h": 21_600,
    "8h": 28_800,
    "12h": 43_200,
    "1d": 86_400,
}
RESOLUTIONS: Final = (AUTO, RAW, *STEPS_S)
# What `auto` chooses from; raw readings count as one a second.
CHOSEN: Final = (
    (RAW, 1),
    *(
        (name, STEPS_S[name])
        for name in ("10s", "30s", "1m", "2m", "5m", "10m", "15m", "30m", "1h", "2h", "6h", "12h")
    ),
)
COARSEST: Final = "1d"
_SECOND_US: Final = 1_000_000


def chosen(
    resolution: str, start_us: int, end_us: int, max_points: int, *, stepped: bool = False
) -> str:
    """The resolution that is meant: itself, or for `auto` the finest with so few points.

    `stepped` says that it must be by steps.
    """
    if resolution != AUTO:
        return resolution
    span_s = (end_us - start_us) / _SECOND_US
    choice = CHOSEN[1:] if stepped else CHOSEN
    return next((name for name, step in choice if span_s / step <= max_points), COARSEST)
