"""Things that are sent as they are: compressed once, with a tag, and how long they may be kept."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from http import HTTPStatus
from typing import Final

from fastapi import Request, Response

from nexus.gateway.caching import REVALIDATED, matches
from nexus.gateway.replies import GZIP_LEAST_BYTES, gzipped
from nexus.gateway.routes.serving import takes_gzip

FOREVER: Final = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class Asset:
    """Content, ready to be sent."""

    content: bytes
    squeezed: bytes | None
    content_type: str
    cache: str
    tag: str

    def response(self, request: Request) -> Response:
        """The content in the form that the client takes, or that it has it already."""
        headers = {"ETag": self.tag, "Cache-Control": self.cache, "Vary": "Accept-Encoding"}
        if matches(request.headers.get("if-none-match"), self.tag):
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        headers["Content-Type"] = self.content_type
        if self.squeezed is not None and takes_gzip(request):
            return Response(self.squeezed, headers={**headers, "Content-Encoding": "gzip"})
        return Response(self.content, headers=headers)


def asset(content: bytes, content_type: str, *, lasts: bool = False) -> Asset:
    """Content of a type; `lasts` if its address will never mean anything else."""
    squeezed = gzipped(content) if len(content) >= GZIP_LEAST_BYTES else None
    return Asset(
        content,
        squeezed if squeezed is not None and len(squeezed) < len(content) else None,
        content_type,
        FOREVER if lasts else REVALIDATED,
        f'W/"{blake2b(content, digest_size=12).hexdigest()}"',
    )
