"""The files of a table at one version, kept by day so that a look does not grow with history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any, Final

from nexus.lake.datafile import DataFile, file_of_add
from nexus.store.questions.held import EPOCH, TICK, Held
from nexus.store.questions.spans import DAY, Stretch
from nexus.telemetry.tables import TableSpec

_FAR: Final = 2**62
UNPARTED: Final = ""  # the one part of a table that is not parted by day

Actions = Iterable[Mapping[str, Any]]


def held(file: DataFile) -> Held:
    """A file of the log; one without statistics may hold any time of its day."""
    low, high = _bounds(file)
    return Held(file.path, file.rows, file.size, low, high, file.bounds.get("uuid"))


@dataclass(frozen=True, slots=True)
class Listing:
    """One version of a table: its files, and the last number of each application."""

    spec: TableSpec
    version: int
    days: Mapping[str, Mapping[str, Held]]  # by day, then by path
    numbers: Mapping[str, int | None]

    def files(self) -> Iterator[Held]:
        for day in self.days.values():
            yield from day.values()

    def holding(self, stretches: Sequence[Stretch], uuids: Sequence[str] = ()) -> list[Held]:
        """The files that may hold rows of these times and GPUs."""
        if not stretches:
            return []
        parts = (self.days[day] for day in self._touched(stretches))
        ordered = sorted(uuids)
        return [
            file
            for part in parts
            for file in part.values()
            if any(s.low <= file.high and file.low < s.high for s in stretches)
            and file.may_hold(ordered)
        ]

    def held_days(self, stretch: Stretch) -> list[str]:
        """The days of a stretch that have rows."""
        return [day for day in self._touched([stretch]) if self.holding_day(day, stretch)]

    def holding_day(self, day: str, stretch: Stretch) -> bool:
        return any(f.low < stretch.high and f.high >= stretch.low for f in self.days[day].values())

    def after(self, version: int, commits: Iterable[Actions]) -> Listing:
        """The listing at a later version, which came about by these commits."""
        days: dict[str, Mapping[str, Held]] = dict(self.days)
        numbers = dict(self.numbers)
        own: dict[str, dict[str, Held]] = {}
        for actions in commits:
            for action in actions:
                if add := action.get("add"):
                    part = _own(days, own, _day(add.get("partitionValues") or {}))
                    part[add["path"]] = held(file_of_add(add, self.spec))
                elif remove := action.get("remove"):
                    for day in self._days_of(remove, days):
                        _own(days, own, day).pop(remove["path"], None)
                elif txn := action.get("txn"):
                    numbers[txn["appId"]] = int(txn["version"])
        for day in [day for day, part in own.items() if not part]:
            days.pop(day, None)
        return replace(self, version=version, days=days, numbers=numbers)

    def _touched(self, stretches: Sequence[Stretch]) -> list[str]:
        """The days that may hold these times; few of them, or all that there are."""
        if not self.spec.partitions:
            return [UNPARTED] if UNPARTED in self.days else []
        low, high = stretches[0].low // DAY, (stretches[-1].high - 1) // DAY
        if high - low < len(self.days):
            wanted = (_day_name(number) for number in range(low, high + 1))
            return [day for day in wanted if day in self.days]
        return sorted(self.days)

    @staticmethod
    def _days_of(remove: Mapping[str, Any], days: Mapping[str, Any]) -> list[str]:
        parts = remove.get("partitionValues")
        if parts is not None:
            return [_day(parts)]
        return [day for day, part in days.items() if remove["path"] in part]


def listing_of(
    spec: TableSpec, version: int, files: Iterable[DataFile], numbers: Mapping[str, int | None]
) -> Listing:
    """A version of a table as the log lists it."""
    days: dict[str, dict[str, Held]] = {}
    for file in files:
        days.setdefault(_day(file.partition), {})[file.path] = held(file)
    return Listing(spec, version, days, numbers)


def _own(
    days: dict[str, Mapping[str, Held]], own: dict[str, dict[str, Held]], day: str
) -> dict[str, Held]:
    """A day's files as a copy that may be changed: older listings go on using theirs."""
    if day not in own:
        own[day] = dict(days.get(day, {}))
        days[day] = own[day]
    return own[day]


def _day(partition: Mapping[str, str]) -> str:
    return partition.get("day", UNPARTED)


def _day_name(number: int) -> str:
    try:
        return (EPOCH.date() + timedelta(days=number)).isoformat()
    except OverflowError:
        return UNPARTED


def _bounds(file: DataFile) -> tuple[int, int]:
    if file.low is not None and file.high is not None:
        return (file.low - EPOCH) // TICK, (file.high - EPOCH) // TICK
    if "day" not in file.partition:
        return -_FAR, _FAR
    start = (date.fromisoformat(file.partition["day"]) - EPOCH.date()).days * DAY
    return start, start + DAY - 1
