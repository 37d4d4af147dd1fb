"""A page's EventSource takes messages from a proxy, and after a restart comes back by itself."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import expect

from browser.conftest import OpenPage
from support.broker import BrokerProcess
from support.proxies import ProxyProcess

pytestmark = pytest.mark.timeout(180)

PAGE = """<!doctype html><title>worker</title><link rel="icon" href="data:,">
<p id="state"></p><ol id="done"></ol>
<script>
const proxy = location.hash.slice(1), where = "topic=browsed&group=pages";
const source = new EventSource(`${proxy}/consume?${where}`);
source.onopen = () => { document.querySelector("#state").textContent = "open"; };
source.onerror = () => { document.querySelector("#state").textContent = "away"; };
source.onmessage = async (event) => {
  const message = JSON.parse(event.data);
  const headers = {"Content-Type": "application/json"};
  const body = JSON.stringify({id: event.lastEventId});
  await fetch(`${proxy}/ack?${where}`, {method: "POST", headers, body});
  const item = document.createElement("li");
  item.textContent = `${message.payload} (attempt ${message.attempt})`;
  document.querySelector("#done").append(item);
};
</script>"""


@pytest.fixture
def page_url() -> Iterator[str]:
    """A site that is not the proxy's."""

    class Site(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(PAGE.encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join()


def test_a_page_takes_messages_and_goes_on_after_a_restart(
    broker: BrokerProcess, page_url: str, tmp_path: Path, open_page: OpenPage
) -> None:
    proxy = ProxyProcess(
        tmp_path, broker.bootstrap, environ={"NEXUS_PROXY_ORIGINS": page_url}
    ).start()
    try:
        for number in range(3):
            proxy.produce("browsed", number, key="one")
        page = open_page(f"{page_url}/#{proxy.url}", forgives="net::ERR")
        done, state = page.locator("#done li"), page.locator("#state")
        expect(done).to_have_text([f"{number} (attempt 1)" for number in range(3)])
        proxy.kill()
        expect(state).to_have_text("away")
        proxy.start()
        proxy.produce("browsed", 3, key="one")
        expect(state).to_have_text("open")
        expect(done).to_have_text([f"{number} (attempt 1)" for number in range(4)])
    finally:
        proxy.stop()
