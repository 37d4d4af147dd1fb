"""Answers for charts: all points at once, in columns, and of a fleet by groups of GPUs."""

from __future__ import annotations

from typing import Final

from nexus.gateway.asking import Ask
from nexus.gateway.errors import NotAcceptable
from nexus.gateway.metric_names import MetricNames
from nexus.gateway.paging import refuse_cursor
from nexus.gateway.queries.models import TelemetryQuery
from nexus.gateway.rendering.forms import Form
from nexus.gateway.rendering.series import groups_document
from nexus.gateway.replies import Reply
from nexus.gateway.steps import RAW, STEPS_S, chosen
from nexus.gateway.views import group_view
from nexus.store.port import GroupSteps, Selection, summary_groups
from nexus.web.problems import BadParameter

POINTS_MAX: Final = 50_000  # of an answer in columns


def grouped(ask: Ask, which: Selection, names: MetricNames, query: TelemetryQuery) -> Reply:
    """Groups of GPUs over time."""
    if query.layout != "columns":
        raise BadParameter.of("by", "goes with layout=columns alone")
    if query.resolution == RAW:
        raise BadParameter.of("resolution", "groups are by steps; raw has none")
    only_json(ask, query.cursor)
    span = ask.span(query)
    resolution = chosen(
        query.resolution, span.start_us, span.end_us, query.max_points, stepped=True
    )
    by = tuple(query.by)
    steps = GroupSteps(
        STEPS_S[resolution], by, POINTS_MAX + 1, query.top, descending=query.order == "desc"
    )
    rows = ask.snapshot.groups(which, span, steps)
    view = group_view(rows.slice(0, POINTS_MAX), query.units, names)
    truncated = rows.num_rows > POINTS_MAX
    return Reply(groups_document(view, summary_groups(by), resolution, truncated=truncated))


def only_json(ask: Ask, cursor: str) -> None:
    """Columns come all at once, in one form."""
    refuse_cursor(cursor)
    if ask.form is not Form.JSON:
        raise NotAcceptable(f"layout=columns can be had as {Form.JSON} alone")
