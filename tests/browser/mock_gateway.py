"""A gateway that answers from a made-up fleet: for work on the page, and for its load test.

`python tests/browser/mock_gateway.py --hosts 1000` serves the built dashboard with 8,000 GPUs.
"""

from __future__ import annotations

import argparse
import json
import mimetypes
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from browser.made_fleet import MadeFleet
from browser.mock_answers import Query, answer, chosen, live_rows, metrics_of

STATIC = Path(__file__).parents[2] / "src/nexus/gateway/static"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


class MockGateway:
    """Serves on a free port until it is stopped."""

    def __init__(self, fleet: MadeFleet, *, port: int = 0) -> None:
        self.gpus = list(fleet.gpus())
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        self._server.daemon_threads = True
        self.stopped = False
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """Answer nobody any more; safe to call twice."""
        self.stopped = True
        self._server.shutdown()
        self._server.server_close()


def _handler(mock: MockGateway) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if mock.stopped:  # on a connection that was kept open
                self.close_connection = True
                return
            parts = urlsplit(self.path)
            query = parse_qs(parts.query)
            if parts.path == "/api/v1/live":
                self._live(query)
            elif parts.path.startswith("/api/v1/"):
                self._api(answer(mock.gpus, unquote(parts.path).removeprefix("/api/v1/"), query))
            else:
                self._file(STATIC / unquote(parts.path).lstrip("/"))

        def _api(self, body: Any) -> None:
            status = 404 if body is None else 200
            said = {"title": "Not found", "status": 404} if body is None else body
            self._send(status, "application/json", json.dumps(said).encode())

        def _file(self, path: Path) -> None:
            ours = path.is_file() and path.is_relative_to(STATIC)
            found = path if ours else STATIC / "index.html"
            kind = mimetypes.guess_type(found.name)[0] or "application/octet-stream"
            self._send(200, kind, found.read_bytes())

        def _send(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Security-Policy", POLICY)
            self.end_headers()
            with suppress(ConnectionError):  # a page that was left takes no answers
                self.wfile.write(body)

        def _live(self, query: Query) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            gpus = [gpu for gpu in chosen(mock.gpus, query) if not gpu.silent]
            metrics = metrics_of(query)
            every_s = float(query.get("interval", ["1s"])[0].removesuffix("s"))
            status = json.dumps({"queue": "ok", "detail": "", "time": 0})
            try:
                self.wfile.write(f"event: status\ndata: {status}\n\n".encode())
                while not mock.stopped:
                    rows = json.dumps(live_rows(gpus, metrics, time.time()), separators=(",", ":"))
                    self.wfile.write(f"event: readings\nid: 1\ndata: {rows}\n\n".encode())
                    time.sleep(every_s)
            except OSError:
                return

        def log_message(self, *_: Any) -> None:
            """Says nothing: a page asks often."""

    return Handler


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--clusters", type=int, default=1)
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--hostile", action="store_true")
    said = parser.parse_args()
    fleet = MadeFleet(said.hosts, said.clusters, said.hostile)
    mock = MockGateway(fleet, port=said.port)
    print(f"made-up fleet on {mock.url}", flush=True)
    mock.start()
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main()
