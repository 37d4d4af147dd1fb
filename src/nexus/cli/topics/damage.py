"""What a check found: how much was looked at, and each damaged place."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

Advance = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Damage:
    """One damaged place: where it is, the first offset it affects (-1: unknown), and what."""

    topic: str
    partition: int
    offset: int
    what: str
    file: str | None = None
    position: int | None = None

    def __str__(self) -> str:
        where = f"{self.topic} partition {self.partition} offset {self.offset}"
        place = f" ({self.file} at byte {self.position})" if self.file else ""
        return f"{where}{place}: {self.what}"


@dataclass(slots=True)
class Report:
    """The outcome; `checked` counts what `unit` says."""

    unit: str
    partitions: int = 0
    checked: int = 0
    damage: list[Damage] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        for each in self.damage:
            yield str(each)
        found = f"{len(self.damage)} damaged" if self.damage else "all sound"
        yield f"{self.partitions} partitions, {self.checked} {self.unit} checked: {found}"

    def as_json(self) -> dict[str, object]:
        return {
            "partitions": self.partitions,
            self.unit: self.checked,
            "damage": [
                {
                    "topic": d.topic,
                    "partition": d.partition,
                    "offset": d.offset,
                    "what": d.what,
                    "file": d.file,
                    "position": d.position,
                }
                for d in self.damage
            ],
        }
