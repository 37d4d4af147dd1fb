"""A small client of the proxy: publish, subscribe, acknowledge."""

from nexus.client.client import Client, Message
from nexus.client.errors import ProxyAway, ProxyRefused

__all__ = ["Client", "Message", "ProxyAway", "ProxyRefused"]
