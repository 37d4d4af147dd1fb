"""What can go wrong between us and a queue."""

from nexus.errors import NexusError


class QueueError(NexusError):
    """Raised when a queue cannot be used as asked."""

    exit_code = 2


class QueueAway(QueueError):
    """Raised when the queue does not answer now; it may later."""

    exit_code = 1


class QueueFull(QueueError):
    """Raised when so much is on its way already that nothing more is taken now."""

    exit_code = 1


class MessageRefused(QueueError):
    """Raised when the queue refuses a message for good; sending it again would not help."""

    exit_code = 1
