"""The parser of Prometheus text, against prometheus_client's own."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from nexus.streamer.sources.exporter_text import BAD_LINES_KEPT, Exposition, Family, parse
from support.exporters import new_page, old_page

Sample = tuple[str, frozenset[tuple[str, str]], bytes, int | None]


def ours(page: Exposition) -> list[Sample]:
    names, labels = page.names.to_pylist(), page.labels.indices.to_pylist()
    return [
        (name, frozenset(page.label_sets[at]), bits(value), time)
        for name, at, value, time in zip(
            names, labels, page.values.to_pylist(), page.times_us.to_pylist(), strict=True
        )
    ]


def theirs(text: str) -> list[Sample]:
    return [
        (
            sample.name,
            frozenset(sample.labels.items()),
            bits(sample.value),
            None if sample.timestamp is None else round(float(sample.timestamp) * 1e6),
        )
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]


def bits(value: float) -> bytes:
    return b"nan" if math.isnan(value) else struct.pack(">d", value)


names = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,20}", fullmatch=True)
# Two underscores in front are Prometheus's own; its client refuses them.
label_names = st.from_regex(r"_?[a-zA-Z][a-zA-Z0-9_]{0,10}", fullmatch=True)
texts = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]) | st.just("\n"), max_size=12
)
numbers = st.floats() | st.integers(-(2**53), 2**53)
blanks = st.sampled_from(["", " ", "\t", "  "])


def escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


@st.composite
def sample_lines(draw: st.DrawFn) -> str:
    labels = draw(st.dictionaries(label_names, texts, max_size=4))
    gap, empty = draw(blanks), draw(st.booleans())
    inside = ",".join(f'{gap}{name}{gap}={gap}"{escaped(value)}"' for name, value in labels.items())
    inside += draw(st.sampled_from(["", ","])) if labels else ""
    braces = f"{{{inside}}}" if labels or empty else ""
    number = draw(numbers)
    value = {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}.get(str(number), repr(number))
    time = draw(st.none() | st.integers(0, 2**42))
    stamp = "" if time is None else f" {time}"
    return (
        f"{draw(blanks)}{draw(names)}{gap if braces else ''}{braces} {value}{stamp}{draw(blanks)}"
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(sample_lines() | st.sampled_from(["", "# a remark", "#"]), max_size=8))
def test_every_page_means_what_prometheus_client_says(lines: list[str]) -> None:
    text = "\n".join(lines) + "\n"
    page = parse(text.encode())
    assert not page.bad
    assert sorted(ours(page), key=repr) == sorted(theirs(text), key=repr)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_bytes_can_break_it(body: bytes) -> None:
    page = parse(body)
    assert len(page) + page.bad_count <= body.count(b"\n") + 1


@pytest.mark.parametrize("text", [old_page(), new_page()])
def test_an_exporters_page_is_read_in_its_order(text: str) -> None:
    page = parse(text.encode())
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert page.names.to_pylist() == [line.partition("{")[0].split()[0] for line in lines]
    assert not page.bad


def test_help_and_type_are_kept_with_their_escapes() -> None:
    page = parse(b"# HELP a one\\ntwo \\\\ three\n#\tTYPE a Gauge\n# TYPE b counter\na 1\n")
    assert page.families == {
        "a": Family("gauge", "one\ntwo \\ three"),
        "b": Family("counter"),
    }


def test_braces_inside_label_values_do_not_end_the_labels() -> None:
    page = parse(b'a{x="}{",y="} 5",z="\\"}"} 7\n')
    assert page.label_sets == [(("x", "}{"), ("y", "} 5"), ("z", '"}'))]
    assert page.values.to_pylist() == [7.0]


def test_openmetrics_is_read_with_its_seconds_and_exemplars() -> None:
    body = (
        b"# TYPE energy counter\n# UNIT energy joules\n"
        b'energy_total{gpu="0"} 5 1700000000.25 # {trace="x"} 0.5 1700000000.1\n'
        b'energy_total{gpu="1"} 6 1.7e9\n# EOF\n'
    )
    page = parse(body, openmetrics=True)
    assert page.times_us.to_pylist() == [1_700_000_000_000_000, 1_700_000_000_250_000]
    assert sorted(page.values.to_pylist()) == [5.0, 6.0]
    assert page.family("energy_total") == Family("counter", "", "joules")


def test_a_quoted_name_is_a_name() -> None:
    page = parse(b'{"gpu.temperature",gpu="0"} 41\n')
    assert page.names.to_pylist() == ["gpu.temperature"]
    assert page.label_sets[page.labels.indices[0].as_py()] == (("gpu", "0"),)


def test_bad_lines_are_named_and_the_rest_of_the_page_counts() -> None:
    body = b'a{x="1"} 1\nb{x="1" 2\nc{x=1} 3\nd{x="1",x="2"} 4\ne five\n\xff{} 6\ng 7 8 9\nh 8\n'
    page = parse(body)
    assert page.names.to_pylist() == ["a", "h"]
    assert sorted(bad.number for bad in page.bad) == [2, 3, 4, 5, 6, 7]
    assert {bad.reason for bad in page.bad} == {"line is not a sample", "line is not UTF-8"}


def test_a_page_of_garbage_keeps_a_few_lines_and_counts_them_all() -> None:
    page = parse(b"<p>\n" * 5000)
    assert (len(page), page.bad_count, len(page.bad)) == (0, 5000, BAD_LINES_KEPT)


def test_windows_line_ends_and_a_missing_last_one_are_fine() -> None:
    assert parse(b"a 1\r\nb 2").values.to_pylist() == [1.0, 2.0]


def test_an_empty_page_has_no_samples() -> None:
    assert len(parse(b"")) == 0
