"""The one error of settings: one line: where, which key, what was found, what is right."""

from typing import Final

from nexus.errors import NexusError


class SettingsError(NexusError):
    """Raised when a setting is unknown or its value is impossible."""

    exit_code: Final = 2
