"""Whole frames, out and in: a server's responses, a client's requests.

Which header version a message has follows from its API; nobody else needs to know.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from nexus.wire.apis import APIS, Api, ApiKey
from nexus.wire.codec import Payload, Splits, decode_prefix, encode_into
from nexus.wire.errors import MalformedMessage
from nexus.wire.messages.headers import RequestHeader, ResponseHeader

Piece = bytearray | memoryview | Payload

_FIXED = Struct(">hhi")
_LENGTH = Struct(">i")
_LENGTH_AND_CORRELATION = Struct(">ii")


def decode_request_header(view: memoryview) -> tuple[RequestHeader, int]:
    """Return a request's header, and where its body begins.

    Of an API that is not served, only the part that all headers share is read.
    """
    if len(view) < _FIXED.size:
        raise MalformedMessage(f"a request of {len(view)} bytes has no header")
    key, version, correlation_id = _FIXED.unpack_from(view)
    api = APIS.get(key)
    if api is None:
        header = RequestHeader(
            request_api_key=key, request_api_version=version, correlation_id=correlation_id
        )
        return header, _FIXED.size
    return decode_prefix(RequestHeader, view, 2 if api.flexible(version) else 1)


def encode_response(api: Api, version: int, correlation_id: int, response: object) -> list[Piece]:
    """Encode a frame: its length, header and body, in pieces around payloads."""
    splits: Splits = []
    # A client reads this one before it knows what the broker speaks: its header stays the oldest.
    tags = api.flexible(version) and api.key != ApiKey.API_VERSIONS
    out = bytearray(_LENGTH_AND_CORRELATION.size + tags)
    encode_into(out, response, version, splits)
    if not splits:
        _LENGTH_AND_CORRELATION.pack_into(out, 0, len(out) - 4, correlation_id)
        return [out]
    length = len(out) + sum(payload.size for _, payload in splits) - 4
    _LENGTH_AND_CORRELATION.pack_into(out, 0, length, correlation_id)
    return _around(out, splits)


def encode_request(
    key: ApiKey, version: int, correlation_id: int, client_id: str, body: object
) -> bytearray:
    """Encode a frame for a broker: its length, header and body."""
    header = RequestHeader(
        request_api_key=key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    out = bytearray(_LENGTH.size)
    encode_into(out, header, 2 if APIS[key].flexible(version) else 1)
    encode_into(out, body, version)
    _LENGTH.pack_into(out, 0, len(out) - _LENGTH.size)
    return out


def decode_response(key: ApiKey, version: int, correlation_id: int, frame: memoryview) -> Any:
    """The answer to a request, from what follows its frame's length."""
    api = APIS[key]
    tags = api.flexible(version) and key != ApiKey.API_VERSIONS
    header, at = decode_prefix(ResponseHeader, frame, int(tags))
    if header.correlation_id != correlation_id:
        raise MalformedMessage("an answer to another request")
    return decode_prefix(api.response, frame, version, at)[0]


def _around(out: bytearray, splits: Splits) -> list[Piece]:
    view = memoryview(out)
    pieces: list[Piece] = []
    start = 0
    for position, payload in splits:
        if position > start:
            pieces.append(view[start:position])
        pieces.append(payload)
        start = position
    if start < len(out):
        pieces.append(view[start:])
    return pieces
