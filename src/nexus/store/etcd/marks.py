"""How far a stream has come in a store in etcd, as a key of the store's own says it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Mark:
    """The last batch that is stored, and the one that was begun."""

    number: int = -1  # of the last batch that is stored
    at_us: int = 0  # when that was
    begun: int = -1  # the batch that was begun last
    begun_us: int = 0

    @classmethod
    def of(cls, value: bytes) -> Mark:
        said = json.loads(value)
        return cls(**{name: int(said[name]) for name in cls.__dataclass_fields__})

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()
