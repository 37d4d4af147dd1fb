"""What can go wrong with a request, as a problem document (RFC 9457).

Each class carries its status, and how soon to come again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, ClassVar, Final

from nexus.errors import NexusError

MEDIA_TYPE: Final = "application/problem+json"
KIND_PREFIX: Final = "urn:nexus:problem:"


@dataclass(frozen=True, slots=True)
class Fault:
    """What was wrong with one parameter."""

    parameter: str
    message: str


class Problem(NexusError):
    """Raised when a request gets a problem document for an answer."""

    status: ClassVar[HTTPStatus] = HTTPStatus.INTERNAL_SERVER_ERROR
    kind: ClassVar[str] = "internal"
    title: ClassVar[str] = "Something broke here"
    retry_after_s: ClassVar[int | None] = None

    def __init__(self, detail: str, faults: Sequence[Fault] = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.faults = tuple(faults)

    def headers(self) -> dict[str, str]:
        """What goes with the document."""
        said = {"Cache-Control": "no-store"}
        if self.retry_after_s is not None:
            said["Retry-After"] = str(self.retry_after_s)
        return said

    def document(self, path: str) -> dict[str, Any]:
        """The answer to a request for this path."""
        said = content(self.kind, self.title, self.status, self.detail, path)
        return {
            **said,
            "errors": [{"parameter": f.parameter, "message": f.message} for f in self.faults],
        }


class BadParameter(Problem):
    """Raised when a parameter is unknown, impossible, or contradicts another."""

    status, kind = HTTPStatus.BAD_REQUEST, "bad-parameter"
    title = "A parameter is not right"

    @classmethod
    def of(cls, parameter: str, message: str) -> BadParameter:
        """One fault of one parameter."""
        return cls(f"{parameter}: {message}", [Fault(parameter, message)])


class NotFound(Problem):
    """Raised when what the request names is not known."""

    status, kind, title = HTTPStatus.NOT_FOUND, "not-found", "There is no such thing"


class Overloaded(Problem):
    """Raised when more requests wait than may wait."""

    status, kind = HTTPStatus.SERVICE_UNAVAILABLE, "overloaded"
    title, retry_after_s = "Too many requests are waiting", 1


def content(kind: str, title: str, status: int, detail: str, path: str) -> dict[str, Any]:
    """A document without the faults of single parameters."""
    return {
        "type": KIND_PREFIX + kind,
        "title": title,
        "status": int(status),
        "detail": detail,
        "instance": path,
    }
