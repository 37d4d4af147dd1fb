"""Where etcd is: what an address says, what the environment adds, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from nexus.etcd.address import parse_etcd_address
from nexus.etcd.errors import EtcdError

NOTHING: dict[str, str] = {}


def test_an_address_names_endpoints_a_path_and_options() -> None:
    found = parse_etcd_address("etcd://a:1,b/telemetry/queue/?ttl=24h", NOTHING)
    assert found.endpoints == ("a:1", "b:2379")
    assert found.path == "/telemetry/queue"
    assert found.options == (("ttl", "24h"),)


def test_an_address_without_endpoints_takes_those_of_the_environment() -> None:
    known = {"ETCD_ENDPOINTS": "https://a:1,https://b:2"}
    found = parse_etcd_address("etcd:///q", known)
    assert found.endpoints == ("a:1", "b:2")
    assert found.config(NOTHING).tls is not None
    assert parse_etcd_address("etcd://", NOTHING).endpoints == ("127.0.0.1:2379",)


@pytest.mark.parametrize(
    "text",
    [
        "etcd://127.0.0.1:2379",
        "etcd://root@a:1,b:2/telemetry/a%20b?ca=/c.pem&tls=true&ttl=24h",
        "etcd://[::1]:2379/q",
    ],
)
def test_an_address_is_written_as_it_was_read(text: str) -> None:
    found = parse_etcd_address(text, NOTHING)
    assert str(found) == text
    assert parse_etcd_address(str(found), NOTHING) == found


@pytest.mark.parametrize("text", ["etcd://a:x", "etcd://a:0", "etcd://a:70000", "redis://a", "a:1"])
def test_what_is_no_address_is_refused_with_what_would_be_right(text: str) -> None:
    with pytest.raises(EtcdError, match="expected etcd://host:port"):
        parse_etcd_address(text, NOTHING)


def test_a_password_in_an_address_is_refused() -> None:
    with pytest.raises(EtcdError, match="ETCD_PASSWORD") as caught:
        parse_etcd_address("etcd://root:secret@a:1", NOTHING)
    assert "secret" not in str(caught.value)


def test_a_password_comes_from_a_file_or_from_the_environment(tmp_path: Path) -> None:
    (tmp_path / "word").write_text("from-file\n")
    by_file = parse_etcd_address(f"etcd://root@a:1?password_file={tmp_path}/word", NOTHING)
    login = by_file.config({"ETCD_PASSWORD": "from-environment"}).login
    assert login is not None
    assert (login.user, login.password) == ("root", "from-file")
    plain = parse_etcd_address("etcd://root@a:1", NOTHING)
    login = plain.config({"ETCD_PASSWORD": "from-environment"}).login
    assert login is not None
    assert login.password == "from-environment"
    with pytest.raises(EtcdError, match="needs a password"):
        plain.config(NOTHING)
    missing = parse_etcd_address(f"etcd://root@a:1?password_file={tmp_path}/none", NOTHING)
    with pytest.raises(EtcdError, match="No such file"):
        missing.config(NOTHING)


def test_files_of_certificates_ask_for_tls() -> None:
    config = parse_etcd_address("etcd://a:1?ca=/ca.pem&server_name=etcd.local", NOTHING).config(
        NOTHING
    )
    assert config.tls is not None
    assert (config.tls.ca, config.tls.server_name) == (Path("/ca.pem"), "etcd.local")
    assert parse_etcd_address("etcd://a:1", NOTHING).config(NOTHING).tls is None
