"""The queue that a command is about, and how it is asked."""

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Annotated, Final, TypeVar

import typer

from nexus.cli.output import printable
from nexus.etcd import Client, EtcdError, Unavailable, connect
from nexus.queue.etcd.layout import Slot, slot_of
from nexus.queue.url import EtcdUrl, parse_queue_url
from nexus.settings.errors import SettingsError
from nexus.settings.units import format_duration, parse_duration_ms

T = TypeVar("T")
_TIMEOUT_S: Final = 5.0
_SLOT: Final = re.compile(r"[^/]+/\d{1,6}")

Queue = Annotated[
    str | None,
    typer.Option(
        "--queue",
        metavar="URL",
        help="The queue: etcd://host:port/prefix (or MSG_QUEUE_URL; endpoints and prefix that are"
        " left out come from ETCD_ENDPOINTS and MESSAGE_QUEUE_PREFIX)."
        " [default: etcd://127.0.0.1:2379/telemetry/queue]",
    ),
]
Slots = Annotated[
    list[str] | None,
    typer.Option("--slot", metavar="CLUSTER/PARTITION", help="Only this slot; repeatable."),
]


def queue_of(flag: str | None) -> EtcdUrl:
    """The queue that --queue or the environment names."""
    text = flag or os.environ.get("MSG_QUEUE_URL") or "etcd://"
    url = parse_queue_url(text)
    if not isinstance(url, EtcdUrl):
        raise SettingsError(
            f"queue {text}: these commands are for queues in etcd (etcd://host:port/prefix); for"
            " Kafka see nexus topics and nexus groups"
        )
    return url


def ask(url: EtcdUrl, story: Callable[[Client], Awaitable[T]]) -> T:
    """Let a client of the queue's etcd live through a story."""

    async def whole() -> T:
        async with connect(replace(url.address.config(), timeout_s=_TIMEOUT_S)) as client:
            return await story(client)

    try:
        return asyncio.run(whole())
    except Unavailable as error:
        raise EtcdError(
            f"{error}; is etcd up there? name another with --queue etcd://host:port"
        ) from None


def slots_of(texts: list[str] | None) -> list[Slot]:
    """Slots as they were given: `local-cluster/3`."""
    for text in texts or []:
        if not _SLOT.fullmatch(text):
            raise SettingsError(
                f'flag --slot: found "{text}", expected a slot such as local-cluster/3'
            )
    return [slot_of(text) for text in texts or []]


def age_ms(text: str | None, flag: str) -> int | None:
    """A time such as 1h as milliseconds."""
    if text is None:
        return None
    try:
        return parse_duration_ms(text)
    except ValueError:
        raise SettingsError(f'flag {flag}: found "{text}", expected a time such as 1h') from None


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def age(since_ms: int | None, now: int) -> str | None:
    """How long ago, to the second."""
    if since_ms is None:
        return None
    whole = max(0, now - since_ms) // 1000 * 1000
    return format_duration(whole) if whole else "0s"


def key_text(key: bytes) -> str:
    return printable(key.decode(errors="backslashreplace"))
