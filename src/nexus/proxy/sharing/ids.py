"""The id of a delivered message: where it is, and under which member's name it is held.

Whoever has it may acknowledge the message, at any instance of the proxy.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from nexus.web.problems import BadParameter

_ID: Final = re.compile(r"(\d{1,9})-(\d{1,18})-([0-9a-f]{32})", re.ASCII)
_LINE: Final = re.compile(rf"^{_ID.pattern}$", re.ASCII | re.MULTILINE)


class MessageId(NamedTuple):
    """A message in the hands of a member."""

    partition: int
    offset: int
    member: str

    def __str__(self) -> str:
        return f"{self.partition}-{self.offset}-{self.member}"


def parse_ids(texts: Sequence[str]) -> list[MessageId]:
    """Many ids, in one go."""
    lines = "\n".join(texts)
    found = _LINE.findall(lines)
    if len(found) != len(texts) or lines.count("\n") >= len(texts):
        return [parse_id(text) for text in texts]
    partitions, offsets, members = zip(*found, strict=True)
    columns = (map(int, partitions), map(int, offsets), members)
    return list(map(MessageId._make, zip(*columns, strict=True)))


def parse_id(text: str) -> MessageId:
    """An id as an event gave it."""
    found = _ID.fullmatch(text)
    if found is None:
        raise BadParameter.of("id", f"{text[:100]!r} is not an id as an event gives it")
    return MessageId(int(found[1]), int(found[2]), found[3])
