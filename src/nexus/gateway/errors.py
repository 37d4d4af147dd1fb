"""What can go wrong with a request. Each class carries its status, and how soon to come again."""

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import ClassVar

from nexus.errors import NexusError


class GatewayError(NexusError):
    """Raised when the gateway cannot start."""


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


class BadParameter(Problem):
    """Raised when a parameter is unknown, impossible, or contradicts another."""

    status, kind = HTTPStatus.BAD_REQUEST, "bad-parameter"
    title = "A parameter is not right"

    @classmethod
    def of(cls, parameter: str, message: str) -> "BadParameter":
        """One fault of one parameter."""
        return cls(f"{parameter}: {message}", [Fault(parameter, message)])


class NotFound(Problem):
    """Raised when what the path names is not known."""

    status, kind, title = HTTPStatus.NOT_FOUND, "not-found", "There is no such thing"


class Ambiguous(Problem):
    """Raised when a prefix in the path is that of several GPUs."""

    status, kind, title = HTTPStatus.CONFLICT, "ambiguous", "Several GPUs have this prefix"


class NotAcceptable(Problem):
    """Raised when the client takes none of the forms that an answer has."""

    status, kind = HTTPStatus.NOT_ACCEPTABLE, "not-acceptable"
    title = "The answer has no such form"


class Overloaded(Problem):
    """Raised when more requests wait than the gateway lets wait."""

    status, kind = HTTPStatus.SERVICE_UNAVAILABLE, "overloaded"
    title, retry_after_s = "Too many requests are waiting", 1


class Away(Problem):
    """Raised when the store does not answer."""

    status, kind = HTTPStatus.SERVICE_UNAVAILABLE, "store-away"
    title, retry_after_s = "The store does not answer", 2


class TooSlow(Problem):
    """Raised when an answer took longer than it may."""

    status, kind, title = HTTPStatus.GATEWAY_TIMEOUT, "timeout", "The answer took too long"


class NotOffered(Problem):
    """Raised when the store cannot answer this kind of question."""

    status, kind = HTTPStatus.NOT_IMPLEMENTED, "not-offered"
    title = "This store cannot answer that"


class TooMuchAsked(Problem):
    """Raised when a question would take too long to answer."""

    status, kind = HTTPStatus.UNPROCESSABLE_ENTITY, "too-much"
    title = "The question is too large"
