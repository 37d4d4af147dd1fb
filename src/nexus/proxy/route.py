"""A path with its handler and its description: what serves it and what documents it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nexus.proxy.http import Request
from nexus.web.problems import BadParameter

if TYPE_CHECKING:
    from nexus.proxy.proxy import Proxy

Schema = Mapping[str, Any]
Handler = Callable[["Proxy", Request, dict[str, str]], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of the query, or a header."""

    name: str
    schema: Schema
    meaning: str
    required: bool = False
    place: str = "query"


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path."""

    method: str
    path: str
    handler: Handler
    summary: str
    answer: Schema
    params: tuple[Param, ...] = ()
    bodies: Mapping[str, Schema] = field(default_factory=dict)  # by media type
    status: int = 200
    answer_type: str = "application/json"
    problems: tuple[int, ...] = ()
    tag: str = "Operation"

    @property
    def known(self) -> tuple[str, ...]:
        """The parameters that the query may have."""
        return tuple(param.name for param in self.params if param.place == "query")

    def checked(self, request: Request) -> dict[str, str]:
        """The query; BadParameter where it lacks what it must have."""
        query = request.query(self.known)
        for param in self.params:
            if param.required and param.place == "query" and not query.get(param.name):
                raise BadParameter.of(param.name, "is missing")
        return query


def whole(query: Mapping[str, str], name: str, least: int, most: int) -> int | None:
    """A parameter that is a whole number; None where it is not given."""
    text = query.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 16 and least <= int(text) <= most):
        raise BadParameter.of(name, f"expected a whole number from {least} to {most}")
    return int(text)
