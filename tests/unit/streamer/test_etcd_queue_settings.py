"""What a queue in etcd asks of the streamer's settings."""

from __future__ import annotations

import pytest

from nexus.queue.url import parse_queue_url
from nexus.settings.errors import SettingsError
from nexus.settings.options import FlagValue
from nexus.settings.streamer import StreamerSettings, load_streamer_settings
from nexus.streamer.build import as_queue_wants, publisher_options, readings_max


def loaded(*, encoding: str | None = None, **environ: str) -> StreamerSettings:
    flags = {} if encoding is None else {"streamer.encoding": FlagValue("--encoding", encoding)}
    return load_streamer_settings(flags=flags, environ=environ)


@pytest.mark.parametrize(
    ("written", "seconds"), [("7200", 7200), ("24h", 86_400), ("90s", 90), ("1h30m", 5400)]
)
def test_a_time_to_live_is_written_in_seconds_or_with_a_unit(written: str, seconds: int) -> None:
    settings = loaded(MESSAGE_TTL=written)
    assert settings.streamer.message_ttl_s == seconds
    assert publisher_options(settings).ttl_s == seconds


@pytest.mark.parametrize("written", ["0", "-1", "soon", "100ms", "99999999999999"])
def test_a_time_to_live_that_is_none_says_what_would_be_right(written: str) -> None:
    with pytest.raises(SettingsError, match=r"MESSAGE_TTL.*expected a time such as 24h"):
        loaded(MESSAGE_TTL=written)


def test_a_time_to_live_is_shown_as_people_write_it() -> None:
    shown = {line.name: line.value for line in loaded().shown()}
    assert shown["streamer.message_ttl"] == "24h"


def test_cluster_and_batch_size_reach_the_publisher() -> None:
    options = publisher_options(loaded(CLUSTER_ID="dc1", BATCH_SIZE="128"))
    assert (options.cluster, options.batch_messages) == ("dc1", 128)


def test_messages_for_etcd_are_small_since_it_keeps_thousands_in_memory() -> None:
    assert readings_max(parse_queue_url("kafka://h:1/t")) == 10_000
    assert readings_max(parse_queue_url("etcd://h:1/q")) == 2_000


def test_a_queue_of_json_makes_the_streamer_send_json() -> None:
    queue = parse_queue_url("etcd://h:1/q?form=json")
    assert as_queue_wants(loaded(), queue).streamer.encoding == "json"
    assert as_queue_wants(loaded(encoding="json"), queue).streamer.encoding == "json"
    for other in ("etcd://h:1/q", "etcd://h:1/q?form=packed", "kafka://h:1/t"):
        assert as_queue_wants(loaded(), parse_queue_url(other)).streamer.encoding == "arrow"


def test_a_form_and_an_encoding_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"--encoding.*arrow contradicts \?form=json"):
        as_queue_wants(loaded(encoding="arrow"), parse_queue_url("etcd://h:1/q?form=json"))
