"""Hosts of a test's own lose what they are told to lose, and nothing else."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from support.netns import Network

ARRIVES_SECONDS = 10.0
LOST_SECONDS = 0.3
PORT = 9000


@pytest.fixture
def network() -> Iterator[Network]:
    with Network(["a", "b", "c"]) as made:
        yield made


@pytest.fixture
def doors(network: Network) -> Iterator[dict[str, socket.socket]]:
    """A socket on every host."""
    made = {}
    for host, address in network.hosts.items():
        with network.inside(host):
            made[host] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made[host].bind((address, PORT))
    yield made
    for door in made.values():
        door.close()


def arrives(
    network: Network, doors: dict[str, socket.socket], way: str, within: float = ARRIVES_SECONDS
) -> bool:
    source, target = way.split(" to ")
    doors[target].settimeout(within)
    doors[source].sendto(way.encode(), (network.hosts[target], PORT))
    try:
        return doors[target].recv(100) == way.encode()
    except TimeoutError:
        return False


def is_lost(network: Network, doors: dict[str, socket.socket], way: str) -> bool:
    return not arrives(network, doors, way, within=LOST_SECONDS)


def test_a_cut_goes_one_way_and_heals(network: Network, doors: dict[str, socket.socket]) -> None:
    assert arrives(network, doors, "a to b")
    network.cut(["a"], ["b"])
    assert is_lost(network, doors, "a to b")
    assert arrives(network, doors, "b to a")
    assert arrives(network, doors, "a to c")
    network.heal()
    assert arrives(network, doors, "a to b")


def test_parted_hosts_do_not_reach_each_other(
    network: Network, doors: dict[str, socket.socket]
) -> None:
    network.part(["a"], ["b", "c"])
    for way in ("a to b", "b to a", "a to c", "c to a"):
        assert is_lost(network, doors, way)
    assert arrives(network, doors, "b to c")
