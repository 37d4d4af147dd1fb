"""Which systems are compared, and what loads them."""

from __future__ import annotations

from importlib import import_module
from typing import Final, cast

from peers.clients.port import Client
from peers.servers.etcd import Etcd
from peers.servers.kafka import Kafka
from peers.servers.nexus_broker import NexusBroker
from peers.servers.process import System
from peers.servers.rabbitmq import RabbitMQ
from peers.servers.simple import MOSQUITTO, NATS, REDIS

OURS: Final = "nexus"
SYSTEMS: Final[dict[str, System]] = {
    OURS: NexusBroker(),
    "kafka": Kafka(),
    "redis": REDIS,
    "nats": NATS,
    "rabbitmq": RabbitMQ(),
    "mosquitto": MOSQUITTO,
    "etcd": Etcd(),
}
_CLIENTS: Final = {
    "kafka": "KafkaClient",
    "redis": "RedisClient",
    "nats": "NatsClient",
    "amqp": "AmqpClient",
    "mqtt": "MqttClient",
    "etcd": "EtcdClient",
}


def client_of(name: str) -> Client:
    """A process loads only the library that it needs."""
    module = import_module(f"peers.clients.{name}")
    return cast(Client, getattr(module, _CLIENTS[name])())
