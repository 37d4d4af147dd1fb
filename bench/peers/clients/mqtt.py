"""MQTT by paho: QoS 1 both ways, and sessions that outlive their connection."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion

from nexus.bench.clients import BenchFailed
from peers.clients.native import NativeReceiver, NativeSender, generator, library
from peers.clients.port import Lanes, Receiver, Sender

_WINDOW = 2000
_PYTHON = f"paho-mqtt {version('paho-mqtt')}"
_WAIT_S = 60.0


class MqttClient:
    """A topic for each lane; a consumer is a session, subscribed before the first message."""

    chunk = 500
    words = (
        f"{generator('mqtt', _PYTHON)}, QoS 1 with {_WINDOW} under way; a stored session is read"
    )

    def prepare(self, lanes: Lanes) -> None:
        for number in range(lanes.consumers):
            _Receiver(lanes, number).close()

    def remove(self, lanes: Lanes) -> None:
        for number in range(lanes.consumers):
            _connected(lanes.address, f"{lanes.name}-c{number}", clean=True).close()

    def sender(self, lanes: Lanes) -> Sender:
        built = library("mqtt")
        return NativeSender(built, lanes, _WINDOW) if built else _Sender(lanes)

    def receiver(self, lanes: Lanes, number: int) -> Receiver:
        built = library("mqtt")
        return NativeReceiver(built, lanes, number) if built else _Receiver(lanes, number)


class _connected:  # noqa: N801 - reads as a verb where it is used
    """A client whose network runs in a thread, as paho's users have it."""

    def __init__(self, address: str, name: str, *, clean: bool, on_message: Any = None) -> None:
        self.client = Client(CallbackAPIVersion.VERSION2, client_id=name, clean_session=clean)
        self.client.max_inflight_messages_set(_WINDOW)
        self.client.max_queued_messages_set(0)
        self.client.on_message = on_message
        ready = threading.Event()
        self.client.on_connect = lambda *_: ready.set()
        host, _, port = address.rpartition(":")
        self.client.connect(host, int(port), keepalive=600)
        self.client.loop_start()
        if not ready.wait(_WAIT_S):
            raise BenchFailed("no answer to the connection")

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


class _Sender:
    def __init__(self, lanes: Lanes) -> None:
        self._topics = lanes.names()
        self._sent = self._settled = 0
        self._changed = threading.Condition()
        self._connected = _connected(lanes.address, "", clean=True)
        self._connected.client.on_publish = self._on_publish

    def send(self, values: Sequence[bytes], lane: int) -> None:
        topic, publish = self._topics[lane], self._connected.client.publish
        for value in values:
            publish(topic, value, qos=1)
            self._sent += 1
            if self._sent - self._settled >= _WINDOW:
                self._until(_WINDOW // 2)

    def _on_publish(self, *_: object) -> None:
        self._settled += 1
        if self._sent - self._settled in (0, _WINDOW // 2):
            with self._changed:
                self._changed.notify()

    def _until(self, left: int) -> None:
        deadline = time.monotonic() + _WAIT_S
        with self._changed:
            while self._sent - self._settled > left:
                if time.monotonic() > deadline:
                    raise BenchFailed(f"{self._sent - self._settled} were not acknowledged")
                self._changed.wait(0.05)

    def rest(self, seconds: float) -> None:
        time.sleep(seconds)

    def flush(self) -> None:
        self._until(0)

    def close(self) -> None:
        self._connected.close()


class _Receiver:
    def __init__(self, lanes: Lanes, number: int) -> None:
        self._values: list[bytes] = []
        self._came = threading.Event()
        self._connected = _connected(
            lanes.address, f"{lanes.name}-c{number}", clean=False, on_message=self._take
        )
        names = lanes.names()
        subscribed = threading.Event()
        self._connected.client.on_subscribe = lambda *_: subscribed.set()
        self._connected.client.subscribe([(names[lane], 1) for lane in lanes.of_consumer(number)])
        if not subscribed.wait(_WAIT_S):
            raise BenchFailed("no answer to the subscription")

    def _take(self, _: object, __: object, message: MQTTMessage) -> None:
        self._values.append(bytes(message.payload))
        self._came.set()

    def receive(self, wait_s: float) -> list[bytes]:
        self._came.wait(wait_s)
        self._came.clear()
        values, self._values = self._values, []
        return values

    def close(self) -> None:
        self._connected.close()
