"""How much the server takes in one request: found out by asking, since nothing tells.

Only reads are sent. etcd refuses a transaction with too many compares before it looks at them,
and its gRPC refuses a message that is too large with words that name the limit.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from nexus.etcd import schema
from nexus.etcd.caller import Caller
from nexus.etcd.errors import EtcdError, PermissionDenied, RequestTooLarge, TooManyOperations
from nexus.etcd.faults import server_limit_bytes

OPERATIONS_MOST: Final = 16_384  # more would be no use
BYTES_MOST: Final = 32 << 20
_OVERHEAD_BYTES: Final = 512 << 10  # what etcd lets gRPC take beyond a request's limit
_DEFAULT_BYTES: Final = 3 << 19


class Limits(NamedTuple):
    """What one request may hold: `--max-txn-ops` and `--max-request-bytes`."""

    operations: int
    request_bytes: int


async def find_limits(caller: Caller) -> Limits:
    return Limits(await _operations(caller), await _request_bytes(caller))


async def _operations(caller: Caller) -> int:
    taken, refused = 0, 128
    while refused <= OPERATIONS_MOST and await _takes_operations(caller, refused):
        taken, refused = refused, refused * 2
    if refused > OPERATIONS_MOST:
        return taken
    while refused - taken > 1:
        middle = (taken + refused) // 2
        if await _takes_operations(caller, middle):
            taken = middle
        else:
            refused = middle
    return taken


async def _takes_operations(caller: Caller, count: int) -> bool:
    compares = [schema.Compare(key=b"\x00", result=3)] * count
    try:
        await caller.call(schema.TXN, schema.TxnRequest(compare=compares), repeatable=True)
    except TooManyOperations:
        return False
    except PermissionDenied:
        return True  # the count was looked at before
    return True


async def _request_bytes(caller: Caller) -> int:
    taken, tried = 0, _DEFAULT_BYTES + _OVERHEAD_BYTES
    while tried <= BYTES_MOST:
        refusal = await _refusal_of_bytes(caller, tried)
        if refusal is not None:
            limit = server_limit_bytes(refusal)
            return (limit or taken or tried) - _OVERHEAD_BYTES
        taken, tried = tried, tried * 2
    return taken - _OVERHEAD_BYTES


async def _refusal_of_bytes(caller: Caller, size: int) -> EtcdError | None:
    request = schema.RangeRequest(key=bytes(size), count_only=True)
    try:
        await caller.call(schema.RANGE, request, repeatable=True)
    except RequestTooLarge as refusal:
        return refusal
    except PermissionDenied:
        return None
    return None
