"""The names that operators of such proxies know, given to a real one by its environment alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.broker import BrokerProcess
from support.needs import need_program, need_root
from support.ports import free_port
from support.proxies import ProxyProcess
from support.waiting import wait_until

pytestmark = pytest.mark.timeout(240)

# The proxy sees names of its own, as pods of a service do; the first of its brokers is not there.
HOSTS = """
127.0.0.1 localhost
127.0.0.9 msg-queue-0.msg-queue
127.0.0.1 msg-queue-1.msg-queue
"""


@pytest.fixture
def proxy(broker: BrokerProcess, tmp_path: Path) -> Iterator[ProxyProcess]:
    need_root()
    hosts = tmp_path / "hosts"
    hosts.write_text(HOSTS)
    port = free_port()
    environ = {
        "PORT": str(port),
        "BROKER_SERVICE": f"msg-queue:{broker.port}",
        "BROKER_COUNT": "2",
        "VIRTUAL_NODES": "40",
        "MAX_PARTITIONS": "3",
        "HEALTH_INTERVAL_SECONDS": "1",
        "NEXUS_PROXY_REQUEST_TIMEOUT": "2s",
        "NEXUS_PROXY_CONNECT_TIMEOUT": "500ms",
    }
    mount = f'mount --bind \'{hosts}\' /etc/hosts && exec "$0" "$@"'
    prefix = (need_program("unshare"), "--mount", "sh", "-c", mount)
    made = ProxyProcess(tmp_path / "proxy", "", environ=environ, port=port, prefix=prefix)
    try:
        yield made.start()
        assert "Traceback" not in made.said
    finally:
        made.stop()


def test_the_environment_says_all_that_a_proxy_needs(
    broker: BrokerProcess, proxy: ProxyProcess
) -> None:
    proxy.produce("by-environment", 1)
    status = proxy.get("/status").json()
    assert (status["mode"], status["virtual_nodes"]) == ("static", 40)
    assert len(status["topics"]["by-environment"]["owners"]) == 3

    path, body = "/produce?topic=by-environment&partition=0", {"payload": 2}
    with broker.paused():
        late = proxy.post(path, json=body)
    assert (late.status_code, late.json()["type"]) == (504, "urn:nexus:problem:fate-unknown")

    def is_up() -> bool:
        brokers = proxy.get("/status").json()["brokers"]
        return all(one["healthy"] for one in brokers)

    wait_until(is_up, within=60, what="the broker awake")
    broker.kill()
    # Nothing is asked of it: only the proxy's own checks can notice.
    wait_until(lambda: not is_up(), within=60, what="the proxy to notice")
    assert "a broker is left alone" in proxy.said
    broker.start()
    wait_until(is_up, within=60, what="the proxy to notice that it is back")
    assert "a broker is back" in proxy.said
