"""What can go wrong between a client and the brokers. Each class carries its status."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from nexus.errors import NexusError
from nexus.proxy.messages import Written
from nexus.web.problems import Problem


class BrokerAway(NexusError):
    """Raised when a broker cannot be asked: nothing was sent, or its answer is not known.

    `in_doubt` says whether the request may have been served all the same.
    """

    def __init__(self, why: str, *, in_doubt: bool = False) -> None:
        super().__init__(why)
        self.in_doubt = in_doubt


class NoBroker(Problem):
    """Raised when no broker answers; nothing was written."""

    status, kind = HTTPStatus.SERVICE_UNAVAILABLE, "no-broker"
    title, retry_after_s = "No broker answers", 1


class NotWritten(Problem):
    """Raised when a message was certainly not written within its time; send it again."""

    status, kind = HTTPStatus.SERVICE_UNAVAILABLE, "not-written"
    title, retry_after_s = "The message was not written", 1


class FateUnknown(Problem):
    """Raised when nobody can say whether a message was written."""

    status, kind = HTTPStatus.GATEWAY_TIMEOUT, "fate-unknown"
    title = "The message may or may not have been written"


class PartlyWritten(Problem):
    """Raised when some messages of a request were written and others were not, or may not be."""

    kind, title = "partly-written", "Some of the messages were written"

    def __init__(self, why: Problem, written: Sequence[Written | None]) -> None:
        there = sum(one is not None for one in written)
        super().__init__(f"{there} of {len(written)} messages were written; then: {why.detail}")
        self.status = why.status  # type: ignore[misc]  # that of what went wrong
        self._written = written

    def document(self, path: str) -> dict[str, Any]:
        """The document, with the id of each message that was written and null for the others."""
        ids = [None if one is None else one.id for one in self._written]
        return {**super().document(path), "ids": ids}


class NotSettled(Problem):
    """Raised when nobody can say whether an acknowledgement was taken; send it again."""

    status, kind = HTTPStatus.SERVICE_UNAVAILABLE, "not-settled"
    title, retry_after_s = "The acknowledgement may be missing", 1


class BodyTooLarge(Problem):
    """Raised when a body, or a message in it, is larger than is taken."""

    status, kind = HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large"
    title = "This is more than is taken"


class QueueFull(Problem):
    """Raised when a group has as many messages before it as it may have."""

    status, kind = HTTPStatus.TOO_MANY_REQUESTS, "queue-full"
    title, retry_after_s = "The queue is as long as it may be", 1


class OtherBody(Problem):
    """Raised when an Idempotency-Key comes again with other messages."""

    status, kind = HTTPStatus.UNPROCESSABLE_ENTITY, "other-body"
    title = "This Idempotency-Key was used for other messages"


class Refused(Problem):
    """Raised when the broker does not take a message, now or later."""

    status, kind = HTTPStatus.UNPROCESSABLE_ENTITY, "refused"
    title = "The broker does not take this"


class Conflict(Problem):
    """Raised when what is to be made is there."""

    status, kind, title = HTTPStatus.CONFLICT, "conflict", "It is there already"


class NotHeld(Problem):
    """Raised when none of the messages is held under its id: it is too late, or it was settled."""

    status, kind, title = HTTPStatus.CONFLICT, "not-held", "These messages are not held any more"


class MethodNotAllowed(Problem):
    """Raised when a path is asked in a way that it does not have."""

    status, kind = HTTPStatus.METHOD_NOT_ALLOWED, "method-not-allowed"
    title = "The path has no such method"

    def __init__(self, detail: str, allowed: str) -> None:
        super().__init__(detail)
        self._allowed = allowed

    def headers(self) -> dict[str, str]:
        return {**super().headers(), "Allow": self._allowed}


class NotAcceptable(Problem):
    """Raised when a body is of a kind that is not read here."""

    status, kind = HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "not-read"
    title = "A body of this kind is not read here"


class OtherOrigin(Problem):
    """Raised when a page of a site that was not allowed to asks."""

    status, kind = HTTPStatus.FORBIDDEN, "other-origin"
    title = "Pages of other sites are not served"
