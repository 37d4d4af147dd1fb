"""JSON schemas of what goes in and out, for the description of the API."""

from __future__ import annotations

from typing import Any, Final

Schema = dict[str, Any]

TEXT: Final[Schema] = {"type": "string"}
WHOLE: Final[Schema] = {"type": "integer", "minimum": 0}
TOPIC: Final[Schema] = {"type": "string", "pattern": "^[a-zA-Z0-9._-]{1,249}$"}
ANY: Final[Schema] = {}


def record(required: dict[str, Schema], **optional: Schema) -> Schema:
    """An object with these fields."""
    return {
        "type": "object",
        "properties": {**required, **optional},
        "required": list(required),
    }


def listed(item: Schema) -> Schema:
    return {"type": "array", "items": item}


def by_name(value: Schema) -> Schema:
    return {"type": "object", "additionalProperties": value}


MESSAGE: Final = {
    **record(
        {},
        payload=ANY,
        payload_base64={
            "type": "string",
            "contentEncoding": "base64",
            "pattern": "^([A-Za-z0-9+/]{4})*$",
        },
        key=TEXT,
        headers={**by_name(TEXT), "maxProperties": 100},
        partition={**WHOLE, "maximum": 1_000_000},
        timestamp={**WHOLE, "maximum": (1 << 62) - 1},
    ),
    "additionalProperties": False,
    "oneOf": [{"required": ["payload"]}, {"required": ["payload_base64"]}],
}
WRITTEN: Final = record(
    {
        "id": {"type": ["string", "null"]},
        "topic": TOPIC,
        "partition": WHOLE,
        "offset": {"type": "integer"},
    },
    home_partition=WHOLE,
)
WRITTEN_MANY: Final = record(
    {"ids": listed({"type": ["string", "null"]}), "topic": TOPIC, "count": WHOLE}
)
DELIVERED: Final = record(
    {
        "id": TEXT,
        "topic": TOPIC,
        "partition": WHOLE,
        "offset": WHOLE,
        "key": {"type": ["string", "null"]},
        "headers": by_name(TEXT),
        "timestamp": {"type": "integer"},
        "attempt": WHOLE,
    },
    payload=ANY,
    payload_base64=TEXT,
)
IDS: Final = {
    **record({}, id=TEXT, ids={**listed(TEXT), "maxItems": 10_000}),
    "minProperties": 1,
    "maxProperties": 1,
    "additionalProperties": False,
}
NACK: Final = {
    **record(
        {},
        id=TEXT,
        ids={**listed(TEXT), "maxItems": 10_000},
        delay={"type": "string", "example": "5s"},
        dead={"type": "boolean"},
        reason={"type": "string", "maxLength": 1000},
    ),
    "additionalProperties": False,
}
SETTLED: Final = record({"settled": listed(TEXT), "not_held": listed(TEXT)})
NEW_TOPIC: Final = {
    **record(
        {"name": TOPIC},
        partitions={"type": "integer", "minimum": 1, "maximum": 10_000},
        replication={"type": "integer", "minimum": 1, "maximum": 100},
        configs=by_name(TEXT),
    ),
    "additionalProperties": False,
}
TOPIC_SHOWN: Final = record(
    {"name": TOPIC, "partitions": WHOLE, "leaders": listed({"type": "integer"})}
)
PROBLEM: Final = record(
    {
        "type": TEXT,
        "title": TEXT,
        "status": {"type": "integer"},
        "detail": TEXT,
        "instance": TEXT,
        "errors": listed(record({"parameter": TEXT, "message": TEXT})),
    },
    ids=listed({"type": ["string", "null"]}),
)
