"""The messages and methods of etcd v3 that we use, declared here and built when imported.

They live in a protobuf package of our own, in a pool of their own, so that they cannot collide
with another library's. Only names on the wire matter: the numbers of fields and the paths of
methods. Enumerations are plain integers; see `enums` for their names.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE: Final = "nexus.etcd"

# A field is name:type=number; a star after the type repeats it.
_MESSAGES: Final = {
    "Empty": "",
    "Header": "cluster_id:uint64=1 member_id:uint64=2 revision:int64=3 raft_term:uint64=4",
    "HeaderOnly": "header:Header=1",
    "KeyValue": "key:bytes=1 create_revision:int64=2 mod_revision:int64=3 version:int64=4"
    " value:bytes=5 lease:int64=6",
    "Event": "type:int32=1 kv:KeyValue=2 prev_kv:KeyValue=3",
    "RangeRequest": "key:bytes=1 range_end:bytes=2 limit:int64=3 revision:int64=4"
    " sort_order:int32=5 sort_target:int32=6 serializable:bool=7 keys_only:bool=8"
    " count_only:bool=9 min_mod_revision:int64=10 max_mod_revision:int64=11"
    " min_create_revision:int64=12 max_create_revision:int64=13",
    "RangeResponse": "header:Header=1 kvs:KeyValue*=2 more:bool=3 count:int64=4",
    "PutRequest": "key:bytes=1 value:bytes=2 lease:int64=3 prev_kv:bool=4 ignore_value:bool=5"
    " ignore_lease:bool=6",
    "PutResponse": "header:Header=1 prev_kv:KeyValue=2",
    "DeleteRequest": "key:bytes=1 range_end:bytes=2 prev_kv:bool=3",
    "DeleteResponse": "header:Header=1 deleted:int64=2 prev_kvs:KeyValue*=3",
    "RequestOp": "request_range:RangeRequest=1 request_put:PutRequest=2"
    " request_delete:DeleteRequest=3 request_txn:TxnRequest=4",
    "ResponseOp": "response_range:RangeResponse=1 response_put:PutResponse=2"
    " response_delete:DeleteResponse=3 response_txn:TxnResponse=4",
    "Compare": "result:int32=1 target:int32=2 key:bytes=3 version:int64=4"
    " create_revision:int64=5 mod_revision:int64=6 value:bytes=7 lease:int64=8"
    " range_end:bytes=64",
    "TxnRequest": "compare:Compare*=1 success:RequestOp*=2 failure:RequestOp*=3",
    "TxnResponse": "header:Header=1 succeeded:bool=2 responses:ResponseOp*=3",
    "CompactRequest": "revision:int64=1 physical:bool=2",
    "HashRequest": "revision:int64=1",
    "HashResponse": "header:Header=1 hash:uint32=2 compact_revision:int64=3",
    "GrantRequest": "ttl:int64=1 id:int64=2",
    "GrantResponse": "header:Header=1 id:int64=2 ttl:int64=3 error:string=4",
    "LeaseRequest": "id:int64=1 keys:bool=2",
    "KeepAliveResponse": "header:Header=1 id:int64=2 ttl:int64=3",
    "TimeToLiveResponse": "header:Header=1 id:int64=2 ttl:int64=3 granted_ttl:int64=4"
    " keys:bytes*=5",
    "WatchRequest": "create_request:WatchCreateRequest=1",
    "WatchCreateRequest": "key:bytes=1 range_end:bytes=2 start_revision:int64=3"
    " progress_notify:bool=4 filters:int32*=5 prev_kv:bool=6 watch_id:int64=7 fragment:bool=8",
    "WatchResponse": "header:Header=1 watch_id:int64=2 created:bool=3 canceled:bool=4"
    " compact_revision:int64=5 cancel_reason:string=6 fragment:bool=7 events:Event*=11",
    "AlarmRequest": "action:int32=1 member_id:uint64=2 alarm:int32=3",
    "AlarmMember": "member_id:uint64=1 alarm:int32=2",
    "AlarmResponse": "header:Header=1 alarms:AlarmMember*=2",
    "StatusResponse": "header:Header=1 version:string=2 db_size:int64=3 leader:uint64=4"
    " raft_index:uint64=5 raft_term:uint64=6 raft_applied_index:uint64=7 errors:string*=8"
    " db_size_in_use:int64=9 is_learner:bool=10",
    "AuthenticateRequest": "name:string=1 password:string=2",
    "AuthenticateResponse": "header:Header=1 token:string=2",
}


class Method(NamedTuple):
    """One call of etcd: where it goes, and what goes in and out."""

    path: str
    request: Any
    response: Any


def _declare(field: descriptor_pb2.FieldDescriptorProto, text: str) -> None:
    field.name, _, rest = text.partition(":")
    kind, _, number = rest.partition("=")
    field.number = int(number)
    repeated = kind.endswith("*")
    field.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
    kind = kind.removesuffix("*")
    if kind in _MESSAGES:
        field.type, field.type_name = field.TYPE_MESSAGE, f".{PACKAGE}.{kind}"
    else:
        field.type = field.Type.Value(f"TYPE_{kind.upper()}")


def _build() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(
        name="nexus/etcd.proto", package=PACKAGE, syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for text in fields.split():
            _declare(message.field.add(), text)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))
        for name in _MESSAGES
    }


_classes: Final = _build()
Compare: Final = _classes["Compare"]
DeleteRequest: Final = _classes["DeleteRequest"]
PutRequest: Final = _classes["PutRequest"]
RangeRequest: Final = _classes["RangeRequest"]
TxnRequest: Final = _classes["TxnRequest"]
WatchCreateRequest: Final = _classes["WatchCreateRequest"]
WatchRequest: Final = _classes["WatchRequest"]
WatchResponse: Final = _classes["WatchResponse"]


def _method(service: str, name: str, request: str, response: str) -> Method:
    return Method(f"/etcdserverpb.{service}/{name}", _classes[request], _classes[response])


RANGE: Final = _method("KV", "Range", "RangeRequest", "RangeResponse")
PUT: Final = _method("KV", "Put", "PutRequest", "PutResponse")
DELETE: Final = _method("KV", "DeleteRange", "DeleteRequest", "DeleteResponse")
TXN: Final = _method("KV", "Txn", "TxnRequest", "TxnResponse")
COMPACT: Final = _method("KV", "Compact", "CompactRequest", "HeaderOnly")
WATCH: Final = _method("Watch", "Watch", "WatchRequest", "WatchResponse")
GRANT: Final = _method("Lease", "LeaseGrant", "GrantRequest", "GrantResponse")
REVOKE: Final = _method("Lease", "LeaseRevoke", "LeaseRequest", "HeaderOnly")
KEEP_ALIVE: Final = _method("Lease", "LeaseKeepAlive", "LeaseRequest", "KeepAliveResponse")
TIME_TO_LIVE: Final = _method("Lease", "LeaseTimeToLive", "LeaseRequest", "TimeToLiveResponse")
ALARM: Final = _method("Maintenance", "Alarm", "AlarmRequest", "AlarmResponse")
STATUS: Final = _method("Maintenance", "Status", "Empty", "StatusResponse")
DEFRAGMENT: Final = _method("Maintenance", "Defragment", "Empty", "HeaderOnly")
HASH: Final = _method("Maintenance", "HashKV", "HashRequest", "HashResponse")
AUTHENTICATE: Final = _method("Auth", "Authenticate", "AuthenticateRequest", "AuthenticateResponse")
