"""Which form a client gets, and what it looks like."""

import csv
import io

import pyarrow as pa
import pytest

from nexus.gateway.errors import NotAcceptable
from nexus.gateway.rendering.forms import (
    JSON_ONLY,
    TABLE_FORMS,
    Form,
    accepted,
    arrow_stream,
    csv_text,
)
from nexus.telemetry.reading import TIMESTAMP

TABLE = pa.table(
    {
        "at": pa.array([0, 1_500_000, None], TIMESTAMP),
        "text": ['a "quoted", one', "", "=1+1\nä"],
        "value": [0.1, None, 3.0],
    }
)


@pytest.mark.parametrize(
    ("header", "form"),
    [
        (None, Form.JSON),
        ("", Form.JSON),
        ("*/*", Form.JSON),
        ("application/json", Form.JSON),
        ("application/*", Form.JSON),
        ("text/csv", Form.CSV),
        ("TEXT/CSV; q=0.9", Form.CSV),
        ("text/*", Form.CSV),
        ("application/vnd.apache.arrow.stream", Form.ARROW),
        ("application/json;q=0.5, text/csv", Form.CSV),
        ("application/json;q=0, */*;q=0.1", Form.CSV),
        ("text/html,application/xhtml+xml,*/*;q=0.8", Form.JSON),
    ],
)
def test_the_form_that_is_liked_best(header: str | None, form: Form) -> None:
    assert accepted(header, TABLE_FORMS) is form


@pytest.mark.parametrize("header", ["image/png", "text/html", "*/*;q=0", "text/csv;q=much", "json"])
def test_what_there_is_not_is_refused(header: str) -> None:
    with pytest.raises(NotAcceptable, match="application/json"):
        accepted(header, TABLE_FORMS)


def test_a_single_document_is_json_only() -> None:
    with pytest.raises(NotAcceptable):
        accepted("text/csv", JSON_ONLY)


def test_csv_is_read_back_by_any_reader() -> None:
    text = csv_text(TABLE).decode()
    assert text.splitlines()[0] == "at,text,value"
    assert list(csv.reader(io.StringIO(text)))[1:] == [
        ["1970-01-01T00:00:00Z", 'a "quoted", one', "0.1"],
        ["1970-01-01T00:00:01.500000Z", "", ""],
        ["", "=1+1\nä", "3"],
    ]


def test_arrow_keeps_types_and_nulls() -> None:
    assert pa.ipc.open_stream(arrow_stream(TABLE)).read_all().equals(TABLE)
