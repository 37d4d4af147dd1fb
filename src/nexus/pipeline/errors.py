"""What can go wrong in the pipeline, in words that say what to do."""

from nexus.errors import NexusError


class PipelineError(NexusError):
    """Raised when the pipeline cannot go on for a reason that its user can change."""
