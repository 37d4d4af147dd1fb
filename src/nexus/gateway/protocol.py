"""HTTP as uvicorn speaks it; only what is no HTTP at all is answered in our own words."""

from __future__ import annotations

from http import HTTPStatus

import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from nexus.gateway.middleware import SECURITY_HEADERS
from nexus.web.problems import MEDIA_TYPE, content


class GatewayProtocol(HttpToolsProtocol):
    """A request that cannot be read, or whose address is too long, gets a problem document."""

    def send_400_response(self, msg: str) -> None:
        body = orjson.dumps(
            {
                **content(
                    "bad-request",
                    HTTPStatus.BAD_REQUEST.phrase,
                    HTTPStatus.BAD_REQUEST,
                    f"{msg} Is the address longer than 64 KB?",
                    "",
                ),
                "errors": [],
            }
        )
        headers = {
            **SECURITY_HEADERS,
            "Content-Type": MEDIA_TYPE,
            "Content-Length": str(len(body)),
            "Cache-Control": "no-store",
            "Connection": "close",
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.transport.write(f"HTTP/1.1 400 Bad Request\r\n{lines}\r\n".encode() + body)
        self.transport.close()
