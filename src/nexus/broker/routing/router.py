"""Puts routing in front of the handlers: what is led here they answer, the rest goes to its owner.

A request that another broker forwards is never forwarded again, so that two brokers whose views
differ do not send it back and forth.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from nexus.broker.connection import Connection
from nexus.broker.dispatch import NO_RESPONSE, Handler, Request
from nexus.broker.routing import shapes
from nexus.broker.routing.channel import SCRATCH_BYTES, Lost, Unreachable
from nexus.broker.routing.fetching import Race
from nexus.broker.routing.lane import Lane
from nexus.broker.routing.owners import LOOK_SECONDS, MOVED, Owners
from nexus.broker.routing.shapes import Key
from nexus.broker.routing.spreading import Plan, Spread
from nexus.cluster.partition_state import NOBODY
from nexus.wire.apis import ApiKey
from nexus.wire.errors import ErrorCode
from nexus.wire.messages.fetch import FetchRequest
from nexus.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from nexus.wire.messages.produce import PartitionProduceResponse, ProduceRequest

if TYPE_CHECKING:
    from nexus.broker.broker import Broker

# How long an owner is looked for where the request does not say how long its client waits.
FIND_SECONDS: Final = 10.0
# A join waits for other members; whoever is silent longer than any of them may be is not there.
GROUP_SECONDS: Final = 600.0
CONSUMER: Final = -1
ACKS_NONE: Final = 0
GROUP_CALLS: Final = (
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.OFFSET_DELETE,
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
)


class Router:
    """Routes the requests of all clients."""

    def __init__(self, broker: Broker, handlers: dict[ApiKey, Handler]) -> None:
        self._broker = broker
        self._me = broker.settings.broker.id
        self._plain = handlers
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._lanes: dict[Connection, Lane] = {}
        self._races: dict[Connection, Race] = {}
        self.owners = Owners(broker)
        owner_of = self.owners.of_partition
        self._fetching = Plan(shapes.FETCH, handlers[ApiKey.FETCH], owner_of)
        self._producing = Plan(shapes.PRODUCE, handlers[ApiKey.PRODUCE], owner_of, _may_be_there)

    def handlers(self) -> dict[ApiKey, Handler]:
        """The handlers with routing in front of those that need it."""
        routed: dict[ApiKey, Handler] = {
            ApiKey.PRODUCE: self._produce,
            ApiKey.FETCH: self._fetch,
            ApiKey.LIST_GROUPS: self._list_groups,
        }
        for shape in (shapes.LIST_OFFSETS, shapes.EPOCHS, shapes.DELETE_RECORDS):
            plan = Plan(shape, self._plain[shape.api], self.owners.of_partition)
            routed[shape.api] = partial(self._spread, plan)
        for groups in (shapes.DESCRIBE_GROUPS, shapes.DELETE_GROUPS):
            plan = Plan(groups, self._plain[groups.api], self.owners.of_group)
            routed[groups.api] = partial(self._spread, plan)
        for key in GROUP_CALLS:
            routed[key] = partial(self._ask_coordinator, self._plain[key])
        return self._plain | routed

    def look_again(self) -> None:
        """The view changed: nobody need wait for the answer of a broker that is gone."""
        members = self._broker.cluster.view.members.values()
        live = {(member.host, member.port) for member in members}
        for lane in list(self._lanes.values()):
            lane.hang_up_all_but(live)

    # By partition -----------------------------------------------------------------------------

    def _spread(self, plan: Plan, broker: Broker, request: Request, body: Any) -> Any:
        if not self._must_route(plan, request, body):
            return plan.handler(broker, request, body)
        lane = self._lane(request.connection)
        return Spread(lane, plan, request, body, FIND_SECONDS).finish()

    def _must_route(self, plan: Plan, request: Request, body: Any) -> bool:
        if request.origin is not None:
            return False
        lane = self._lanes.get(request.connection)
        if lane is not None and lane.turns.are_held:
            return True
        # Most brokers route nothing: that is seen without a look at every partition.
        if not any(map(self.owners.routes, plan.shape.topics(body))):
            return False
        owner_of, me = plan.owner_of, self._me
        return any(owner_of(key) != me for key in plan.shape.keys(body))

    def _produce(self, broker: Broker, request: Request, body: ProduceRequest) -> Any:
        plan = self._producing
        if not self._must_route(plan, request, body):
            return plan.handler(broker, request, body)
        held = _own_records(body)
        lane = self._lane(request.connection)
        if body.acks == ACKS_NONE:
            return self._tell(plan, lane, request, body, held)
        spread = Spread(lane, plan, request, body, body.timeout_ms / 1000)
        request.connection.forwarded_bytes += held
        return _counted(request.connection, held, spread)

    def _tell(
        self, plan: Plan, lane: Lane, request: Request, body: ProduceRequest, held: int
    ) -> Any:
        """acks=0: nobody listens, so a client learns of an error by losing its connection."""
        for owner, keys in plan.by_owner(plan.shape.keys(body)).items():
            part = plan.shape.part(body, keys.__contains__)
            try:
                if owner == self._me:
                    plan.handler(self._broker, request, part)
                else:
                    lane.tell(owner, request, part, held)
            except Unreachable:
                request.connection.close()
        return NO_RESPONSE

    def _fetch(self, broker: Broker, request: Request, body: FetchRequest) -> Any:
        plan, race = self._fetching, self._races.get(request.connection)
        is_whole = body.session_id == 0 and body.replica_id == CONSUMER
        if is_whole and self._must_route(plan, request, body):
            if race is None:
                race = Race(plan, self._lane(request.connection))
                self._races[request.connection] = race
            return race.run(request, body)
        if race is not None:
            race.drop()
        return plan.handler(broker, request, body)

    # By group ---------------------------------------------------------------------------------

    def _ask_coordinator(
        self, handler: Handler, broker: Broker, request: Request, body: Any
    ) -> Any:
        if request.origin is not None or not self.owners.is_proxy:
            return handler(broker, request, body)
        return self._asked_coordinator(handler, request, body)

    async def _asked_coordinator(self, handler: Handler, request: Request, body: Any) -> Any:
        await self._broker.groups.ensure()
        lane, loop = self._lane(request.connection), self._broker.loop
        turn, deadline = lane.turns.take(), loop.time() + FIND_SECONDS
        try:
            if lane.turns.are_held:
                await lane.turns.come(turn)
            while loop.time() < deadline and not request.connection.is_closed:
                response = await self._one_answer(lane, handler, request, body)
                if response is not None:
                    return response
                await lane.turns.come(turn)
                await asyncio.sleep(LOOK_SECONDS)
            return await handler(self._broker, request, body)
        finally:
            lane.turns.end(turn)

    async def _one_answer(self, lane: Lane, handler: Handler, request: Request, body: Any) -> Any:
        """What the coordinator says; None where it is another one by now, or cannot be reached."""
        owner = self.owners.of_group((body.group_id, 0))
        if owner == NOBODY:
            return None
        try:
            async with asyncio.timeout(GROUP_SECONDS):
                response = await lane.ask(owner, handler, request, body)
        except (Unreachable, Lost, TimeoutError):
            return None
        return None if MOVED & set(_codes(response)) else response

    def _list_groups(self, broker: Broker, request: Request, body: ListGroupsRequest) -> Any:
        if request.origin is not None or not self.owners.is_proxy:
            return self._plain[ApiKey.LIST_GROUPS](broker, request, body)
        return self._all_groups(request, body)

    async def _all_groups(self, request: Request, body: ListGroupsRequest) -> ListGroupsResponse:
        lane, handler = self._lane(request.connection), self._plain[ApiKey.LIST_GROUPS]
        whole = ListGroupsResponse(groups=[])
        try:
            asked = [
                lane.ask(owner, handler, request, body)
                for owner in list(self._broker.cluster.view.members)
            ]
            async with asyncio.timeout(FIND_SECONDS):
                answers: list[ListGroupsResponse] = await asyncio.gather(*asked)
        except (Unreachable, Lost, TimeoutError):
            whole.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            return whole
        for answer in answers:
            whole.error_code = whole.error_code or answer.error_code
            whole.groups += answer.groups
        return whole

    # Clients ----------------------------------------------------------------------------------

    def _lane(self, connection: Connection) -> Lane:
        lane = self._lanes.get(connection)
        if lane is None:
            if connection.is_closed:
                raise Unreachable("the client is gone")
            lane = self._lanes[connection] = Lane(self._broker, self._scratch)
            connection.at_close.add(partial(self._forget, connection))
        return lane

    def _forget(self, connection: Connection) -> None:
        self._lanes.pop(connection).close()
        race = self._races.pop(connection, None)
        if race is not None:
            race.close()


def _own_records(body: ProduceRequest) -> int:
    """Copy the batches, whose buffer is the connection's; returns their size."""
    size = 0
    for topic in body.topic_data:
        for data in topic.partition_data:
            if data.records is not None:
                size += len(data.records)
                # Whoever appends a batch writes its offset into it.
                data.records = memoryview(bytearray(data.records))
    return size


async def _counted(connection: Connection, held: int, spread: Spread) -> Any:
    try:
        return await spread.finish()
    finally:
        connection.forwarded_bytes -= held


def _may_be_there(key: Key) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=key[1], error_code=ErrorCode.REQUEST_TIMED_OUT, base_offset=-1
    )


def _codes(response: Any) -> Iterator[int]:
    """Every error in the answer to a group's call."""
    yield getattr(response, "error_code", ErrorCode.NONE)
    for topic in getattr(response, "topics", ()):
        for one in topic.partitions:
            yield one.error_code
