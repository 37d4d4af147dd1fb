"""Messages of a queue in etcd as people and programs read them."""

from typing import Any

from nexus.cli.moments import format_moment
from nexus.cli.payload import as_json, as_text
from nexus.cli.queue.options import key_text
from nexus.etcd import KeyValue
from nexus.queue.etcd.forms import unpack_or_raw
from nexus.queue.etcd.layout import readings_in, timestamp_ns_of
from nexus.telemetry.frame import Frame


def as_line(item: KeyValue) -> str:
    """A key and what it holds, on one line."""
    frames, problem = unpack_or_raw(item.value)
    if problem:
        return f"{key_text(item.key)}  <{len(item.value)} bytes: {problem}>"
    more = f"  (and {len(frames) - 1} more)" if len(frames) > 1 else ""
    first = as_text(frames[0].value, frames[0].headers) if frames else "<empty>"
    return f"{key_text(item.key)}  {first}{more}"


def as_document(item: KeyValue) -> dict[str, Any]:
    """The same for programs, with every message of a packed value."""
    frames, problem = unpack_or_raw(item.value)
    at_ns = timestamp_ns_of(item.key)
    return {
        "key": key_text(item.key),
        "revision": item.mod_revision,
        "published": None if at_ns is None else format_moment(at_ns // 1_000_000),
        "readings": readings_in(item.key),
        "lease": f"{item.lease:x}" if item.lease else None,
        "problem": problem or None,
        "messages": [_message(frame) for frame in frames],
    }


def _message(frame: Frame) -> dict[str, Any]:
    return {
        "key": as_json(frame.key),
        "value": as_json(frame.value),
        "headers": [[name, as_json(value)] for name, value in frame.headers],
    }
