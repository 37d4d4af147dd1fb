"""Our own client: publishes at whichever proxy answers, takes messages, acknowledges them."""

from __future__ import annotations

from itertools import islice

from nexus.client import Client
from support.proxies import Proxies
from support.taking import take_all


def test_a_client_goes_on_when_one_of_its_proxies_dies(proxies: Proxies) -> None:
    one, two = proxies
    with Client(one.url, two.url) as client:
        ids = [client.publish("clients", 0, key="k")]
        ids += client.publish_many("clients", [{"payload": n, "key": "k"} for n in (1, 2)])
        one.kill()
        try:
            ids += [client.publish("clients", n, key="k") for n in (3, 4)]
            stream = client.subscribe("clients", "g", max_in_flight=5)
            taken = list(islice(stream, 5))
            client.ack(*taken[:3])
            client.nack(taken[3], dead=True)
            client.nack(taken[4])
        finally:
            one.start()
        assert [message.payload for message in taken] == list(range(5))
        assert ids == [f"{message.partition}-{message.offset}" for message in taken]
        again = next(stream)
        assert (again.payload, again.attempt) == (4, 2)
        client.ack(again)
        client.ack(*taken)  # what is not held any more is left out
    (dead,) = take_all(two, "clients.dlq", 1)
    assert dead["payload"] == 3
