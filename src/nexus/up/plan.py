"""From settings to the programs that are started: command lines, addresses, order.

Whatever the parts must agree on (ports, queue, store, directories) is on their command lines; all
else they read from the same file and environment as when they are started alone.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from nexus.settings.place import Place
from nexus.settings.up import UpSettings
from nexus.settings.up_kinds import OWN_ETCD
from nexus.up.etcd_server import etcd_command, etcd_environment, find_etcd
from nexus.up.machine import Part, Rules
from nexus.up.ports import Address, claimed
from nexus.up.runner import Program

if TYPE_CHECKING:
    from nexus.etcd.address import EtcdAddress

TOPIC: Final = "gpu-telemetry"
BROKER, BROKER_HTTP = "broker", "broker-http"
ETCD, ETCD_PEERS = "etcd", "etcd-peers"
GATEWAY, COLLECTOR, STREAMER, PROXY = "gateway", "collector", "streamer", "proxy"
_LOOPBACK: Final = "127.0.0.1"
_RUNNING_ETCD: Final = "use the etcd that runs there: --queue etcd://"
_NEXUS: Final = (sys.executable, "-m", "nexus")
# The share of the time for stopping after which each must have ended; also the order.
_STOP_BY: Final = {
    STREAMER: 0.36,
    COLLECTOR: 0.76,
    GATEWAY: 0.86,
    PROXY: 0.86,
    BROKER: 0.96,
    ETCD: 0.96,
}


@dataclass(frozen=True, slots=True)
class Feed:
    """A streamer: what it is called, what it sends, and the words for it."""

    name: str
    source: str
    flags: tuple[str, ...]
    about: str


@dataclass(frozen=True)
class Plan:
    """What will run, with every port known."""

    settings: UpSettings
    config: Place | None
    addresses: Mapping[str, Address]

    @cached_property
    def queue(self) -> str:
        own = self.settings.up
        if self.settings.own_broker:
            return f"kafka://{self.addresses[BROKER].reachable}/{TOPIC}"
        if own.queue == OWN_ETCD:
            return self._etcd_url
        return own.queue if own.queue.startswith("kafka://") else str(etcd_address(self.settings))

    @cached_property
    def stores(self) -> tuple[str, ...]:
        """The gateway reads the first."""
        wanted = OWN_ETCD in self.settings.up.stores
        return self.settings.stores(self._etcd_url if wanted else "")

    @cached_property
    def _etcd_url(self) -> str:
        """The etcd that is meant by its name alone: ours, or the one that was named."""
        if ETCD in self.addresses:
            return f"etcd://{self.addresses[ETCD].reachable}"
        return str(replace(etcd_address(self.settings), path="", options=()))

    @property
    def _servers(self) -> tuple[str, ...]:
        """Who must answer before the others are started."""
        return tuple(name for name in (BROKER, ETCD) if name in self.addresses)

    @property
    def dashboard(self) -> str | None:
        found = self.addresses.get(GATEWAY)
        return None if found is None else found.url

    @property
    def proxy_url(self) -> str | None:
        found = self.addresses.get(PROXY)
        return None if found is None else found.url

    @property
    def collector_url(self) -> str | None:
        found = self.addresses.get(COLLECTOR)
        return None if found is None else found.url

    @property
    def rules(self) -> Rules:
        own = self.settings.up
        return Rules(
            restart_s=own.restart_delay_ms / 1000,
            restart_max_s=own.restart_delay_max_ms / 1000,
            steady_s=own.steady_after_ms / 1000,
            stop_s=own.stop_timeout_ms / 1000,
        )

    def programs(self) -> list[Program]:
        """In the order in which they are told of."""
        return list(self._programs())

    def _programs(self) -> Iterator[Program]:
        if BROKER in self.addresses:
            yield self._broker()
        if ETCD in self.addresses:
            yield self._etcd()
        if self.settings.up.collector:
            yield self._collector()
        for feed in feeds(self.settings):
            yield self._streamer(feed)
        if PROXY in self.addresses:
            yield self._proxy()
        if self.settings.up.gateway:
            yield self._gateway()

    def _broker(self) -> Program:
        address, side = self.addresses[BROKER], self.addresses[BROKER_HTTP]
        words = ["--listen", address.listen, "--http", side.listen]
        words += ["--data-dir", str(self.settings.broker_dir)]
        return self._program(BROKER, words, f"{side.url}/health", about=self.queue)

    def _etcd(self) -> Program:
        own = self.settings.up
        address, peers = self.addresses[ETCD], self.addresses[ETCD_PEERS]
        return Program(
            Part(ETCD, (), _STOP_BY[ETCD]),
            etcd_command(
                find_etcd(own.etcd_bin),
                self.settings.etcd_dir,
                address,
                peers,
                own.etcd_quota_bytes,
            ),
            f"{address.url}/health",
            self.settings.log_dir / f"{ETCD}.log",
            self._etcd_url,
            etcd_environment(),
        )

    def _collector(self) -> Program:
        stores = self.stores
        words = [word for store in stores for word in ("--store", store)]
        words += ["--queue", self.queue, "--data-dir", str(self.settings.collector_dir)]
        words += ["--http", self.addresses[COLLECTOR].listen]
        own = self.settings.collector.collector
        words += ["--memory", str(own.memory_bytes)]
        spark = own.master or f"local[{own.cores}]"
        about = f"Spark {spark} to {', '.join(stores)}"
        # Beside the broker and not after it: Spark starts while the broker does. An etcd answers
        # in a moment, and a store in it is the first thing that a collector asks for.
        needs = tuple(name for name in self._servers if name == ETCD)
        probe = f"{self.collector_url}/health"
        return self._program(COLLECTOR, words, probe, needs=needs, about=about)

    def _streamer(self, feed: Feed) -> Program:
        side = self.addresses[feed.name]
        words = ["--source", feed.source, "--queue", self.queue, *feed.flags]
        words += ["--state-dir", str(self.settings.streamer_dir), "--http", side.listen]
        return self._program(
            STREAMER,
            words,
            f"{side.url}/health",
            name=feed.name,
            needs=self._servers,
            about=feed.about,
        )

    def _gateway(self) -> Program:
        address = self.addresses[GATEWAY]
        words = ["--store", self.stores[0], "--queue", self.queue]
        words += ["--host", address.host, "--port", str(address.port)]
        if self.collector_url is not None:
            words += ["--collector-url", self.collector_url]
        return self._program(
            GATEWAY, words, f"{address.url}/ready", needs=self._servers, about=address.url
        )

    def _proxy(self) -> Program:
        address = self.addresses[PROXY]
        brokers = self.queue.removeprefix("kafka://").partition("/")[0]
        words = ["--brokers", brokers, "--host", address.host, "--port", str(address.port)]
        return self._program(
            PROXY, words, f"{address.url}/ready", needs=self._servers, about=address.url
        )

    def _program(
        self,
        command: str,
        words: list[str],
        probe: str,
        *,
        name: str = "",
        needs: tuple[str, ...] = (),
        about: str = "",
    ) -> Program:
        called = name or command
        config = () if self.config is None else ("--config", str(self.config))
        return Program(
            Part(called, needs, _STOP_BY[command], may_end=command == STREAMER),
            (*_NEXUS, command, *config, *words),
            probe,
            self.settings.log_dir / f"{called}.log",
            about,
        )


def make_plan(settings: UpSettings, config: Place | None) -> Plan:
    """PortTaken if a port that is needed belongs to somebody else; NoEtcd if there is none."""
    if settings.own_etcd:
        find_etcd(settings.up.etcd_bin)
    wanted = addresses_of(settings)
    found = claimed(list(wanted.values()))
    return Plan(settings, config, dict(zip(wanted, found, strict=True)))


def addresses_of(settings: UpSettings) -> dict[str, Address]:
    """Where everyone is to listen, by name."""
    return dict(_addresses(settings))


def etcd_address(settings: UpSettings) -> EtcdAddress:
    """Where an etcd is that we do not start: the queue's, or the one of the environment."""
    # Its package loads gRPC, which a start without etcd has no use for.
    from nexus.etcd.address import parse_etcd_address  # noqa: PLC0415

    own = settings.up
    queue = own.queue if own.queue.startswith("etcd://") else "etcd://"
    return parse_etcd_address(queue, {"ETCD_ENDPOINTS": own.etcd_endpoints or ""})


def feeds(settings: UpSettings) -> list[Feed]:
    """The user's sources; without any, the recording in a loop and a simulated fleet."""
    own = settings.streamer.streamer
    sources = settings.up.sources or tuple(filter(None, [own.source]))
    if not sources:
        return [
            Feed("streamer-recording", "recording://", ("--loop",), "an H200's recording, looped"),
            Feed("streamer-fleet", settings.up.fleet, ("--interval", "1s"), settings.up.fleet),
        ]
    loop = ("--loop",) if own.loop else ()
    if len(sources) == 1:
        return [Feed(STREAMER, sources[0], loop, sources[0])]
    return [Feed(f"{STREAMER}-{n}", url, loop, url) for n, url in enumerate(sources, 1)]


def _addresses(settings: UpSettings) -> Iterator[tuple[str, Address]]:
    if settings.own_broker:
        own = settings.broker.broker
        yield BROKER, Address("the broker", own.host, own.port, "--broker-port")
        side = Address("the broker's side port", own.http_host, own.http_port, "--broker-http-port")
        yield BROKER_HTTP, side
    if settings.own_etcd:
        port = settings.up.etcd_port
        yield ETCD, Address("etcd", _LOOPBACK, port, "--etcd-port", instead=_RUNNING_ETCD)
        yield ETCD_PEERS, Address("etcd's peers", _LOOPBACK, 0, "--etcd-port")
    if settings.up.collector:
        spark = settings.collector.collector
        side = Address("the collector", spark.http_host, spark.http_port, "--collector-port")
        yield COLLECTOR, side
    if settings.up.gateway:
        web = settings.gateway.gateway
        yield GATEWAY, Address("the dashboard", web.host, web.port, "--port")
    if settings.up.proxy:
        host = settings.proxy.proxy.host
        yield PROXY, Address("the proxy", host, settings.up.proxy_port, "--proxy-port")
    streamer = settings.streamer.streamer
    for number, feed in enumerate(feeds(settings)):
        # The first has the port that is known for uploads, the others any.
        port = streamer.http_port if number == 0 else 0
        yield feed.name, Address(feed.name, streamer.http_host, port, "--streamer-port")
