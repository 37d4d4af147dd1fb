"""Settings: frozen, parsed once, passed down. The only package that reads the environment."""

from nexus.settings.broker import BrokerSettings, Shown, load_broker_settings
from nexus.settings.errors import SettingsError
from nexus.settings.options import FlagValue, Source, Strength
from nexus.settings.sections import (
    BrokerSection,
    ClusterSection,
    GroupsSection,
    PerformanceSection,
    ReplicationSection,
    StorageSection,
)
from nexus.settings.topics import TopicSettings

__all__ = [
    "BrokerSection",
    "BrokerSettings",
    "ClusterSection",
    "FlagValue",
    "GroupsSection",
    "PerformanceSection",
    "ReplicationSection",
    "SettingsError",
    "Shown",
    "Source",
    "StorageSection",
    "Strength",
    "TopicSettings",
    "load_broker_settings",
]
