"""What stands before every request and response.

A request's header is in version 2 where its message is flexible, otherwise in version 1; a
response's in 1 or 0.
"""

from __future__ import annotations

from nexus.wire.fields import int16, int32, message, string


@message("1-2", flexible="2+")
class RequestHeader:
    """What a request is, and which answer belongs to it."""

    request_api_key: int = int16()
    request_api_version: int = int16()
    correlation_id: int = int32()
    client_id: str | None = string(nullable="0+", default=None, rigid=True)


@message("0-1", flexible="1+")
class ResponseHeader:
    """Which request is answered."""

    correlation_id: int = int32()
