"""An address of Redis names a list or a stream, and never a password."""

from pathlib import Path

import pytest

from nexus.queue.errors import QueueError
from nexus.queue.redis.url import parse_redis_url


def test_an_address_names_a_server_and_a_key() -> None:
    url = parse_redis_url("redis://bob@db.example:7000/3?list=a:b&end=right&by=host")
    assert url.server == {
        "host": "db.example",
        "port": 7000,
        "db": 3,
        "username": "bob",
        "ssl": False,
    }
    assert (url.kind, url.name, url.end, url.by) == ("list", "a:b", "right", "host")
    assert str(url) == "redis://db.example:7000/3?list=a%3Ab"
    short = parse_redis_url("rediss://[::1]?stream=s")
    assert (short.server["host"], short.server["port"], short.server["ssl"]) == ("::1", 6379, True)
    assert (short.group, short.form, short.end) == ("nexus-import", "payload", "left")
    local = parse_redis_url("unix:///run/redis.sock?db=2&stream=s&group=g&form=fields&field=x")
    assert local.server == {"unix_socket_path": "/run/redis.sock", "db": 2}
    assert (local.group, local.form, local.payload) == ("g", "fields", "x")


def test_a_password_comes_from_a_file_or_the_environment(tmp_path: Path) -> None:
    url = parse_redis_url("redis://h?list=x")
    assert url.password({}) is None
    assert url.password({"REDISCLI_AUTH": "b"}) == "b"
    assert url.password({"REDIS_PASSWORD": "a", "REDISCLI_AUTH": "b"}) == "a"
    (tmp_path / "file").write_text("c\n")
    by_file = parse_redis_url(f"redis://h?list=x&password_file={tmp_path}/file")
    assert by_file.password({"REDIS_PASSWORD": "a"}) == "c"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("redis://h:1/0", "names no key"),
        ("redis://h:1/0?list=", "names no key"),
        ("redis://h:1/0?list=a&stream=b", "names no key, or two"),
        ("redis://h:1/x?list=a", "a database's number"),
        ("redis://h:99999/0?list=a", 'found "h:99999"'),
        ("redis://u:secret@h/0?list=a", "seen by everyone"),
        ("redis://h?list=a&group=g", "option group is for streams"),
        ("redis://h?list=a&end=top", "expected left or right"),
        ("redis://h?stream=a&form=x", "expected payload or fields"),
        ("redis://h?list=a&ttl=1", "unknown option ttl"),
        ("unix://socket?list=a", "expected unix:///path"),
        ("kafka://h/t", "expected redis://"),
    ],
)
def test_a_wrong_address_says_what_would_be_right(text: str, expected: str) -> None:
    with pytest.raises(QueueError, match="redis") as error:
        parse_redis_url(text)
    assert expected in str(error.value)
    assert "secret" not in str(error.value)
