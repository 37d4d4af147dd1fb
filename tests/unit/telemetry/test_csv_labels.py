"""Label sets fill what the columns leave empty, and nothing that either says is lost."""

import pyarrow as pa
import pytest

from nexus.telemetry.csv import labels as csv_labels
from nexus.telemetry.csv.labels import (
    Columns,
    LabelMemo,
    LabelsOfSeries,
    add_labels,
    fill_from_labels,
)
from nexus.telemetry.labels import parse_labels
from nexus.telemetry.reading import encoded


def column(*texts: str) -> pa.DictionaryArray:
    return encoded(pa.array(texts, pa.string()))


def filled(columns: Columns, *labels: str) -> dict[str, list[str]]:
    done = fill_from_labels(columns, LabelMemo().parse(column(*labels)))
    return {name: made.to_pylist() for name, made in done.items()}


def test_an_empty_column_is_filled() -> None:
    done = filled({"pod": column("", "")}, 'pod="a",rack="r"', 'pod="b"')
    assert done["pod"] == ["a", "b"]
    assert done["labels"] == ['{"rack":"r"}', ""]


def test_a_column_that_is_empty_here_and_there_is_filled_there() -> None:
    done = filled({"uuid": column("GPU-1", "")}, 'UUID="GPU-1"', 'gpu_uuid="GPU-2"')
    assert done["uuid"] == ["GPU-1", "GPU-2"]
    assert done["labels"] == ["", ""]


def test_labels_may_be_a_json_object() -> None:
    done = filled({"pod": column("", "")}, '{"pod":"a","note":"say \\"x\\"\\n","n":3}', '{"pod"')
    assert done["pod"] == ["a", ""]
    assert done["labels"] == ['{"n":"3","note":"say \\"x\\"\\n"}', ""]


def test_a_column_stands_against_its_label_which_stays_a_label() -> None:
    done = filled({"hostname": column("h1", "h2")}, 'Hostname="h1"', 'Hostname="other"')
    assert done["hostname"] == ["h1", "h2"]
    assert done["labels"] == ["", '{"Hostname":"other"}']


def test_further_columns_become_labels() -> None:
    labels = column('{"a":"1"}', "", '{"rack":"own"}')
    done = add_labels(
        {"labels": labels}, {"rack": column("r1", "r1", "r2"), "row": column("", "7", "")}
    )
    assert done["labels"].to_pylist() == [
        '{"a":"1","rack":"r1"}',
        '{"rack":"r1","row":"7"}',
        '{"rack":"own"}',
    ]


def test_without_a_label_column_further_columns_are_the_labels() -> None:
    done = add_labels({}, {"rack": column("r1", "", "r1")})
    assert done["labels"].to_pylist() == ['{"rack":"r1"}', "", '{"rack":"r1"}']


def test_what_was_parsed_before_is_the_same_again(monkeypatch: pytest.MonkeyPatch) -> None:
    memo = LabelMemo()
    first = column(*(f'UUID="GPU-{n}",__name__="m{n % 3}",rack="r{n % 2}"' for n in range(20)))
    second = column('UUID="GPU-3",__name__="m0",rack="r1"', "oops", "", 'UUID="GPU-99"')
    for texts in (first, second, first, second):
        mine, theirs = memo.parse(texts), parse_labels(texts)
        assert mine.error.to_pylist() == theirs.error.to_pylist()
        for name, made in theirs.columns.items():
            assert mine.columns[name].to_pylist() == made.to_pylist(), name


def test_the_memo_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_labels, "MEMO_TEXTS_MAX", 8)
    memo = LabelMemo()
    for block in range(10):
        texts = column(*(f'rack="{block}-{n}"' for n in range(5)))
        found = memo.parse(texts).columns["labels"].to_pylist()
        assert found == [f'{{"rack":"{block}-{n}"}}' for n in range(5)]
        assert memo.size <= 8


def check_series(memo: LabelsOfSeries, uuids: list[str], texts: list[str]) -> None:
    array = pa.array(texts, pa.string())
    mine = memo.parse(array, [column(*("m" for _ in texts)), column(*uuids)])
    theirs = parse_labels(array)
    assert mine.error.to_pylist() == theirs.error.to_pylist()
    for name, made in theirs.columns.items():
        assert mine.columns[name].to_pylist() == made.to_pylist(), name


def test_a_series_may_change_its_labels_or_have_several_at_a_time() -> None:
    memo = LabelsOfSeries()
    for block in range(3):
        check_series(memo, ["a", "b", "a"], ['x="1"', 'x="2"', 'x="1"'])
        check_series(memo, ["b", "a", "c"], [f'x="{block}"', "", "oops"])
        check_series(memo, ["a", "a", "b"], ['pod="p1"', 'pod="p2"', 'x="2"'])


def test_the_labels_of_series_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_labels, "MEMO_TEXTS_MAX", 8)
    monkeypatch.setattr(csv_labels, "_NAMES_MAX", 20)
    memo = LabelsOfSeries()
    for block in range(10):
        names = [f"{block}-{n}" for n in range(5)]
        check_series(memo, names, [f'x="{name}"' for name in names])
        check_series(memo, names, [f'x="{name}"' for name in names])
