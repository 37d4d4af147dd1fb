"""What can go wrong with tables in Delta Lake, in words that say what to do."""

from nexus.errors import NexusError


class StoreError(NexusError):
    """Raised when a store's address is wrong or the store does not answer."""


class StoreOut(StoreError):
    """Raised when a store takes nothing now and may later: it is away, or full."""


class Fenced(StoreError):
    """Raised when another writer has taken the store over: this one must write no more."""


class StoreBusy(StoreError):
    """Raised when another collector writes to the store and this one may not wait."""


class Replayed(StoreError):
    """Raised when a numbered piece of work is in the table already; nothing was changed."""


class FilesMoved(StoreError):
    """Raised when files that a commit replaces are no longer in the table: plan it again."""


class HistoryGone(StoreError):
    """Raised when the log no longer holds the versions asked for: start from a snapshot."""


class BatchesLost(StoreError):
    """Raised when a store lacks batches that were stored in it: it was emptied or set back."""
