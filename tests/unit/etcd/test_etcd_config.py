"""How endpoints and credentials are written."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from nexus.etcd import EtcdConfig, EtcdError, Login, Tls, endpoints_of, wants_tls
from nexus.etcd.channels import credentials, options


@pytest.mark.parametrize(
    ("text", "endpoints"),
    [
        ("localhost:2379", ("localhost:2379",)),
        ("http://a:1, https://b:2/", ("a:1", "b:2")),
        ("etcd-0", ("etcd-0:2379",)),
        ("[::1]:5,[::1]", ("[::1]:5", "[::1]:2379")),
        ("", ()),
    ],
)
def test_endpoints_are_written_as_operators_write_them(
    text: str, endpoints: tuple[str, ...]
) -> None:
    assert endpoints_of(text) == endpoints


def test_a_path_is_no_endpoint() -> None:
    with pytest.raises(EtcdError, match="host:port"):
        endpoints_of("a:1/prefix")


def test_https_asks_for_tls_everywhere_or_nowhere() -> None:
    assert wants_tls("https://a:1,https://b:1")
    assert not wants_tls("a:1,http://b:1")
    with pytest.raises(EtcdError, match="all of them"):
        wants_tls("https://a:1,b:1")


def test_what_cannot_work_is_refused_before_anything_is_opened() -> None:
    with pytest.raises(EtcdError, match="no endpoint"):
        EtcdConfig(())
    with pytest.raises(EtcdError, match="hang up"):
        EtcdConfig(("a:1",), ping_every_s=1)
    with pytest.raises(EtcdError, match="key"):
        Tls(cert=Path("cert.pem"))
    with pytest.raises(EtcdError, match=r"missing\.pem"):
        credentials(Tls(ca=Path("/missing.pem")))


def test_a_config_can_be_sent_to_executors_and_does_not_show_its_password() -> None:
    config = EtcdConfig(("a:1",), Tls(server_name="x"), Login("me", "secret"))
    assert pickle.loads(pickle.dumps(config)) == config
    assert "secret" not in repr(config)


def test_a_server_is_not_pinged_into_hanging_up_nor_reached_through_a_proxy() -> None:
    chosen = dict(options(EtcdConfig(("a:1",), Tls(server_name="x"))))
    assert chosen["grpc.keepalive_permit_without_calls"] == 0
    assert chosen["grpc.keepalive_time_ms"] >= 5000
    assert chosen["grpc.enable_http_proxy"] == 0
    assert chosen["grpc.ssl_target_name_override"] == "x"
