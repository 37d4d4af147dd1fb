"""NATS's protocol: a JetStream acknowledgement to the reply subject of every publish."""

from __future__ import annotations

from peers.discard.connection import Discarding

_INFO = (
    b'INFO {"server_id":"discard","version":"2.9.10","proto":1,"headers":true,'
    b'"max_payload":1048576,"jetstream":true}\r\n'
)
_ACK = b'{"stream":"discard","seq":1}'


class Nats(Discarding):
    """Lines; a publish is followed by its bytes."""

    def __init__(self) -> None:
        super().__init__()
        self._subscription = b"1"

    def greet(self) -> None:
        self.transport.write(_INFO)

    def take(self, data: bytes) -> tuple[int, bytes]:
        at, answers = 0, bytearray()
        while (end := data.find(b"\r\n", at)) >= 0:
            verb, *words = data[at:end].split(b" ")
            after = end + 2
            if verb in (b"PUB", b"HPUB"):
                after += int(words[-1]) + 2
                if after > len(data):
                    break
                # Subject, reply, lengths: one length for PUB, two for HPUB.
                answers += b"MSG %b %b %d\r\n%b\r\n" % (
                    words[1],
                    self._subscription,
                    len(_ACK),
                    _ACK,
                )
            elif verb == b"SUB":
                self._subscription = words[-1]
            elif verb == b"PING":
                answers += b"PONG\r\n"
            at = after
        return at, bytes(answers)
