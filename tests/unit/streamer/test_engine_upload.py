"""Uploads: the files of a multipart body reach the queue; the answer says what became of them."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from nexus.observe.http import BadRequest, Response
from nexus.streamer.engine import Engine
from nexus.streamer.multipart import MultipartFiles
from nexus.streamer.upload import Uploads
from support.csv_text import LONG_HEADER, long_row
from support.engines import engine_at
from support.queues import MemoryQueue

TYPE = "multipart/form-data; boundary=XX"


def form(*files: tuple[str, str], field: str = "") -> bytes:
    parts = [
        f'--XX\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
        f"Content-Type: text/csv\r\n\r\n{text}\r\n"
        for name, text in files
    ]
    if field:
        parts.append(f'--XX\r\nContent-Disposition: form-data; name="note"\r\n\r\n{field}\r\n')
    return ("".join(parts) + "--XX--\r\n").encode()


def csv_of(rows: int, *more: str) -> str:
    return LONG_HEADER + "".join(long_row(n) for n in range(rows)) + "".join(more)


async def upload(engine: Engine, body: bytes, step: int = 7, **headers: str) -> Response:
    sink = Uploads(engine, 1 << 20).route().open({"content-type": TYPE, **headers})
    try:
        for at in range(0, len(body), step):
            sink.write(body[at : at + step])
        return await sink.finish()
    finally:
        sink.abort()


def play(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await story()

    asyncio.run(bounded())


def test_an_upload_is_answered_when_it_is_acknowledged(tmp_path: Path) -> None:
    async def story() -> None:
        queue = MemoryQueue()
        engine = engine_at(tmp_path, queue)
        answer = await upload(engine, form(("a.csv", csv_of(20)), field="hello"))
        document = json.loads(answer.body)
        assert answer.status == 200
        assert (document["records"], document["skipped"], document["reasons"]) == (20, 0, {})
        assert document["rate"] > 0
        assert len(queue.held) == 20
        assert list((tmp_path / "uploads").iterdir()) == [], "nothing stays on disk"
        await engine.close()

    play(story)


def test_bad_rows_are_skipped_with_their_reasons_and_the_clients_file_name(tmp_path: Path) -> None:
    async def story() -> None:
        queue = MemoryQueue()
        engine = engine_at(tmp_path, queue)
        bad = long_row(1, value="warm") + long_row(2, time="yesterday")
        answer = await upload(engine, form(("fleet.csv", csv_of(5, bad))), step=1000)
        document = json.loads(answer.body)
        assert (document["records"], document["skipped"]) == (5, 2)
        assert sum(document["reasons"].values()) == 2
        where = [dict(m.headers)["where"] for m in queue.held if m.dead]
        assert sorted(where) == [b"fleet.csv:7", b"fleet.csv:8"]
        await engine.close()

    play(story)


def test_several_files_at_once_are_one_upload(tmp_path: Path) -> None:
    async def story() -> None:
        queue = MemoryQueue()
        engine = engine_at(tmp_path, queue)
        body = form(("a.csv", csv_of(3)), ("b.csv", csv_of(4)))
        assert json.loads((await upload(engine, body)).body)["records"] == 7
        await engine.close()

    play(story)


def test_while_the_queue_is_away_an_upload_is_accepted_into_the_spool(tmp_path: Path) -> None:
    async def story() -> None:
        queue = MemoryQueue(away=True)
        engine = engine_at(tmp_path, queue)
        answer = await upload(engine, form(("a.csv", csv_of(6))), step=1000)
        assert answer.status == 202
        assert json.loads(answer.body)["spooled"] == 6
        queue.come_back()
        await engine.outbox.wait_acknowledged()
        assert len(queue.held) == 6
        await engine.close()

    play(story)


def test_a_file_that_is_no_such_csv_is_one_clear_error(tmp_path: Path) -> None:
    async def story() -> None:
        engine = engine_at(tmp_path, MemoryQueue())
        answer = await upload(engine, form(("x.csv", "a,b\n1,2\n")), step=1000)
        assert answer.status == 422
        assert "timestamp" in json.loads(answer.body)["error"], "it says what would be right"
        await engine.close()

    play(story)


def test_a_page_of_another_site_cannot_upload(tmp_path: Path) -> None:
    async def story() -> None:
        engine = engine_at(tmp_path, MemoryQueue())
        with pytest.raises(BadRequest, match="other sites"):
            await upload(engine, form(), origin="http://evil.example", host="127.0.0.1:1")
        await upload(
            engine, form(("a", csv_of(1))), origin="http://127.0.0.1:1", host="127.0.0.1:1"
        )
        await engine.close()

    play(story)


@pytest.mark.parametrize(
    ("content_type", "body", "says"),
    [
        ("text/csv", b"", "multipart/form-data"),
        ("multipart/form-data", b"", "multipart/form-data"),
        (TYPE, b"no boundary", "malformed"),
        (TYPE, form(("a.csv", "x"))[:-9], "ends too early"),
        (TYPE, form(field="x"), "no part of the body is a file"),
        (TYPE, form(*[("a", "x")] * 17), "at most 16 files"),
    ],
)
def test_what_is_no_form_with_a_file_is_refused(
    tmp_path: Path, content_type: str, body: bytes, says: str
) -> None:
    def feed() -> None:
        files = MultipartFiles(content_type, tmp_path)
        files.write(body)
        files.finish()

    with pytest.raises(BadRequest, match=says):
        feed()


def test_a_clients_file_name_never_becomes_a_path(tmp_path: Path) -> None:
    files = MultipartFiles(TYPE, tmp_path)
    files.write(form(("../../etc/passwd\x07", "x")))
    files.finish()
    assert [path.parent for path in files.names] == [tmp_path]
    assert list(files.names.values()) == ["../../etc/passwd?"]
