"""The id of a delivered message: where it is, and under which member's name it is held.

Whoever has it may acknowledge the message, at any instance of the proxy.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from nexus.web.problems import BadParameter

_ID: Final = re.compile(r"(\d{1,9})-(\d{1,18})-([0-9a-f]{32})", re.ASCII)


class MessageId(NamedTuple):
    """A message in the hands of a member."""

    partition: int
    offset: int
    member: str

    def __str__(self) -> str:
        return f"{self.partition}-{self.offset}-{self.member}"


def parse_id(text: str) -> MessageId:
    """An id as an event gave it."""
    found = _ID.fullmatch(text)
    if found is None:
        raise BadParameter.of("id", f"{text[:100]!r} is not an id as an event gives it")
    return MessageId(int(found[1]), int(found[2]), found[3])
