"""Speaks to Redis: answers come as they are on the wire, and errors as those of a queue.

The client tries nothing again by itself: of a command whose answer was lost nobody knows whether it
was carried out, and each caller finds that out in its own way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from nexus.queue.errors import QueueAway, QueueError, QueueFull
from nexus.queue.redis.url import RedisUrl

_CONNECT_S: Final = 5.0
_ANSWER_S: Final = 30.0
_SECURE: Final = {"ca": "ssl_ca_certs", "cert": "ssl_certfile", "key": "ssl_keyfile"}
_HOPELESS: Final = (redis.AuthenticationError, redis.exceptions.AuthorizationError)
_AWAY: Final = (
    redis.ConnectionError,
    redis.TimeoutError,
    redis.exceptions.ClusterDownError,
    redis.exceptions.MasterDownError,
    redis.exceptions.TryAgainError,
)


_KINDS: Final = ("list", "stream")
_OLDEST: Final = (6, 2)
_FLAGGED: Final = (7, 0)
_ALLOWED: Final = "#!lua flags=allow-oom\n"


class RedisAway(QueueAway):
    """Raised when Redis does not answer now; it may later."""


class WrongKind(QueueError):
    """Raised when a key holds something else than its address says."""


class RedisClient:
    """A connection or two. Arguments and answers are bytes, numbers and lists of them."""

    def __init__(self, url: RedisUrl) -> None:
        self.url = url
        files = {ours: url.access[name] for name, ours in _SECURE.items() if name in url.access}
        said: dict[str, Any] = {**url.server, **files}
        self._client: Any = redis.Redis(
            **said,
            password=url.password(),
            socket_connect_timeout=_CONNECT_S,
            socket_timeout=_ANSWER_S,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
        )
        # An entry of a stream may have a field twice, which the client's own dicts would lose.
        self._client.response_callbacks.clear()
        self._flags = ""

    def ask(self, *words: object) -> Any:
        """One command's answer."""
        with _as_ours(self.url):
            return self._client.execute_command(*words)

    def script(self, body: str, keys: list[bytes], *words: object) -> Any:
        """What a script answers, also where Redis has no memory left: it is to be emptied."""
        return self.ask("EVAL", self._flags + body, len(keys), *keys, *words)

    def all_or_nothing(self, watched: bytes, unchanged: Any, commands: list[list[Any]]) -> bool:
        """Carry commands out in one step, if `unchanged` (a command and its answer) still holds.

        What the answer tells is under the key that is watched.
        """
        question, expected = unchanged
        with _as_ours(self.url), self._client.pipeline() as line:
            line.watch(watched)
            if line.immediate_execute_command(*question) != expected:
                return False
            line.multi()
            for words in commands:
                line.execute_command(*words)
            try:
                line.execute()
            except redis.WatchError:
                return False
        return True

    def check(self) -> bool:
        """Whether the key is there; QueueError if it holds something else, or Redis is too old."""
        kind, found = self.url.kind, self.ask("TYPE", self.url.name).decode()
        version = _version(self.ask("INFO", "server"))
        if version < _OLDEST:
            raise QueueError(f"redis {self.url.place}: version 6.2 or newer is needed")
        self._flags = _ALLOWED if version >= _FLAGGED else ""
        if found not in (kind, "none"):
            other = f"; did you mean ?{found}={self.url.name}" if found in _KINDS else ""
            raise WrongKind(
                f"redis {self.url.place}: {self.url.name} is a {found}, not a {kind}{other}"
            )
        return bool(found == kind)

    def close(self) -> None:
        self._client.close()


@contextmanager
def _as_ours(url: RedisUrl) -> Iterator[None]:
    try:
        yield
    except _HOPELESS as error:
        raise QueueError(
            f"redis {url.place}: {error}; a password is taken from REDIS_PASSWORD or from the"
            " file of &password_file=, a user from redis://user@host"
        ) from None
    except redis.exceptions.OutOfMemoryError as error:
        raise QueueFull(f"redis {url.place}: {error}") from None
    except _AWAY as error:
        raise RedisAway(f"redis {url.place}: {error}") from error
    except redis.RedisError as error:
        raise QueueError(f"redis {url.place}: {error}") from error


def _version(said: bytes) -> tuple[int, ...]:
    found = re.search(rb"redis_version:(\d+)\.(\d+)", said)
    return tuple(map(int, found.groups())) if found else _OLDEST
