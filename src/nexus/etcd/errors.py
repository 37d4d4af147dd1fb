"""What can go wrong with etcd: one flat family, in which each class carries its policy.

`retriable` says that the same call may be made again later as it stands. A write that raised
anything but `Ambiguous` did not happen.
"""

from __future__ import annotations

from nexus.errors import NexusError


class EtcdError(NexusError):
    """Raised when etcd refuses a call in a way that has no class of its own."""

    retriable = False


class Unavailable(EtcdError):
    """Raised when no endpoint took the call in time; nothing was written."""

    retriable = True


class Ambiguous(EtcdError):
    """Raised when a write was sent and no answer came: it happened, will happen, or never will.

    A read settles it only for a write that is not still on its way. A transaction that compares
    (`absent(key)`, a fence, a revision) may simply be sent again: it cannot happen twice.
    """


class Busy(EtcdError):
    """Raised when the server has too much to do and took nothing in."""

    retriable = True


class NoSpace(EtcdError):
    """Raised when the database is at its quota: reads and deletes work, puts and grants do not."""

    retriable = True


class Compacted(EtcdError):
    """Raised when a revision is asked for that was compacted away: list again."""

    def __init__(self, message: str, compact_revision: int = 0) -> None:
        super().__init__(message)
        self.compact_revision = compact_revision  # the oldest that is left; 0 when not told


class FutureRevision(EtcdError):
    """Raised when a revision is asked for that is not there yet."""


class LeaseNotFound(EtcdError):
    """Raised when a lease has expired, was revoked, or never was."""


class LeaseExists(EtcdError):
    """Raised when a lease is granted under an id that is taken."""


class LeaseLost(EtcdError):
    """Raised when a held lease may have run out: stop, and begin again with a new one."""


class Fenced(EtcdError):
    """Raised when a write carries a token that is no longer valid: another took over."""


class RequestTooLarge(EtcdError):
    """Raised when a request has more bytes than the server takes (`--max-request-bytes`)."""


class ResponseTooLarge(EtcdError):
    """Raised when an answer has more bytes than the client takes: ask for fewer keys."""


class TooManyOperations(EtcdError):
    """Raised when a transaction has more operations than the server takes (`--max-txn-ops`)."""


class DuplicateKey(EtcdError):
    """Raised when a transaction would write one key twice."""


class KeyMissing(EtcdError):
    """Raised when a put that keeps the value or the lease meets no key."""


class AuthFailed(EtcdError):
    """Raised when the user or the password is wrong, or none was given where one is needed."""


class PermissionDenied(EtcdError):
    """Raised when the user may not do this with these keys."""


class TokenRefused(EtcdError):
    """Raised when a token is too old; the client logs in again, so callers rarely see it."""

    retriable = True


class Corrupt(EtcdError):
    """Raised when the cluster found its members to differ, and stopped serving."""


class Closed(EtcdError):
    """Raised when a client is used after its end, in another event loop, or after a fork."""
