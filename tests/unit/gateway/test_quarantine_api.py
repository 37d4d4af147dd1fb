"""/api/v1/quarantine: what was refused, shown as far as it can be."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from nexus.lake.table import LakeTable
from nexus.telemetry.tables import TABLES
from support.gateways import Client, asking
from support.lake import FENCE, store_in, written

SPEC = TABLES["quarantine"]
MIDNIGHT_US = 1_752_796_800_000_000
NOW_S = MIDNIGHT_US / 1_000_000 + 3600
RAWS = [
    b'{"value": "none"}',
    b"\xff\xfe\x00binary",
    ("ä" * 3000).encode(),
    b"",
    b'"</script>\n',
]


def row(number: int, raw: bytes) -> dict[str, Any]:
    return {
        "refused": MIDNIGHT_US + number * 1_000_000,
        "reason": "unreadable, alas" if number % 2 else "the value is no number",
        "stage": "decode",
        "topic": "gpu-telemetry",
        "partition": number % 3,
        "offset": 2**40 + number,
        "row": number,
        "content_type": "application/json",
        "source": "kafka",
        "raw": raw,
    }


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("quarantine")
    schema = pa.schema([field for field in SPEC.schema if field.name != "day"])
    rows = pa.Table.from_pylist([row(n, raw) for n, raw in enumerate(RAWS)], schema)
    table = LakeTable.open(store_in(folder), SPEC)
    table.append([written(table.files_of, rows)], "test", 0, FENCE)
    with asking(folder, NOW_S) as client:
        yield client


def test_text_is_shown_as_text_and_bytes_in_base_64(refused: Client) -> None:
    found = refused.json("/api/v1/quarantine")["data"]
    assert found[0] == {
        "refused": "2025-07-18T00:00:00Z",
        "reason": "the value is no number",
        "stage": "decode",
        "topic": "gpu-telemetry",
        "partition": 0,
        "offset": 2**40,
        "row": 0,
        "content_type": "application/json",
        "source": "kafka",
        "raw": '{"value": "none"}',
        "raw_base64": None,
        "raw_size": 17,
    }
    assert found[1]["raw"] is None
    assert base64.b64decode(found[1]["raw_base64"]) == RAWS[1]
    assert (found[3]["raw"], found[4]["raw"]) == ("", '"</script>\n')


def test_a_long_one_is_cut_between_characters(refused: Client) -> None:
    found = refused.json("/api/v1/quarantine")["data"][2]
    assert found["raw"] == "ä" * 2048
    assert found["raw_size"] == 6000


def test_pages_and_order(refused: Client) -> None:
    seen: list[int] = []
    cursor: str | None = ""
    while cursor is not None:
        page = refused.json("/api/v1/quarantine", order="desc", limit=2, cursor=cursor)
        seen += [row["row"] for row in page["data"]]
        cursor = page["next_cursor"]
    assert seen == [4, 3, 2, 1, 0]


def test_a_reason_is_exact_and_may_have_a_comma(refused: Client) -> None:
    found = refused.json("/api/v1/quarantine", reason="unreadable, alas")["data"]
    assert [row["row"] for row in found] == [1, 3]
    both = ["unreadable, alas", "the value is no number"]
    assert refused.json("/api/v1/quarantine", reason=both)["count"] == 5
    assert refused.json("/api/v1/quarantine", reason="unreadable")["count"] == 0


def test_the_default_is_the_last_day(refused: Client) -> None:
    assert refused.json("/api/v1/quarantine", end_time="now-1h")["count"] == 1
    assert refused.json("/api/v1/quarantine", start_time="now-30m")["count"] == 0
