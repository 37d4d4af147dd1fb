"""What keeps settings from being read out of etcd."""

from __future__ import annotations

from nexus.errors import NexusError


class SettingsAway(NexusError):
    """Raised when etcd does not hand out the settings now; they may be right."""
