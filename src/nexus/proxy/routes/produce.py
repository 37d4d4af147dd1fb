"""POST /produce and /produce/batch: messages in, ids out."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Final

from nexus.proxy import reading, schemas
from nexus.proxy.http import JSON, Request, Response, document, within
from nexus.proxy.messages import Message, Written
from nexus.proxy.route import Param, Route, whole
from nexus.web.problems import BadParameter

if TYPE_CHECKING:
    from nexus.proxy.proxy import Proxy

ACKS: Final = {"all": -1, "-1": -1, "1": 1, "0": 0}
IDEMPOTENCY_KEY_MAX: Final = 255
_ACCEPTED: Final = 202


async def produce(proxy: Proxy, request: Request, query: dict[str, str]) -> Response:
    """Write one message."""
    partition = whole(query, "partition", 0, 1_000_000)
    topic = query["topic"]
    with proxy.budget.hold(request.announced()):
        body = await within(proxy.request_timeout_s, request.body())
        message = reading.single(body, request.header(b"content-type"), query.get("key"), partition)
        acks, (written,) = await _write(proxy, request, query, [message])
    content = {
        "id": written.id,
        "topic": topic,
        "partition": written.partition,
        "offset": written.offset,
    }
    if written.home is not None:
        content["home_partition"] = written.home
    return document(content, 200 if acks else _ACCEPTED)


async def produce_batch(proxy: Proxy, request: Request, query: dict[str, str]) -> Response:
    """Write many messages."""
    with proxy.budget.hold(request.announced()):
        body = await within(proxy.request_timeout_s, request.body())
        messages = reading.many(body, request.header(b"content-type"))
        acks, written = await _write(proxy, request, query, messages)
    ids = [f"{at}-{offset}" if offset >= 0 else None for at, offset, _ in written]
    content = {"ids": ids, "topic": query["topic"], "count": len(ids)}
    return document(content, 200 if acks else _ACCEPTED)


async def _write(
    proxy: Proxy, request: Request, query: dict[str, str], messages: list[Message]
) -> tuple[int, list[Written]]:
    acks = ACKS.get(query.get("acks", "all"))
    if acks is None:
        raise BadParameter.of("acks", "expected all, 1 or 0")
    key = request.header(b"idempotency-key")
    if key is not None and not 0 < len(key) <= IDEMPOTENCY_KEY_MAX:
        raise BadParameter.of("Idempotency-Key", f"expected 1 to {IDEMPOTENCY_KEY_MAX} characters")
    deadline = monotonic() + proxy.request_timeout_s
    return acks, await proxy.producing.write(query["topic"], messages, acks, deadline, key)


_TOPIC: Final = Param("topic", schemas.TOPIC, "Where to; it is made if it is not there.", True)
_ACKS: Final = Param(
    "acks",
    {"type": "string", "enum": list(ACKS), "default": "all"},
    "`all`: safe at every replica in sync; `1`: at the leader; `0`: nobody waits.",
)
_ONCE: Final = Param(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": IDEMPOTENCY_KEY_MAX, "pattern": "^[!-~]+$"},
    "The same request may be sent again with the same key, to any instance, and is written once.",
    place="header",
)
_PROBLEMS: Final = (400, 404, 413, 415, 422, 429, 503, 504)

ROUTES: Final = (
    Route(
        "POST",
        "/produce",
        produce,
        "Write one message",
        schemas.WRITTEN,
        (
            _TOPIC,
            Param("key", schemas.TEXT, "Messages with one key go to one partition, in order."),
            Param("partition", {**schemas.WHOLE, "maximum": 1_000_000}, "Instead of a key."),
            _ACKS,
            _ONCE,
        ),
        {
            JSON: schemas.MESSAGE,
            "application/octet-stream": {"type": "string", "format": "binary"},
        },
        problems=_PROBLEMS,
        tag="Messages",
    ),
    Route(
        "POST",
        "/produce/batch",
        produce_batch,
        "Write many messages",
        schemas.WRITTEN_MANY,
        (_TOPIC, _ACKS, _ONCE),
        {
            JSON: {**schemas.listed(schemas.MESSAGE), "minItems": 1, "maxItems": 100_000},
            reading.NDJSON[0]: schemas.TEXT,
        },
        problems=_PROBLEMS,
        tag="Messages",
    ),
)
