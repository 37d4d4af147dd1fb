"""A member that is told of a loading coordinator may give up: it is told that all is well."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nexus.broker.handlers import heartbeat
from nexus.groups import HeartbeatResult
from nexus.wire.errors import ErrorCode
from nexus.wire.messages.heartbeat import HeartbeatRequest

BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE),
        (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.REBALANCE_IN_PROGRESS),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.NONE, ErrorCode.NONE),
    ],
)
def test_a_heartbeat_never_hears_of_loading(said: ErrorCode, told: ErrorCode) -> None:
    async def ask(*_: object) -> HeartbeatResult:
        return HeartbeatResult(error=said)

    broker = cast("Any", SimpleNamespace(groups=SimpleNamespace(ask=ask)))
    answer = asyncio.run(heartbeat.handle(broker, cast("Any", None), BEAT))
    assert answer.error_code == told
