"""A value read from a file, and the line it stands on: what the parser of files hands over."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """A value and the line it stands on; `value` of a mapping is a dict of entries."""

    value: object
    line: int

    def mapping(self) -> Mapping[str, "Entry"] | None:
        """The entries below this one; an empty `key:` counts as an empty mapping."""
        if self.value is None:
            return {}
        return self.value if isinstance(self.value, dict) else None
