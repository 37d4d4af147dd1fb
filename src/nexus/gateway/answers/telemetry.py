"""Readings over time: raw or by steps, as rows or as series for a chart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from nexus.gateway.answers.charts import POINTS_MAX, grouped, only_json
from nexus.gateway.asking import Ask
from nexus.gateway.metric_names import MetricNames, metric_names
from nexus.gateway.paging import Pages
from nexus.gateway.queries.models import (
    GpuTelemetryQuery,
    LatestQuery,
    SummaryQuery,
    TelemetryQuery,
)
from nexus.gateway.rendering.series import CHART_COLUMNS, columns_document, series_document
from nexus.gateway.replies import Reply, table_reply
from nexus.gateway.steps import AUTO, RAW, RESOLUTIONS, STEPS_S, chosen
from nexus.gateway.times import parse_moment
from nexus.gateway.views import (
    READING_COLUMNS,
    ROLLUP_COLUMNS,
    Units,
    reading_view,
    rollup_view,
    stored,
    summary_view,
)
from nexus.store.port import (
    LATEST_KEY,
    READING_KEY,
    ROLLUP_KEY,
    Page,
    Selection,
    Span,
    summary_groups,
)
from nexus.web.problems import BadParameter

LATEST_COLUMNS: Final = (
    "uuid",
    "mig",
    "gpu",
    "hostname",
    "cluster",
    "metric",
    "instance",
    "value",
    "unit",
    "timestamp",
    "namespace",
    "pod",
    "container",
)


@dataclass(frozen=True, slots=True)
class Range:
    """Which readings of which time, how fine."""

    which: Selection
    span: Span
    resolution: str
    names: MetricNames
    units: Units
    shown: tuple[str, ...] = ROLLUP_COLUMNS  # columns of the answer, as far as there are

    @property
    def key(self) -> tuple[str, ...]:
        return READING_KEY if self.resolution == RAW else ROLLUP_KEY

    @property
    def pinned(self) -> tuple[int, int, str]:
        return self.span.start_us, self.span.end_us, self.resolution

    def rows(self, ask: Ask, page: Page) -> pa.Table:
        if self.resolution == RAW:
            return ask.snapshot.readings(self.which, self.span, replace(page, columns=self._stored))
        step_s = STEPS_S[self.resolution]
        return ask.snapshot.rollups(
            self.which, self.span, step_s, replace(page, columns=self._stored)
        )

    def view(self, rows: pa.Table) -> pa.Table:
        if self.resolution == RAW:
            return reading_view(rows, self.units, self.shown)
        return rollup_view(rows, self.units, self.names, self.shown)

    @property
    def _stored(self) -> tuple[str, ...]:
        return stored(self.shown, self.units)


def gpu_telemetry(ask: Ask, uuid: str, query: GpuTelemetryQuery) -> Reply:
    """One GPU's readings."""
    names = metric_names(query.metric)
    which = Selection(
        uuids=(ask.uuid_of(uuid),), metrics=names.canonical, instances=names.instances
    )
    return _over_time(ask, which, names, query)


def fleet_telemetry(ask: Ask, query: TelemetryQuery) -> Reply:
    """Readings of any GPUs, by series or by groups."""
    names = metric_names(query.metric)
    which = ask.in_states(ask.selection(query, names), query.state)
    if query.by:
        return grouped(ask, which, names, query)
    if query.top is not None:
        raise BadParameter.of("top", "goes with by alone")
    return _over_time(ask, which, names, query)


def latest(ask: Ask, query: LatestQuery) -> Reply:
    """The last reading of each series."""
    names = metric_names(query.metric)
    which = ask.selection(query, names)
    since = parse_moment(query.since).resolve(ask.now_us) or None
    if query.layout == "columns":
        only_json(ask, query.cursor)
        page = Page(POINTS_MAX + 1, columns=stored(LATEST_COLUMNS, query.units))
        rows = ask.snapshot.latest(which, page, since)
        view = reading_view(rows.slice(0, POINTS_MAX), query.units, LATEST_COLUMNS)
        truncated = rows.num_rows > POINTS_MAX
        return Reply(columns_document(view, LATEST_COLUMNS, truncated=truncated))
    pages = Pages(ask.path, query, LATEST_KEY)
    page = replace(pages.page(), columns=stored(READING_COLUMNS, query.units))
    kept, cursor = pages.cut(ask.snapshot.latest(which, page, since))
    return table_reply(ask.form, reading_view(kept, query.units), cursor)


def summary(ask: Ask, query: SummaryQuery) -> Reply:
    """What readings amount to, by groups."""
    names = metric_names(query.metric)
    by = tuple(query.by)
    pages = Pages(ask.path, query, summary_groups(by))
    span = ask.span(query)
    if pages.cursor is not None and pages.cursor.pinned is not None:
        span = Span(*pages.cursor.pinned[:2])
    rows = ask.snapshot.summary(ask.selection(query, names), span, by)
    kept, cursor = pages.of_groups(rows, (span.start_us, span.end_us, RAW))
    return table_reply(ask.form, summary_view(kept, query.units, names), cursor)


def _over_time(
    ask: Ask, which: Selection, names: MetricNames, query: GpuTelemetryQuery | TelemetryQuery
) -> Reply:
    span = ask.span(query)
    resolution = chosen(query.resolution, span.start_us, span.end_us, query.max_points)
    wanted = Range(which, span, resolution, names, query.units)
    descending = query.order == "desc"
    if query.layout == "columns":
        only_json(ask, query.cursor)
        wanted = replace(wanted, shown=CHART_COLUMNS)
        rows = wanted.rows(ask, Page(POINTS_MAX + 1, descending=descending))
        view = wanted.view(rows.slice(0, POINTS_MAX))
        return Reply(series_document(view, resolution, truncated=rows.num_rows > POINTS_MAX))
    # Both keys are alike: a moment and a series.
    pages = Pages(ask.path, query, wanted.key)
    if pages.cursor is not None:
        wanted = _as_pinned(wanted, pages.cursor.pinned)
        pages = Pages(ask.path, query, wanted.key)
    rows = wanted.rows(ask, pages.page(descending=descending))
    kept, cursor = pages.cut(rows, wanted.pinned)
    return table_reply(ask.form, wanted.view(kept), cursor, resolution=wanted.resolution)


def _as_pinned(wanted: Range, pinned: tuple[int, int, str] | None) -> Range:
    """The span and resolution of the first page."""
    if pinned is None or pinned[2] == AUTO or pinned[2] not in RESOLUTIONS or pinned[0] > pinned[1]:
        raise BadParameter.of("cursor", "is damaged; hand back next_cursor as it was given")
    return replace(wanted, span=Span(*pinned[:2]), resolution=pinned[2])
