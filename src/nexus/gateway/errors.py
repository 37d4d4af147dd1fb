"""What can go wrong with a request. Each class carries its status, and how soon to come again."""

from http import HTTPStatus

from nexus.web.problems import Problem


class Ambiguous(Problem):
    """Raised when a prefix in the path is that of several GPUs."""

    status, kind, title = HTTPStatus.CONFLICT, "ambiguous", "Several GPUs have this prefix"


class NotAcceptable(Problem):
    """Raised when the client takes none of the forms that an answer has."""

    status, kind = HTTPStatus.NOT_ACCEPTABLE, "not-acceptable"
    title = "The answer has no such form"


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
