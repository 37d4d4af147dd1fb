"""Line protocol: what a point says, in columns, and no two texts in one form."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from nexus.store.influx.lines import LINES, lines, series_key, tag_text, text_field, text_fields


def made(keys: list[str], fields: list[tuple[str, pa.Array]], moments: list[int]) -> str:
    return b"".join(lines(pa.array(keys), fields, pa.array(moments))).decode()


def test_a_line_is_its_tags_in_order_its_fields_and_its_time() -> None:
    key = series_key("m", {"uuid": "a,b=c d", "pod": "", "gpu": "0"})
    assert key == r"m,gpu=0,uuid=a\,b\=c\ d"
    fields = [
        ("ingested", pa.array([7, 8])),
        ("value", pa.array([0.1, None])),
        ("said", text_fields(pa.array(['"\\"', "x\ny"]))),
    ]
    assert made([key, "m"], fields, [1, 2]) == (
        f'{key} ingested=7i,value=0.1,said="\\"\\\\\\"" 1\nm ingested=8i,said="x\ny" 2\n'
    )


def test_many_lines_are_cut_into_requests() -> None:
    count = 2 * LINES + 1
    keys, whole = pa.repeat("m", count), pa.arange(0, count)
    sizes = [bytes(each).count(b"\n") for each in lines(keys, [("n", whole)], whole)]
    assert sizes == [LINES, LINES, 1]


@given(st.text(), st.text())
def test_a_tag_has_no_two_texts_and_nothing_that_the_server_refuses(one: str, other: str) -> None:
    said = tag_text(one)
    assert not set(said) & set("\n\r\\\0")
    assert (said == tag_text(other)) == (one == other)


@given(st.text())
def test_a_text_in_a_field_is_the_same_alone_and_in_a_column(text: str) -> None:
    assert text_fields(pa.array([text])).to_pylist() == [text_field(text)]
