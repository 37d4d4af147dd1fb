"""A queue in etcd: messages are keys, positions are revisions, and nothing else is kept."""

from typing import Final

DEFAULT_PREFIX: Final = "/telemetry/queue"
