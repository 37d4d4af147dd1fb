"""One request as the answers see it: a pinned snapshot, a clock that stands still, a form.

Also what several of them do alike: filters to a selection, a prefix to the one GPU it names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from nexus.gateway.errors import Ambiguous
from nexus.gateway.metric_names import ALL_METRICS, MetricNames
from nexus.gateway.queries.models import Timed, Where
from nexus.gateway.rendering.forms import Form
from nexus.gateway.times import parse_moment
from nexus.store.port import GPU_KEY, LIMIT_MAX, Page, Selection, Snapshot, Span
from nexus.web.problems import BadParameter, Fault, NotFound

PREFIX_LEAST: Final = 8
PREFIXES_MAX: Final = 50  # looked up for one filter
NOBODY: Final = ("",)  # no GPU has an empty uuid


@dataclass(frozen=True, slots=True)
class Ask:
    """What a request is answered from."""

    snapshot: Snapshot
    now_us: int
    form: Form
    path: str

    def span(self, query: Timed) -> Span:
        """The span that a query's times mean now."""
        start = parse_moment(query.start_time).resolve(self.now_us)
        end = parse_moment(query.end_time).resolve(self.now_us)
        if start > end:
            said = f"start_time {query.start_time} is after end_time {query.end_time}"
            raise BadParameter(
                said, [Fault("start_time", "is after end_time"), Fault("end_time", "is before")]
            )
        return Span(start, end)

    def selection(self, query: Where, names: MetricNames = ALL_METRICS) -> Selection:
        """The series that a query's filters leave."""
        return replace(selected(query, names), uuids=self._uuids_meant(query.uuid))

    def in_states(self, which: Selection, states: Sequence[str]) -> Selection:
        """Of a selection, the GPUs that are in one of these states now; all if none is named."""
        if not states:
            return which
        found = self.snapshot.gpus(which, tuple(states), Page(LIMIT_MAX, columns=GPU_KEY))
        uuids = found.column("uuid").unique().to_pylist()
        return replace(which, uuids=tuple(uuids) or NOBODY)

    def uuid_of(self, text: str) -> str:
        """The uuid that a path names: exact, or by a unique prefix."""
        found = self._named(text)
        if len(found) > 1:
            raise Ambiguous(
                f"{text} is the beginning of several uuids: {', '.join(found)} and perhaps more"
            )
        if not found:
            raise NotFound(_unknown(text))
        return found[0]

    def _uuids_meant(self, texts: Sequence[str]) -> tuple[str, ...]:
        """As `uuid_of`, for a filter: what nobody knows selects nothing."""
        if len(texts) <= 1:
            return tuple(self._uuid_meant(text) for text in texts)
        exact = self.snapshot.gpus(Selection(uuids=tuple(texts)), (), Page(LIMIT_MAX))
        known = set(exact.column("uuid").to_pylist())
        others = [text for text in texts if text not in known]
        if len(others) > PREFIXES_MAX:
            raise BadParameter.of("uuid", f"at most {PREFIXES_MAX} may be prefixes or unknown")
        return (*sorted(known), *(self._uuid_meant(text) for text in others))

    def _uuid_meant(self, text: str) -> str:
        found = self._named(text)
        if len(found) > 1:
            candidates = f"{', '.join(found)} and perhaps more"
            raise BadParameter.of("uuid", f"{text} is the beginning of several: {candidates}")
        return found[0] if found else text

    def _named(self, text: str) -> list[str]:
        found = self.snapshot.gpus_named(text)
        if text in found:
            return [text]
        return found if len(text) >= PREFIX_LEAST else []


def selected(query: Where, names: MetricNames) -> Selection:
    """What filters name as they stand: uuids may still be prefixes."""
    return Selection(
        uuids=tuple(query.uuid),
        gpus=tuple(query.gpu),
        hostnames=(*query.hostname, *query.host),
        clusters=tuple(query.cluster),
        models=tuple(query.model),
        namespaces=tuple(query.namespace),
        pods=tuple(query.pod),
        metrics=names.canonical,
        instances=names.instances,
    )


def _unknown(text: str) -> str:
    hint = ""
    if len(text) < PREFIX_LEAST:
        hint = f" (a prefix needs at least {PREFIX_LEAST} characters)"
    return f"no GPU has the uuid {text}{hint}; /api/v1/gpus lists them"
