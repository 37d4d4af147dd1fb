"""Groups of GPUs by steps of time, in one statement: how a fleet went, however large it is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import pyarrow as pa

from nexus.store.errors import Unsupported
from nexus.store.port import (
    SUMMARY_GROUPS,
    GroupSteps,
    Page,
    Selection,
    Span,
    group_rows,
    summary_groups,
)
from nexus.store.questions import parts
from nexus.store.questions.asking import Asking, as_schema
from nexus.store.questions.conditions import Conditions, checked_limit
from nexus.store.questions.coverage import coverage
from nexus.store.questions.newest import said_units
from nexus.store.questions.rolled import rollups_for
from nexus.store.questions.spans import SECOND, Stretch, outer
from nexus.store.questions.steps import Steps
from nexus.store.questions.units import with_units

_MEMBER: Final = ("uuid", "mig", "metric", "instance")  # what counts once in a step


def groups(asking: Asking, which: Selection, span: Span, asked: GroupSteps) -> pa.Table:
    """Groups by steps; see the port."""
    if unknown := [name for name in asked.by if name not in SUMMARY_GROUPS]:
        raise Unsupported(f"readings cannot be grouped by {unknown[0]}")
    if asked.step_s < 1:
        raise ValueError(f"a step has at least a second, not {asked.step_s}")
    limit = checked_limit(Page(asked.limit))
    step = asked.step_s * SECOND
    whole = outer(Stretch(span.start_us, span.end_us + 1), step)
    schema, names = group_rows(asked.by), summary_groups(asked.by)
    params = Conditions()
    members = ""
    if whole.low < whole.high:
        steps = Steps(asking, which, rollups_for(asking, whole, step), step)
        members = _members(steps, whole, names, params)
    if not members:
        return schema.empty_table()
    sql = _statement(members, names, asked, params)
    rows = asking.ask(f"{sql} LIMIT {params.bind(limit)}", params.params)
    return as_schema(with_units(rows, partial(said_units, asking)), schema)


def _members(steps: Steps, whole: Stretch, names: Sequence[str], params: Conditions) -> str:
    """The value of each member in each step; "" if no file can have any."""
    keys = tuple(dict.fromkeys((*_MEMBER, *names)))
    covered = coverage(whole, steps.rolled)
    made: list[str] = []
    for rollup, stretches in covered.rolled:
        if source := steps.source(rollup.table, "start", stretches, params):
            made.append(steps.of_windows(source, keys))
    made += steps.of_readings(covered.raw, params, keys)
    return parts.together(made, ("start", *keys)) if made else ""


def _statement(members: str, names: Sequence[str], asked: GroupSteps, params: Conditions) -> str:
    listed = ", ".join(names)
    way = "DESC" if asked.descending else "ASC"
    order = ", ".join(f"{name} {way}" for name in ("start", *names))
    found = (
        f"SELECT start, {listed}, count(*) AS members, avg(mean) AS mean, sum(mean) AS sum,"
        f" min(min) AS min, max(max) AS max FROM ({members}) WHERE count > 0"
        f" GROUP BY start, {listed}"
    )
    if asked.top is None:
        return f"SELECT * FROM ({found}) ORDER BY {order}"
    return f"""
        WITH steps AS ({found}), ranked AS (
          SELECT {listed}, row_number() OVER (
            PARTITION BY metric ORDER BY avg(sum) DESC, {listed}) AS rank
          FROM steps GROUP BY {listed}
        )
        SELECT steps.* FROM steps JOIN ranked USING ({listed})
        WHERE rank <= {params.bind(asked.top)} ORDER BY {order}"""
