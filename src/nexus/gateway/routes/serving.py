"""From a request to its answer: a thread pins a snapshot, answers, renders and compresses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode

from fastapi import Request, Response

from nexus.gateway.asking import Ask
from nexus.gateway.caching import NO_STORE, REVALIDATED, Lasting, entity_tag, matches
from nexus.gateway.gateway import Gateway
from nexus.gateway.rendering.forms import TABLE_FORMS, Form, accepted, qualities
from nexus.gateway.replies import GZIP_LEAST_BYTES, Reply, gzipped
from nexus.gateway.times import parse_moment

Work = Callable[[Ask], Reply]
_VARY: Final = "Accept, Accept-Encoding"


def gateway_of(request: Request) -> Gateway:
    """The gateway that a request came to."""
    gateway: Gateway = request.app.state.gateway
    return gateway


async def served(
    request: Request,
    work: Work,
    lasting: Lasting = Lasting.NOT,
    forms: Sequence[Form] = TABLE_FORMS,
) -> Response:
    """The response that `work` makes, or that the client has it already."""
    gateway = gateway_of(request)
    form = accepted(request.headers.get("accept"), forms)
    return await gateway.pool.call(lambda: _answer(gateway, request, work, lasting, form))


def lasts(*times: str) -> Lasting:
    """An answer about fixed times holds until the tables change."""
    are_relative = [parse_moment(time).relative for time in times]
    return Lasting.NOT if any(are_relative) else Lasting.VERSIONS


def takes_gzip(request: Request) -> bool:
    """Whether the client takes a compressed answer."""
    liking = dict(qualities(request.headers.get("accept-encoding", "")))
    return liking.get("gzip", liking.get("*", 0.0)) > 0


def _answer(
    gateway: Gateway, request: Request, work: Work, lasting: Lasting, form: Form
) -> Response:
    snapshot, now_us = gateway.store.snapshot(), gateway.now_us()
    address = f"{request.url.path}?{request.url.query}"
    tag = entity_tag(lasting, snapshot.versions, address, form.value, now_us)
    headers = {"Vary": _VARY}
    headers |= {"ETag": tag, "Cache-Control": REVALIDATED} if tag else NO_STORE
    if tag and matches(request.headers.get("if-none-match"), tag):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    reply = work(Ask(snapshot, now_us, form, request.url.path))
    if reply.next_cursor is not None:
        headers["Link"] = f'<{_next_address(request, reply.next_cursor)}>; rel="next"'
        headers["Nexus-Next-Cursor"] = reply.next_cursor
    body = reply.body
    if len(body) >= GZIP_LEAST_BYTES and takes_gzip(request):
        body = gzipped(body)
        headers["Content-Encoding"] = "gzip"
    headers["Content-Type"] = reply.content_type
    return Response(body, HTTPStatus.OK, headers)


def _next_address(request: Request, cursor: str) -> str:
    kept = parse_qsl(request.url.query, keep_blank_values=True)
    query = [(name, value) for name, value in kept if name != "cursor"]
    return f"{quote(request.url.path)}?{urlencode([*query, ('cursor', cursor)])}"
