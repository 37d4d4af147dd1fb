"""What can go wrong when the tables are asked, each with what the asker may do about it."""

from nexus.errors import NexusError


class QueryError(NexusError):
    """Raised when a question to the tables could not be answered."""

    retriable = False


class StoreAway(QueryError):
    """Raised when the store does not answer now; the same question may be answered later."""

    retriable = True


class Unsupported(QueryError):
    """Raised when this store cannot answer a question of this kind at all."""


class BadKey(QueryError):
    """Raised when a page is to begin after a key that no row of the query can have."""


class TooMuch(QueryError):
    """Raised when a question would take too long: a shorter span or fewer series may do."""
