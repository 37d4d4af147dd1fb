"""What each endpoint may answer, for the API's description."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from nexus.gateway.rendering.forms import Form
from nexus.web.problems import MEDIA_TYPE

Responses = dict[int | str, dict[str, Any]]

_MEANINGS: Final = {
    400: "A parameter is unknown or wrong; `errors` says which and why.",
    404: "What the path names is not known.",
    405: "Another method than GET or HEAD.",
    406: "The answer has none of the forms that Accept names.",
    409: "The prefix is that of several GPUs; `detail` names some.",
    422: "The question is too large: a shorter span or fewer series may do.",
    501: "This kind of store cannot answer that.",
    503: "The store does not answer or too many requests wait: come again after `Retry-After`.",
    504: "There was no answer in time: ask for less.",
}
_FORMS: Final = {
    Form.CSV.value: {"schema": {"type": "string"}},
    Form.ARROW.value: {"schema": {"type": "string", "format": "binary"}},
}
_TAKEN_WRONG: Final = (400, 405, 406)
_STORE: Final = (422, 501, 503, 504)
_LINK: Final = {
    "Link": {"description": "The next page, if there is one.", "schema": {"type": "string"}},
    "Nexus-Next-Cursor": {
        "description": "`next_cursor`, for forms that have no place for it.",
        "schema": {"type": "string"},
    },
}


def problem(status: int) -> dict[str, Any]:
    """A problem document of this status."""
    return {
        "description": _MEANINGS.get(status, HTTPStatus(status).phrase),
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }


def listing(*more: int) -> Responses:
    """A list from the store, in every form, in pages."""
    found: dict[str, Any] = {"content": _FORMS, "headers": _LINK}
    return {200: found, 304: _UNCHANGED, **_problems(*_TAKEN_WRONG, *_STORE, *more)}


def single(*more: int) -> Responses:
    """A JSON document from the store."""
    return {304: _UNCHANGED, **_problems(*_TAKEN_WRONG, *_STORE, *more)}


def plain(*more: int) -> Responses:
    """A JSON document that is of this moment."""
    return _problems(*_TAKEN_WRONG, *more)


def _problems(*statuses: int) -> Responses:
    return {status: problem(status) for status in sorted(statuses)}


_UNCHANGED: Final = {"description": "What `If-None-Match` names is still the answer."}
