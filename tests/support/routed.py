"""Three brokers whose clients need to reach only one of them."""

from __future__ import annotations

from dataclasses import dataclass

from support.broker import BrokerProcess
from support.cluster import BrokerCluster


@dataclass
class RoutedCluster(BrokerCluster):
    """A cluster of which the brokers in `proxies` go to the leaders for their clients."""

    proxies: frozenset[int] = frozenset({1})

    def make(self, node: int) -> BrokerProcess:
        broker = super().make(node)
        if node in self.proxies:
            own = f"broker: {{id: {node}"
            assert own in broker.settings
            broker.settings = broker.settings.replace(own, f"{own}, routing: proxy")
        return broker
