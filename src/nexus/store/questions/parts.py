"""Statements that make windows of readings and of other windows.

A part is what is known of some readings of a group: how many, how low, how high, their total. The
parts of a group are put together by `together`; each reading must be in just one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

# A sum may be more than a number can be where the mean is not; then the sum of this share is
# taken. A power of two: nothing is rounded by it.
_SHARE: Final = "1.1754943508222875e-38"
MEASURES: Final = "count, missing, min, max, mean, last, last_timestamp"


def of_readings(
    source: str, where: object, groups: Sequence[str], told: Sequence[str], more: str = ""
) -> str:
    """Parts from readings, by expressions; `told` is what the last reading says."""
    return (
        f"SELECT {_listed(groups)}{_told(told, 'timestamp')},"
        " max(timestamp) AS newest, count(value) AS count, count(*) - count(value) AS missing,"
        " min(value) AS min, max(value) AS max,"
        f" sum(value) AS total, sum(value * {_SHARE}) AS shared,"
        " arg_max(value, timestamp) AS last,"
        f" max(timestamp) FILTER (value IS NOT NULL) AS last_timestamp{more}"
        f" FROM {source} WHERE {where} GROUP BY ALL"
    )


def of_windows(source: str, where: object, groups: Sequence[str], told: Sequence[str]) -> str:
    """Parts from the windows of a rollup."""
    return (
        f"SELECT {_listed(groups)}{_told(told, 'start')},"
        " max(start) AS newest, sum(count) AS count, sum(missing) AS missing,"
        " min(min) AS min, max(max) AS max,"
        f" sum(mean * count) AS total, sum(mean * {_SHARE} * count) AS shared,"
        " arg_max(last, last_timestamp) AS last, max(last_timestamp) AS last_timestamp"
        f" FROM {source} AS windows WHERE {where} GROUP BY ALL"
    )


def together(
    parts: Sequence[str], groups: Sequence[str], told: Sequence[str] = (), more: str = ""
) -> str:
    """One row a group, with MEASURES, and of a single part `more`."""
    if len(parts) == 1:
        return f"SELECT {_names(groups, told)} {_MEASURED}{more} FROM ({parts[0]})"
    whole = (
        f"SELECT {_listed(groups)}{_told(told, 'newest')},"
        " sum(count) AS count, sum(missing) AS missing, min(min) AS min, max(max) AS max,"
        " sum(total) AS total, sum(shared) AS shared,"
        " arg_max(last, last_timestamp) AS last, max(last_timestamp) AS last_timestamp"
        f" FROM ({' UNION ALL BY NAME '.join(parts)}) AS parts GROUP BY ALL"
    )
    return f"SELECT {_names(groups, told)} {_MEASURED} FROM ({whole})"


def window_start(moment: str, width_us: int) -> str:
    """The start of the window that a column's moment lies in, also before 1970."""
    ticks = f"epoch_us({moment})"
    return f"make_timestamptz({ticks} - (({ticks} % {width_us}) + {width_us}) % {width_us})"


_MEASURED: Final = (
    "count::BIGINT AS count, missing::BIGINT AS missing, min, max,"
    f" CASE WHEN count > 0 THEN CASE WHEN isfinite(total) THEN total / count"
    f" ELSE shared / count / {_SHARE} END END AS mean, last, last_timestamp"
)


def _listed(groups: Sequence[str]) -> str:
    return ", ".join(groups)


def _names(groups: Sequence[str], told: Sequence[str]) -> str:
    return "".join(f"{group.rpartition(' AS ')[2]}, " for group in (*groups, *told))


def _told(columns: Sequence[str], by: str) -> str:
    return "".join(f", arg_max({name}, {by}) AS {name}" for name in columns)
