"""The pipeline: what the collector says, and what the tables hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from nexus.gateway.asking import Ask
from nexus.gateway.rendering.json_rows import json_rows
from nexus.gateway.replies import Reply

RATES: Final = ("readings_per_s", "batch_ms", "lag")


def pipeline(ask: Ask, said: Mapping[str, Any]) -> Reply:
    """What was last seen of the collector, beside the tables of this moment."""
    newest = said["history"][-1] if said["history"] else {}
    rates = {name: newest.get(name) for name in RATES}
    tables = json_rows(ask.snapshot.tables())
    document = orjson.dumps({**said, "rates": rates})
    return Reply(b'{"tables":[%b],%b' % (tables, document[1:]))
