"""What the data source's options mean, and what it says of those that mean nothing."""

from __future__ import annotations

import pickle

import pytest

from nexus.pipeline.source.options import At, BadOption, parse_at, parse_options
from nexus.pipeline.source.planning import Limits
from nexus.queue.errors import QueueError

QUEUE = {"queue": "kafka://127.0.0.1:9092/gpu-telemetry"}


def test_a_queue_is_enough() -> None:
    options = parse_options(QUEUE)
    assert options.topic == "gpu-telemetry"
    assert options.start == At(edge="earliest")
    assert options.end == At(edge="latest")
    assert options.limits == Limits(1_500_000, 256 << 20, 1_000_000)
    assert (options.form, options.on_gone) == ("readings", "fail")
    assert 0 in options.partitions
    assert 11 in options.partitions
    assert options.tasks >= 2


def test_every_option_is_taken() -> None:
    options = parse_options(
        {
            **QUEUE,
            "start": "latest",
            "start_file": "/tmp/start.json",
            "partitions": "0-2, 7",
            "max_readings": "10",
            "max_bytes": "1KB",
            "max_messages": "3",
            "tasks": "5",
            "on_gone": "skip",
            "form": "narrow",
            "poll_timeout": "1500ms",
            "client.security.protocol": "SSL",
            "Client.fetch.max.bytes": "7",
        }
    )
    assert options.limits == Limits(10, 1024, 3)
    assert [p for p in range(10) if p in options.partitions] == [0, 1, 2, 7]
    assert (options.tasks, options.on_gone, options.form) == (5, "skip", "narrow")
    assert options.poll_timeout_s == 1.5
    assert options.client == (("fetch.max.bytes", "7"), ("security.protocol", "SSL"))
    assert str(options.start_file) == "/tmp/start.json"
    assert pickle.loads(pickle.dumps(options)) == options


def test_seconds_need_no_unit() -> None:
    assert parse_options({**QUEUE, "poll_timeout": "2.5"}).poll_timeout_s == 2.5


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("earliest", At(edge="earliest")),
        (" latest ", At(edge="latest")),
        ("1752871354000", At(moment_ms=1_752_871_354_000)),
        ("2025-07-18T20:42:34Z", At(moment_ms=1_752_871_354_000)),
        ("2025-07-18T22:42:34.5+02:00", At(moment_ms=1_752_871_354_500)),
        ("2025-07-18 20:42:34", At(moment_ms=1_752_871_354_000)),
        ('{"1": 0, "0": 12}', At(offsets=((0, 12), (1, 0)))),
    ],
)
def test_a_start_can_be_said_in_several_ways(text: str, meaning: At) -> None:
    assert parse_at("start", text) == meaning


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("start", "yesterday"),
        ("start", ""),
        ("start", '{"0": -1}'),
        ("start", '{"0": 1.5}'),
        ("start", '{"0": true}'),
        ("start", '{"zero": 1}'),
        ("start", '{"0": 1'),
        ("end", "never"),
        ("partitions", "5-3"),
        ("partitions", "a"),
        ("partitions", "1,,2"),
        ("max_readings", "0"),
        ("max_readings", "many"),
        ("max_bytes", "big"),
        ("max_messages", "-1"),
        ("tasks", "0"),
        ("on_gone", "shrug"),
        ("form", "wide"),
        ("poll_timeout", "soon"),
        ("poll_timeout", "0"),
    ],
)
def test_nonsense_is_refused_by_name(option: str, text: str) -> None:
    with pytest.raises(BadOption, match=rf'option {option}: found "'):
        parse_options({**QUEUE, option: text})


def test_a_misspelt_option_is_not_ignored() -> None:
    with pytest.raises(BadOption, match="option max_reading: is not known; known are end, form"):
        parse_options({**QUEUE, "max_reading": "5"})


def test_a_queue_must_be_given() -> None:
    with pytest.raises(BadOption, match="option queue: is missing"):
        parse_options({})


def test_a_queue_of_another_kind_is_refused() -> None:
    with pytest.raises(QueueError, match="unknown kind amqp://"):
        parse_options({"queue": "amqp://somewhere"})
