"""From what gRPC and etcd say to our errors: done once, here.

A failed call has a fate besides its error. REFUSED: an answer, trying again would bring the same.
UNSENT: certainly not carried out. UNKNOWN: a write may have been, or may still be.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final, NamedTuple

from grpc import StatusCode

from nexus.etcd import errors
from nexus.etcd.errors import EtcdError


class Fate(Enum):
    REFUSED = "refused"
    UNSENT = "unsent"
    UNKNOWN = "unknown"


class Fault(NamedTuple):
    """One failed attempt."""

    error: EtcdError
    fate: Fate


# What etcd says, in words that have not changed from 3.4 on, longest first where one holds another.
_SAID: Final[tuple[tuple[str, type[EtcdError], Fate], ...]] = (
    ("required revision has been compacted", errors.Compacted, Fate.REFUSED),
    ("required revision is a future revision", errors.FutureRevision, Fate.REFUSED),
    ("database space exceeded", errors.NoSpace, Fate.REFUSED),
    ("requested lease not found", errors.LeaseNotFound, Fate.REFUSED),
    ("lease already exists", errors.LeaseExists, Fate.REFUSED),
    ("request is too large", errors.RequestTooLarge, Fate.REFUSED),
    ("too many operations in txn", errors.TooManyOperations, Fate.REFUSED),
    ("duplicate key given", errors.DuplicateKey, Fate.REFUSED),
    ("key not found", errors.KeyMissing, Fate.REFUSED),
    ("permission denied", errors.PermissionDenied, Fate.REFUSED),
    ("authentication failed", errors.AuthFailed, Fate.REFUSED),
    ("user name is empty", errors.TokenRefused, Fate.UNSENT),
    ("invalid auth token", errors.TokenRefused, Fate.UNSENT),
    ("revision of auth store is old", errors.TokenRefused, Fate.UNSENT),
    ("corrupt cluster", errors.Corrupt, Fate.REFUSED),
    ("too many requests", errors.Busy, Fate.UNSENT),
    # Every call asks for a leader (`hasleader`), so this is said before anything is proposed.
    ("etcdserver: no leader", errors.Unavailable, Fate.UNSENT),
    ("not supported for learner", errors.Unavailable, Fate.UNSENT),
    ("etcdserver: not capable", errors.Unavailable, Fate.UNSENT),
)
_RECEIVED_TOO_LARGE: Final = re.compile(r"received message larger than max", re.IGNORECASE)
_SERVER_LIMIT: Final = re.compile(r"grpc: received message larger than max \(\d+ vs\. (\d+)\)")
_UNCLEAR: Final = {
    StatusCode.UNAVAILABLE,
    StatusCode.DEADLINE_EXCEEDED,
    StatusCode.CANCELLED,
    StatusCode.ABORTED,
    StatusCode.INTERNAL,
    StatusCode.UNKNOWN,
}


def judge(code: StatusCode, details: str, where: str) -> Fault:
    """What a failed call means; `where` is the endpoint, for the message."""
    text = f"etcd {where}: {details or code.name.lower()}"
    for words, kind, fate in _SAID:
        if words in details:
            return Fault(kind(text), fate)
    if _RECEIVED_TOO_LARGE.search(details):
        return Fault(_too_large(details, text), Fate.REFUSED)
    if code in _UNCLEAR:
        return Fault(errors.Unavailable(text), Fate.UNKNOWN)
    if code is StatusCode.UNAUTHENTICATED:
        return Fault(errors.TokenRefused(text), Fate.UNSENT)
    return Fault(EtcdError(f"{text} ({code.name})"), Fate.REFUSED)


def unreachable(where: str, why: str) -> Fault:
    """No connection was there to send anything on."""
    return Fault(errors.Unavailable(f"etcd {where}: {why}"), Fate.UNSENT)


def server_limit_bytes(error: EtcdError) -> int | None:
    """The most bytes that a server takes in one message, if that is what it complains of."""
    found = _SERVER_LIMIT.search(str(error))
    return int(found[1]) if found else None


def _too_large(details: str, text: str) -> EtcdError:
    # Both ends say nearly the same; the server's gRPC begins its words with its name.
    if _SERVER_LIMIT.search(details):
        return errors.RequestTooLarge(text)
    return errors.ResponseTooLarge(text)
