"""A stand-in for a part: answers its probe, ends on SIGTERM, or misbehaves as it is told.

`standin.py PORT [deaf] [silent] [fails STATUS] [done]`; imports little, to start at once.
"""

from __future__ import annotations

import signal
import socket
import sys
import time

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"


def main(port: int, manners: list[str]) -> None:
    print("I am here", flush=True)
    if "fails" in manners:
        print("nexus: it cannot be", flush=True)
        sys.exit(int(manners[manners.index("fails") + 1]))
    if "done" in manners:
        print("all was sent", flush=True)
        sys.exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN if "deaf" in manners else _goodbye)
    if "silent" in manners:
        time.sleep(3600)
    with socket.create_server(("127.0.0.1", port)) as server:
        while True:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(ANSWER)


def _goodbye(_number: int, _frame: object) -> None:
    print("goodbye", flush=True)
    sys.exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
