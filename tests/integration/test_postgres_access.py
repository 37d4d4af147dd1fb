"""TLS and passwords of a store in PostgreSQL: who may in gets in, and who may not learns why."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from nexus.bench.local_postgres import USER, LocalPostgres
from nexus.cli.entry import run
from nexus.store.port import ANY, Page
from support.certificates import make_authority, make_certificate
from support.derived import HOUR, any_readings
from support.etcd_stores import opened_at
from support.postgres import PostgresFilled, postgres_server

PASSWORD = "s3cret: with \\ and spaces"
ONLY_TLS = f"""
hostssl all {USER} 127.0.0.1/32 scram-sha-256
host all {USER} 127.0.0.1/32 reject
"""


@dataclass(frozen=True)
class Guarded:
    """A server that wants TLS and a password; its certificate is for the name `localhost`."""

    server: LocalPostgres
    authority: Path

    def url(self, mode: str = "verify-full", *more: str, host: str = "localhost") -> str:
        said = [f"sslmode={mode}", "hostaddr=127.0.0.1", *more]
        if mode == "verify-full" and not any(word.startswith("sslrootcert") for word in more):
            said.append(f"sslrootcert={self.authority}")
        return f"postgresql://{USER}@{host}:{self.server.port}/postgres?{'&'.join(said)}"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("certificates")
    make_authority(folder)
    make_authority(folder, "stranger")
    make_certificate(folder, "server", "DNS:localhost")
    with postgres_server() as server:
        owner = server.data.stat()
        for name in ("server.key", "server.pem"):
            copied = Path(shutil.copy(folder / name, server.data / name))
            copied.chmod(0o600)
            os.chown(copied, owner.st_uid, owner.st_gid)
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute(f"ALTER ROLE {USER} PASSWORD {psycopg.sql.quote(PASSWORD)}")
            for name, value in (("ssl", "on"), ("ssl_cert_file", "server.pem"),
                                ("ssl_key_file", "server.key")):  # fmt: skip
                connection.execute(f"ALTER SYSTEM SET {name} = '{value}'")
            (server.data / "pg_hba.conf").write_text(ONLY_TLS)
            connection.execute("SELECT pg_reload_conf()")
        yield Guarded(server, folder / "ca.pem")


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No password but those that a test gives."""
    monkeypatch.delenv("PGPASSWORD", raising=False)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    monkeypatch.setenv("HOME", str(tmp_path))


def passfile(path: Path, password: str = PASSWORD, mode: int = 0o600) -> str:
    escaped = password.replace("\\", "\\\\").replace(":", "\\:")
    path.write_text(f"localhost:*:postgres:{USER}:{escaped}\n")
    path.chmod(mode)
    return f"passfile={path}"


def init(url: str) -> int:
    return run(["store", "init", "--store", url])


def test_a_store_is_written_and_read_over_tls_with_a_password_from_a_file_or_the_environment(
    guarded: Guarded,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    by_file = guarded.url("verify-full", passfile(tmp_path / "right"))
    assert init(by_file) == 0, capsys.readouterr().err
    with PostgresFilled(by_file) as filled:
        assert filled.add(any_readings(random.Random(1), 50, HOUR)) == 50
        used = filled.connection.execute(
            "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
        ).fetchone()
        assert used == (True,)
    with opened_at(by_file) as opened:
        assert opened.snapshot().latest(ANY, Page(100)).num_rows > 0
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "right"))
    assert init(guarded.url()) == 0
    monkeypatch.delenv("PGPASSFILE")
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    assert init(guarded.url()) == 0
    assert "already" in capsys.readouterr().out
    assert PASSWORD not in by_file


def test_who_is_not_who_it_should_be_is_told_why_and_never_the_password(
    guarded: Guarded,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    right = passfile(tmp_path / "right")
    stranger = f"sslrootcert={guarded.authority.with_name('stranger.pem')}"
    for url, expected in [
        (guarded.url("verify-full", right, stranger), "certificate verify failed"),
        (guarded.url("verify-full", right, host="other.example"), "does not match host name"),
        (guarded.url("disable", right), "pg_hba.conf rejects connection"),
        (guarded.url("verify-full", passfile(tmp_path / "wrong", "guess")), "password"),
        (guarded.url("verify-full", passfile(tmp_path / "open", mode=0o644)), "no password"),
        (guarded.url(), "no password supplied"),
    ]:
        assert init(url) != 0
        said = capsys.readouterr()
        assert expected in said.err, url
        assert PASSWORD not in said.err + said.out
    monkeypatch.setenv("PGPASSWORD", "guess")
    assert init(guarded.url()) != 0
    assert "password authentication failed" in capsys.readouterr().err
