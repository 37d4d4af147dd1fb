"""A topic's settings: known names, possible values, and the log they make."""

from __future__ import annotations

import pytest

from nexus.broker.topic_config import check_configs, effective, log_config, target_codec
from nexus.settings import BrokerSettings
from nexus.wire.compression import Codec
from nexus.wire.errors import InvalidConfig

SETTINGS = BrokerSettings()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", "shred"),
        ("cleanup.policy", ""),
        ("compression.type", "brotli"),
        ("retention.ms", "-2"),
        ("retention.ms", "a day"),
        ("segment.bytes", "10"),
        ("segment.bytes", str(2**40)),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("message.timestamp.type", "createtime"),
        ("flush.ms", "1"),
    ],
)
def test_an_impossible_setting_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(InvalidConfig, match=name.replace(".", r"\.")):
        check_configs({name: value})


def test_a_setting_without_a_value_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="needs a value"):
        check_configs({"retention.ms": None})


def test_every_default_is_itself_a_possible_value() -> None:
    defaults = effective(SETTINGS, 12, {})
    assert check_configs(defaults) == defaults


def test_a_topic_shares_its_retention_size_among_its_partitions() -> None:
    whole = log_config(SETTINGS, 1, {}).retention_bytes
    assert whole == 10 << 30
    assert log_config(SETTINGS, 4, {}).retention_bytes == whole // 4


def test_a_topics_own_settings_reach_its_log() -> None:
    config = log_config(
        SETTINGS,
        1,
        {
            "cleanup.policy": "compact,delete",
            "segment.bytes": "2048",
            "retention.ms": "-1",
            "message.timestamp.type": "LogAppendTime",
        },
    )
    assert (config.compact, config.delete) == (True, True)
    assert config.segment_bytes == 2048
    assert config.retention_ms == -1
    assert config.log_append_time


def test_compression_names_a_codec_or_leaves_the_producers() -> None:
    assert target_codec({}) is None
    assert target_codec({"compression.type": "producer"}) is None
    assert target_codec({"compression.type": "uncompressed"}) is Codec.NONE
    assert target_codec({"compression.type": "zstd"}) is Codec.ZSTD
