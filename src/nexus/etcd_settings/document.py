"""The YAML document of all parts in one key of etcd: `etcd://host:port/telemetry/config`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from nexus.etcd.address import EtcdAddress, parse_etcd_address
from nexus.etcd.blocking import BlockingClient
from nexus.etcd.errors import EtcdError
from nexus.etcd.results import KeyValue
from nexus.etcd_settings.errors import SettingsAway
from nexus.settings.errors import SettingsError
from nexus.settings.place import Document

DEFAULT_KEY: Final = "/telemetry/config"


@dataclass(frozen=True, slots=True)
class SettingsKey:
    """Where the document is, and how messages call it."""

    address: EtcdAddress

    @property
    def key(self) -> bytes:
        return self.address.path.encode()

    def __str__(self) -> str:
        return f"etcd://{','.join(self.address.endpoints)}{self.address.path}"

    def document(self, found: KeyValue) -> Document:
        """The key's value; SettingsError when it is no text."""
        try:
            return Document(str(self), found.value.decode())
        except UnicodeDecodeError:
            raise SettingsError(f"{self}: is not UTF-8 text") from None


def parse_settings_key(place: str) -> SettingsKey:
    """The key that an address names; SettingsError says what would be right."""
    try:
        address = parse_etcd_address(place)
    except EtcdError as error:
        raise SettingsError(f"--config {error}") from None
    if address.options:
        raise SettingsError(f"--config {place}: unknown option {address.options[0][0]}")
    return SettingsKey(replace(address, path=address.path or DEFAULT_KEY))


def read_settings(place: str, timeout_s: float = 10.0) -> Document:
    """The document that lies there now; SettingsError when none does, SettingsAway without etcd."""
    key = parse_settings_key(place)
    try:
        config = replace(key.address.config(), timeout_s=timeout_s)
        with BlockingClient(config) as client:
            found = client.get(key.key)
    except EtcdError as error:
        raise SettingsAway(f"{key}: the settings cannot be read: {error}") from None
    if found is None:
        raise SettingsError(
            f"{key}: there is no such key; put the settings there with:"
            f" etcdctl put {key.address.path} < nexus.yaml"
        )
    return key.document(found)
