"""GET /consume and /poll, POST /ack and /nack: messages out, and what became of them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import orjson

from nexus.proxy import schemas
from nexus.proxy.errors import NotHeld
from nexus.proxy.http import JSON, Receive, Request, Response, Send, document, within
from nexus.proxy.route import Param, Route, whole
from nexus.proxy.sharing.acknowledging import ACCEPT, RELEASE, Verdict
from nexus.proxy.sharing.ids import MessageId, parse_ids
from nexus.settings.units import parse_duration_ms
from nexus.web.event_stream import MEDIA_TYPE, event_stream
from nexus.web.problems import BadParameter
from nexus.wire.messages.share_fetch import AcknowledgeType

if TYPE_CHECKING:
    from nexus.proxy.proxy import Proxy

IN_FLIGHT_MAX: Final = 10_000
IDS_MAX: Final = 10_000
DELAY_MAX_MS: Final = 24 * 3_600_000
_GROUP: Final = re.compile(r"[^\x00-\x1f\x7f]{1,249}")


class Events:
    """A response that goes on until its client or the proxy ends it."""

    status = 200

    def __init__(self, events: AsyncIterator[bytes], stalled_s: float) -> None:
        self._events = events
        self._stalled_s = stalled_s
        self._headers: dict[str, str] = {}

    def allow(self, origin: str) -> None:
        """Let a page of another site see the events."""
        self._headers = {"Access-Control-Allow-Origin": origin, "Vary": "Origin"}

    async def __call__(self, receive: Receive, send: Send, *, head_only: bool = False) -> None:
        await event_stream(
            self._events, receive, send, headers=self._headers, stalled_s=self._stalled_s
        )


async def consume(proxy: Proxy, request: Request, query: dict[str, str]) -> Any:
    """Messages of a group as events, each to one client at a time."""
    most = whole(query, "max_in_flight", 1, IN_FLIGHT_MAX) or 100
    if request.method == "HEAD":
        return Response(b"", kind=MEDIA_TYPE)
    own = proxy.settings
    deadline = monotonic() + proxy.request_timeout_s
    events = await proxy.sharing.subscribe(
        _group(query), query["topic"], most, own.heartbeat_ms / 1000, deadline
    )
    return Events(events, own.stalled_ms / 1000)


async def poll(proxy: Proxy, request: Request, query: dict[str, str]) -> Response:
    """A few messages of a group, for clients that cannot read events."""
    most = whole(query, "max", 1, IN_FLIGHT_MAX) or 100
    wait_s = _duration_ms(query.get("wait", "10s"), "wait", 300_000) / 1000
    deadline = monotonic() + proxy.request_timeout_s
    found = await proxy.sharing.poll(_group(query), query["topic"], most, wait_s, deadline)
    return document({"messages": found})


async def ack(proxy: Proxy, request: Request, query: dict[str, str]) -> Response:
    """Messages are done: none of them is delivered again."""
    said = await _said(proxy, request, {"id", "ids"})
    return await _settle(proxy, query, _ids(said, query), ACCEPT)


async def nack(proxy: Proxy, request: Request, query: dict[str, str]) -> Response:
    """Messages are to be delivered again, later, or never."""
    said = await _said(proxy, request, {"id", "ids", "delay", "dead", "reason"})
    ids = _ids(said, query)
    dead, delay, reason = said.get("dead", False), said.get("delay", "0s"), said.get("reason")
    if not isinstance(dead, bool):
        raise BadParameter.of("dead", "expected true or false")
    if reason is not None and not (isinstance(reason, str) and len(reason) <= 1000):
        raise BadParameter.of("reason", "expected at most 1000 characters")
    if dead:
        verdict = Verdict(AcknowledgeType.REJECT, reason=reason or "a consumer refused it")
    else:
        verdict = RELEASE._replace(delay_ms=_duration_ms(delay, "delay", DELAY_MAX_MS))
    return await _settle(proxy, query, ids, verdict)


async def _settle(
    proxy: Proxy, query: dict[str, str], ids: list[MessageId], verdict: Verdict
) -> Response:
    deadline = monotonic() + proxy.request_timeout_s
    refused = await proxy.sharing.settle(_group(query), query["topic"], ids, verdict, deadline)
    if refused and len(refused) == len(set(ids)):
        raise NotHeld("their time was up, or they were settled before")
    return document(
        {
            "settled": [f"{at}-{n}-{who}" for at, n, who in ids if (at, n, who) not in refused],
            "not_held": [str(one) for one in ids if one in refused],
        }
    )


async def _said(proxy: Proxy, request: Request, known: set[str]) -> dict[str, Any]:
    with proxy.budget.hold(request.announced()):
        body = await within(proxy.request_timeout_s, request.body())
    try:
        said: Any = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadParameter(f"the body is not JSON: {error}") from None
    if not isinstance(said, dict):
        raise BadParameter('expected {"id": …} or {"ids": […]}')
    if unknown := said.keys() - known:
        raise BadParameter.of(min(unknown)[:100], "is not known here")
    return said


def _ids(said: dict[str, Any], query: dict[str, str]) -> list[MessageId]:
    texts = said.get("ids", [said["id"]] if "id" in said else None)
    if not isinstance(texts, list) or not texts or ("id" in said and "ids" in said):
        raise BadParameter('expected {"id": …} or {"ids": […]}')
    if len(texts) > IDS_MAX or not all(isinstance(text, str) for text in texts):
        raise BadParameter.of("ids", f"expected at most {IDS_MAX} texts")
    ids = parse_ids(texts)
    partition = whole(query, "partition", 0, 1_000_000)
    if partition is not None and any(one.partition != partition for one in ids):
        raise BadParameter.of("partition", "an id is of another partition")
    return ids


def _group(query: dict[str, str]) -> str:
    if not _GROUP.fullmatch(query["group"]):
        raise BadParameter.of("group", "expected 1 to 249 printable characters")
    return query["group"]


def _duration_ms(text: object, name: str, most_ms: int) -> int:
    try:
        found = 0 if text == "0" else parse_duration_ms(str(text))
    except ValueError:
        found = -1
    if not isinstance(text, str) or not 0 <= found <= most_ms:
        raise BadParameter.of(name, "expected a time such as 500ms or 10s")
    return found


_GROUP_AND_TOPIC: Final = (
    Param("topic", schemas.TOPIC, "Where from.", True),
    Param("group", {"type": "string", "minLength": 1, "maxLength": 249}, "Who shares.", True),
)
_PARTITION: Final = Param("partition", schemas.WHOLE, "Where all of the ids are.")
_MOST: Final = {"type": "integer", "minimum": 1, "maximum": IN_FLIGHT_MAX, "default": 100}
_PROBLEMS: Final = (400, 404, 409, 413, 422, 503)

ROUTES: Final = (
    Route(
        "GET",
        "/consume",
        consume,
        "Take messages as server-sent events",
        schemas.TEXT,
        (*_GROUP_AND_TOPIC, Param("max_in_flight", _MOST, "Most messages not acknowledged.")),
        answer_type=MEDIA_TYPE,
        problems=_PROBLEMS,
        tag="Messages",
    ),
    Route(
        "GET",
        "/poll",
        poll,
        "Take some messages",
        schemas.record({"messages": schemas.listed(schemas.DELIVERED)}),
        (
            *_GROUP_AND_TOPIC,
            Param("max", _MOST, "Most messages."),
            Param("wait", {"type": "string", "default": "10s"}, "How long for the first one."),
        ),
        problems=_PROBLEMS,
        tag="Messages",
    ),
    Route(
        "POST",
        "/ack",
        ack,
        "Messages are done",
        schemas.SETTLED,
        (*_GROUP_AND_TOPIC, _PARTITION),
        {JSON: schemas.IDS},
        problems=_PROBLEMS,
        tag="Messages",
    ),
    Route(
        "POST",
        "/nack",
        nack,
        "Messages are to be delivered again, later, or never",
        schemas.SETTLED,
        (*_GROUP_AND_TOPIC, _PARTITION),
        {JSON: schemas.NACK},
        problems=_PROBLEMS,
        tag="Messages",
    ),
)
