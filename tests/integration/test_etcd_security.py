"""TLS, mutual TLS and users against real etcds that demand them."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from nexus.etcd import (
    AuthFailed,
    Client,
    Delete,
    EtcdConfig,
    Get,
    Keys,
    Lease,
    Limits,
    Login,
    PermissionDenied,
    Put,
    Tls,
    Unavailable,
    absent,
    claim,
    connect,
)
from support.certificates import make_authority, make_certificate
from support.etcd import EtcdMember, eventually, run
from support.needs import need_program

ROOT = Login("root", "root-secret")
QUEUE = Login("queue", "queue-secret")
HOSTS = "DNS:etcd.example,IP:127.0.0.1"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("certificates")
    make_authority(where)
    make_certificate(where, "server", HOSTS, "serverAuth,clientAuth")
    make_certificate(where, "client", HOSTS, "clientAuth")
    return where


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory, certificates: Path) -> Iterator[EtcdMember]:
    """An etcd that talks TLS only, and only to clients with a certificate."""
    files = ("cert-file", "server.pem"), ("key-file", "server.key"), ("trusted-ca-file", "ca.pem")
    flags = [word for flag, file in files for word in (f"--{flag}", str(certificates / file))]
    member = EtcdMember(
        tmp_path_factory.mktemp("secure"), flags=(*flags, "--client-cert-auth"), scheme="https"
    )
    yield member.start()
    member.kill()


def test_mutual_tls_lets_a_client_with_a_certificate_in(
    secure: EtcdMember, certificates: Path
) -> None:
    tls = Tls(certificates / "ca.pem", certificates / "client.pem", certificates / "client.key")

    async def story(client: Client) -> None:
        async with client.leases.hold(2) as lease, client.watch(b"k") as watch:
            await client.put(b"k", b"1", lease=lease.id)
            assert (await anext(watch)).events[0].item.value == b"1"
            await eventually(lambda: _renewed(lease, lease.remaining_s()))

    async def _renewed(lease: Lease, remaining_s: float) -> bool:
        await asyncio.sleep(0.05)  # the keepalive has a connection of its own
        return lease.remaining_s() > remaining_s

    secure.run(story, tls=tls)


def test_a_client_without_a_certificate_or_without_tls_stays_outside(
    secure: EtcdMember, certificates: Path
) -> None:
    async def story(client: Client) -> None:
        with pytest.raises(Unavailable):
            await client.get(b"k")

    secure.run(story, tls=Tls(certificates / "ca.pem"), timeout_s=0.4)
    secure.run(story, timeout_s=0.4)


def test_a_server_that_the_authority_did_not_sign_is_not_spoken_to(
    secure: EtcdMember, certificates: Path, tmp_path: Path
) -> None:
    make_authority(tmp_path)
    cert, key = certificates / "client.pem", certificates / "client.key"

    async def story(client: Client) -> None:
        with pytest.raises(Unavailable, match=r"cannot connect.*(?i:certificate|hostname|peer)"):
            await client.get(b"k")

    secure.run(story, tls=Tls(tmp_path / "ca.pem", cert, key), timeout_s=0.4)
    wrong_name = Tls(certificates / "ca.pem", cert, key, server_name="other.example")
    secure.run(story, tls=wrong_name, timeout_s=0.4)


def test_a_servers_certificate_may_say_another_name_if_we_are_told(
    secure: EtcdMember, certificates: Path
) -> None:
    cert, key = certificates / "client.pem", certificates / "client.key"

    async def story(client: Client) -> None:
        assert await client.get(b"nothing") is None

    secure.run(story, tls=Tls(certificates / "ca.pem", cert, key, "etcd.example"))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdMember]:
    """An etcd with users: root, and one whose rights cover /queue/ only."""
    member = EtcdMember(tmp_path_factory.mktemp("guarded"), flags=("--auth-token-ttl", "1")).start()

    def etcdctl(*words: str) -> None:
        command = [need_program("etcdctl"), "--endpoints", member.endpoint, *words]
        environ = {**os.environ, "ETCDCTL_API": "3"}
        subprocess.run(command, env=environ, check=True, capture_output=True, timeout=20)

    etcdctl("user", "add", f"{ROOT.user}:{ROOT.password}")
    etcdctl("user", "grant-role", ROOT.user, "root")
    etcdctl("role", "add", "queue")
    etcdctl("role", "grant-permission", "queue", "--prefix", "readwrite", "/queue/")
    etcdctl("user", "add", f"{QUEUE.user}:{QUEUE.password}")
    etcdctl("user", "grant-role", QUEUE.user, "queue")
    etcdctl("auth", "enable")
    yield member
    member.kill()


def test_a_user_works_inside_its_prefix_and_nowhere_else(guarded: EtcdMember) -> None:
    async def story(client: Client) -> None:
        await client.put(b"/queue/a", b"1")
        async with client.leases.hold(5) as lease:
            assert (await claim(client, b"/queue/owner", b"", lease)).token
        read = await client.range(Get(Keys.prefix(b"/queue/")))
        assert [item.key for item in read.items] == [b"/queue/a"]
        for outside in (
            client.put(b"/other", b""),
            client.get(b"/other"),
            client.delete(Keys.prefix(b"/")),
            client.txn(then=[Put(b"/queue/b"), Put(b"/other")]),
            client.txn(when=[absent(b"/other")], then=[Delete(Keys(b"/queue/a"))]),
        ):
            with pytest.raises(PermissionDenied):
                await outside
        assert await client.get(b"/queue/b") is None
        assert await client.limits() == Limits(128, 1_572_864)

    guarded.run(story, login=QUEUE)


def test_a_watch_needs_the_right_to_read(guarded: EtcdMember) -> None:
    async def story(client: Client) -> None:
        async with client.watch(Keys.prefix(b"/queue/")) as watch:
            await client.put(b"/queue/w", b"1")
            assert (await anext(watch)).events[0].key == b"/queue/w"
        with pytest.raises(PermissionDenied):
            async with client.watch(Keys.prefix(b"/other/")):
                pass

    guarded.run(story, login=QUEUE)


def test_a_client_logs_in_again_when_its_token_has_run_out(guarded: EtcdMember) -> None:
    async def story(client: Client) -> None:
        async with connect(client.config) as watching:
            for each in (client, watching):
                await each.put(b"/queue/t", b"1")
            await asyncio.sleep(2.1)  # tokens last for a second here
            await asyncio.gather(*(client.put(b"/queue/t%d" % i, b"2") for i in range(5)))
            assert (await client.maintenance.status()).is_leader
            async with watching.watch(b"/queue/t") as watch:
                await client.put(b"/queue/t", b"3")
                assert (await anext(watch)).events[0].item.value == b"3"

    guarded.run(story, login=QUEUE)


def test_wrong_or_missing_passwords_are_refused_at_once(guarded: EtcdMember) -> None:
    async def story(client: Client) -> None:
        with pytest.raises(AuthFailed):
            await client.get(b"/queue/a")

    guarded.run(story, login=Login("queue", "wrong"))
    guarded.run(story)


def test_a_login_is_no_hindrance_where_nobody_asks_for_one(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    member = EtcdMember(tmp_path_factory.mktemp("open")).start()

    async def story(client: Client) -> None:
        await client.put(b"k", b"1")

    try:
        run(story, EtcdConfig((member.endpoint,), login=QUEUE))
    finally:
        member.kill()


def test_a_password_is_not_printed(guarded: EtcdMember) -> None:
    assert "secret" not in repr(guarded.config(login=QUEUE))
