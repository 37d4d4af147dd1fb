"""Spark's reports, read as facts about batches."""

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nexus.pipeline.collector.listener import Report, Reports, report_of

SAID = {
    "name": "delta:///x",
    "batchId": 7,
    "durationMs": {"addBatch": 400, "latestOffset": 20, "triggerExecution": 500},
    "sources": [{"startOffset": {"0": 1}, "endOffset": {"0": 12, "1": 0}, "numInputRows": 11}],
}


def test_a_report_says_what_is_committed_and_where_time_went() -> None:
    report = report_of(SAID)
    assert report == Report(
        "delta:///x", 7, {0: 12, 1: 0}, 0.5, {"addBatch": 0.4, "latestOffset": 0.02}
    )


def test_offsets_may_come_as_text() -> None:
    said = {**SAID, "sources": [{"endOffset": '{"3": 4}'}]}
    assert report_of(said).ends == {3: 4}


@pytest.mark.parametrize("end", [None, "", "null"])
def test_before_the_first_batch_there_are_no_offsets(end: object) -> None:
    assert report_of({**SAID, "sources": [{"endOffset": end}]}).ends == {}


def event(said: Any) -> Any:
    return cast(Any, SimpleNamespace(progress=SimpleNamespace(json=json.dumps(said))))


def test_a_report_that_cannot_be_used_does_not_reach_spark() -> None:
    told: list[Report] = []
    reports = Reports(told.append)
    reports.onQueryProgress(event({"nonsense": 1}))
    reports.onQueryProgress(event(SAID))
    assert [report.number for report in told] == [7]
