"""The broker's settings: built once from flags, environment, file and defaults, then passed down.

A value that is unknown, impossible or contradicts another is one SettingsError.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from nexus.settings.checks import check_broker, choose_fsync
from nexus.settings.errors import SettingsError
from nexus.settings.options import (
    FlagValue,
    Inputs,
    Source,
    entries_below,
    options_of,
    refuse_unknown,
    resolve,
)
from nexus.settings.place import CONFIG_VARIABLE, Config, Place, path_of
from nexus.settings.presets import with_preset
from nexus.settings.sections import (
    BrokerSection,
    ClusterSection,
    GroupsSection,
    PerformanceSection,
    ReplicationSection,
    StorageSection,
    parse_peers,
)
from nexus.settings.topics import TopicDefaults, TopicSettings, resolve_topics

SECTIONS: Final[Mapping[str, type]] = {
    "broker": BrokerSection,
    "cluster": ClusterSection,
    "storage": StorageSection,
    "performance": PerformanceSection,
    "replication": ReplicationSection,
    "groups": GroupsSection,
}
# Sections of the same file that are for other commands.
OTHER_PARTS: Final = ("streamer", "collector", "gateway", "proxy", "up")


class Shown(NamedTuple):
    """One line of `nexus config show`."""

    name: str
    value: str
    source: str


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """Everything that `nexus broker` can be told. `BrokerSettings()` is all defaults."""

    broker: BrokerSection = field(default_factory=BrokerSection)
    cluster: ClusterSection = field(default_factory=ClusterSection)
    storage: StorageSection = field(default_factory=StorageSection)
    performance: PerformanceSection = field(default_factory=PerformanceSection)
    replication: ReplicationSection = field(default_factory=ReplicationSection)
    groups: GroupsSection = field(default_factory=GroupsSection)
    topics: tuple[TopicSettings, ...] = ()
    file: Place | None = field(default=None, compare=False)
    provenance: Mapping[str, Source] = field(default_factory=dict, compare=False, repr=False)
    topic_values: Mapping[str, tuple[str, Source]] = field(
        default_factory=dict, compare=False, repr=False
    )

    def shown(self) -> Iterator[Shown]:
        """Every value as a user would write it, with where it came from."""
        for section, cls in SECTIONS.items():
            values = getattr(self, section)
            for name, opt in options_of(cls).items():
                dotted = f"{section}.{opt.key}"
                source = self.provenance.get(dotted, "default")
                yield Shown(dotted, opt.kind.show(getattr(values, name)), str(source))
        for dotted, (value, source) in self.topic_values.items():
            yield Shown(dotted, value, str(source))


def load_broker_settings(
    config: Config | None = None,
    *,
    flags: Mapping[str, FlagValue] | None = None,
    environ: Mapping[str, str] | None = None,
) -> BrokerSettings:
    """Settings from `config` (or the file that NEXUS_CONFIG names), the environment and `flags`.

    `flags` is keyed by dotted option name: `{"broker.port": FlagValue("--listen", 9093)}`.
    """
    variables = os.environ if environ is None else environ
    inputs = with_preset(read_inputs(config, flags or {}, variables))
    built: dict[str, Any] = {}
    provenance: dict[str, Source] = {}
    for section, cls in SECTIONS.items():
        values, sources = resolve(section, cls, inputs)
        provenance |= sources
        if section == "storage":
            choose_fsync(values, provenance)
        built[section] = cls(**values)
    topics, topic_values = resolve_topics(inputs, _topic_defaults(built))
    settings = BrokerSettings(
        **built,
        topics=topics,
        file=inputs.file,
        provenance=MappingProxyType(provenance),
        topic_values=MappingProxyType(topic_values),
    )
    check_broker(settings)
    _check_cluster(settings)
    return settings


def read_inputs(
    config: Config | None, flags: Mapping[str, FlagValue], environ: Mapping[str, str]
) -> Inputs:
    """Everything that may set a value, from one file for all parts."""
    if config is None and environ.get(CONFIG_VARIABLE):
        config = path_of(environ[CONFIG_VARIABLE])
    if config is None:
        return Inputs(None, {}, environ, flags)
    # A broker without a file starts without the YAML parser.
    from nexus.settings.document import entries_of  # noqa: PLC0415

    file, entries = entries_of(config)
    sections = entries_below(entries, "the file", file)
    refuse_unknown(sections, [*SECTIONS, "topics", *OTHER_PARTS], "", file)
    return Inputs(file, sections, environ, flags)


def _check_cluster(settings: BrokerSettings) -> None:
    cluster = settings.cluster
    where = f"{settings.provenance['cluster.peers'].where}: cluster.peers"
    try:
        peers = parse_peers(cluster.peers)
    except ValueError as error:
        raise SettingsError(f"{where}: {error}") from None
    if cluster.mode == "static" and settings.broker.id not in peers:
        raise SettingsError(
            f"{where}: found {', '.join(cluster.peers) or 'none'},"
            f" expected all brokers of the static cluster, this one ({settings.broker.id}) too"
        )


def _topic_defaults(built: Mapping[str, Any]) -> TopicDefaults:
    return TopicDefaults(
        partitions=built["broker"].default_partitions,
        replication_factor=built["replication"].default_replication_factor,
        segment_bytes=built["storage"].segment_bytes,
        max_message_bytes=built["performance"].max_message_bytes,
    )
