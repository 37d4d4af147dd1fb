"""What can be wrong with telemetry, as one flat family of errors that carry their reason."""

from nexus.errors import NexusError


class TelemetryError(NexusError):
    """Raised when telemetry is not what it should be."""


class SchemaError(TelemetryError):
    """Raised when a table lacks the columns of a reading or has them in types that do not fit."""


class UnencodableReading(TelemetryError):
    """Raised when a reading cannot be written in the form that was asked for."""


class UnreadableMessage(TelemetryError):
    """Raised when one message is not what its content type says."""


class FrameError(TelemetryError):
    """Raised when bytes are not a whole, undamaged frame."""


class UnitError(TelemetryError):
    """Raised when a unit is unknown or measures another quantity than the one asked for."""
