"""A server that takes every message, keeps none and says yes: the ceiling of a client.

It runs the broker's own connections and codec, so what is left out is the log and the disk.
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING, Any, cast

import uvloop

from nexus.broker.broker import Node
from nexus.broker.dispatch import NO_RESPONSE, Dispatcher, Handler, Request
from nexus.broker.metrics import BrokerMetrics
from nexus.broker.server import Server
from nexus.settings import BrokerSettings
from nexus.wire.apis import APIS, ApiKey
from nexus.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from nexus.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from nexus.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from nexus.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from nexus.broker.broker import Broker


class Discard:
    """As much of a broker as a producer needs."""

    def __init__(self, partitions: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.metrics = BrokerMetrics()
        self.partitions = partitions
        self.port = 0

    def api_versions(self) -> list[ApiVersion]:
        """The few APIs that a producer uses."""
        return [
            ApiVersion(
                api_key=key, min_version=APIS[key].min_version, max_version=APIS[key].max_version
            )
            for key in HANDLERS
        ]


def _api_versions(server: Any, _: Request, __: ApiVersionsRequest) -> ApiVersionsResponse:
    return ApiVersionsResponse(api_keys=server.api_versions())


def _metadata(server: Any, _: Request, body: MetadataRequest) -> MetadataResponse:
    node = Node(1, "127.0.0.1", server.port)
    partitions = [
        MetadataResponsePartition(
            partition_index=index, leader_id=1, leader_epoch=0, replica_nodes=[1], isr_nodes=[1]
        )
        for index in range(server.partitions)
    ]
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=1, host=node.host, port=node.port)],
        controller_id=1,
        topics=[
            MetadataResponseTopic(name=topic.name, partitions=partitions)
            for topic in body.topics or []
        ],
    )


def _produce(_: Any, __: Request, body: ProduceRequest) -> Any:
    if body.acks == 0:
        return NO_RESPONSE
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                partition_responses=[
                    PartitionProduceResponse(index=one.index) for one in topic.partition_data
                ],
            )
            for topic in body.topic_data
        ]
    )


def _init_producer_id(_: Any, __: Request, ___: InitProducerIdRequest) -> InitProducerIdResponse:
    return InitProducerIdResponse(producer_id=1)


HANDLERS: dict[ApiKey, Handler] = {
    ApiKey.PRODUCE: _produce,
    ApiKey.METADATA: _metadata,
    ApiKey.API_VERSIONS: _api_versions,
    ApiKey.INIT_PRODUCER_ID: _init_producer_id,
}


async def _serve(partitions: int) -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    discard = Discard(partitions)
    as_broker = cast("Broker", discard)
    server = Server(as_broker, Dispatcher(as_broker, HANDLERS), BrokerSettings().performance)
    discard.port = server.listen("127.0.0.1", 0)
    server.start()
    print(f"discarding on 127.0.0.1:{discard.port}", flush=True)
    parent = os.getppid()
    while not stopping.is_set() and os.getppid() == parent:
        try:
            await asyncio.wait_for(stopping.wait(), 1.0)
        except TimeoutError:
            continue
    server.close()


def main(partitions: int = 12) -> None:
    """Serve until ended, or until whoever started it is gone."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(partitions))


if __name__ == "__main__":
    main()
