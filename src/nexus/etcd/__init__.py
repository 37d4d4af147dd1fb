"""A thin asyncio client of etcd v3: keys, transactions, leases, watches, claims, maintenance.

    async with connect(EtcdConfig(("localhost:2379",))) as etcd:
        await etcd.put(b"/greeting", b"hello")

What it promises: every call has a deadline; a write is never repeated unless it was certainly not
carried out (`Ambiguous` says that nobody knows); a watch has no gaps; a lease's holder knows by
its own clock when the lease may be lost; and every claim (lock, leadership, membership) has a
token that later writes compare.

What to know of gRPC: a client belongs to one event loop and one process. Open it inside the loop
that uses it, and never in a process that forks workers later: those cannot have one (`forks`).
For code without a loop there is `nexus.etcd.blocking`.
"""

from nexus.etcd.claims import Fence, Taken, claim, fenced, release, try_claim
from nexus.etcd.client import Client, connect
from nexus.etcd.compare import (
    Compare,
    absent,
    create_revision,
    lease,
    mod_revision,
    present,
    value,
    version,
)
from nexus.etcd.config import EtcdConfig, Login, Tls, endpoints_of, wants_tls
from nexus.etcd.cursor import Event, WatchBatch
from nexus.etcd.election import Election, Leader, lock
from nexus.etcd.errors import (
    Ambiguous,
    AuthFailed,
    Busy,
    Closed,
    Compacted,
    Corrupt,
    DuplicateKey,
    EtcdError,
    Fenced,
    FutureRevision,
    KeyMissing,
    LeaseExists,
    LeaseLost,
    LeaseNotFound,
    NoSpace,
    PermissionDenied,
    RequestTooLarge,
    ResponseTooLarge,
    TooManyOperations,
    Unavailable,
)
from nexus.etcd.follow import View, follow
from nexus.etcd.keys import Keys
from nexus.etcd.lease import Lease
from nexus.etcd.leases import LeaseInfo
from nexus.etcd.limits import Limits
from nexus.etcd.maintenance import Alarm, AlarmKind, Hash, Status
from nexus.etcd.membership import Member, Members, Membership
from nexus.etcd.operations import Delete, Get, Operation, Order, Put, Txn
from nexus.etcd.results import DeleteResult, GetResult, KeyValue, PutResult, Result, TxnResult
from nexus.etcd.watch import Watch

__all__ = [
    "Alarm",
    "AlarmKind",
    "Ambiguous",
    "AuthFailed",
    "Busy",
    "Client",
    "Closed",
    "Compacted",
    "Compare",
    "Corrupt",
    "Delete",
    "DeleteResult",
    "DuplicateKey",
    "Election",
    "EtcdConfig",
    "EtcdError",
    "Event",
    "Fence",
    "Fenced",
    "FutureRevision",
    "Get",
    "GetResult",
    "Hash",
    "KeyMissing",
    "KeyValue",
    "Keys",
    "Leader",
    "Lease",
    "LeaseExists",
    "LeaseInfo",
    "LeaseLost",
    "LeaseNotFound",
    "Limits",
    "Login",
    "Member",
    "Members",
    "Membership",
    "NoSpace",
    "Operation",
    "Order",
    "PermissionDenied",
    "Put",
    "PutResult",
    "RequestTooLarge",
    "ResponseTooLarge",
    "Result",
    "Status",
    "Taken",
    "Tls",
    "TooManyOperations",
    "Txn",
    "TxnResult",
    "Unavailable",
    "View",
    "Watch",
    "WatchBatch",
    "absent",
    "claim",
    "connect",
    "create_revision",
    "endpoints_of",
    "fenced",
    "follow",
    "lease",
    "lock",
    "mod_revision",
    "present",
    "release",
    "try_claim",
    "value",
    "version",
    "wants_tls",
]
