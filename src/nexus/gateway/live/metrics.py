"""What the live stream counts, under names that begin with `nexus_gateway_live_`."""

from __future__ import annotations

from nexus.observe.metrics import Counter, Registry


class LiveMetrics:
    """The counters of one hub."""

    def __init__(self, registry: Registry) -> None:
        def counter(name: str, meaning: str) -> Counter:
            return registry.counter(f"nexus_gateway_live_{name}", meaning).labels()

        self.messages = counter("messages", "Messages of the queue that were looked at.")
        self.undecodable = counter("messages_undecodable", "Messages that hold no readings.")
        self.skipped = counter("messages_skipped", "Messages passed over to keep up, about.")
        self.readings = counter("readings", "Readings that were shown to whom they concern.")
        self.refused = counter("readings_refused", "Readings that no table would take.")
        self.events = counter("events", "Events given to clients.")
        self.bytes = counter("bytes", "Bytes given to clients.")
        self.thinned = counter("thinned", "Times that a client got the newest readings only.")
        self.gaps = counter("gaps", "Gaps that clients were told of.")
        self.replays = counter("replays", "Replays from the queue.")
        self.turned_away = counter("clients_turned_away", "Clients beyond the most there may be.")
