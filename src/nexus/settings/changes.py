"""What differs between two versions of a part's settings, and what a running part may take up.

Pure: who fetches the new version, and who acts on it, is others' business.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from nexus.settings.options import options_of

S = TypeVar("S")


class Follow(Protocol[S]):
    """How a part hears of changes: `take_up` is called with each new version, in another thread.

    It has been checked, and differs in options that may change while the part runs.
    """

    def __call__(
        self, started_with: S, take_up: Callable[[S], None]
    ) -> AbstractContextManager[object]: ...


@dataclass(frozen=True, slots=True)
class Change:
    """One option's old and new value, as a user would write them."""

    name: str
    before: str
    after: str
    live: bool  # whether a running part takes it up


def changes_between(
    before: object, after: object, sections: Mapping[str, type]
) -> Iterator[Change]:
    """The options of these sections whose values differ."""
    for section, cls in sections.items():
        old, new = getattr(before, section), getattr(after, section)
        for name, opt in options_of(cls).items():
            values: tuple[Any, Any] = getattr(old, name), getattr(new, name)
            if values[0] != values[1]:
                shown = [_shown(value, opt.kind.show) for value in values]
                yield Change(f"{section}.{opt.key}", shown[0], shown[1], opt.live)


def _shown(value: object, show: Callable[[object], str]) -> str:
    return "nothing" if value is None else show(value)
