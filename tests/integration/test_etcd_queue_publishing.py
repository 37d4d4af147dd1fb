"""Publishing to a real etcd: keys that people can read, atomic, in order, exactly once."""

from __future__ import annotations

import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest

from nexus.etcd import Get, Keys, LeaseNotFound, Login
from nexus.etcd.blocking import BlockingClient
from nexus.queue.errors import QueueAway, QueueError, QueueFull
from nexus.queue.etcd import leases
from nexus.queue.etcd.counts import Count, fold
from nexus.queue.etcd.forms import unpack
from nexus.queue.etcd.layout import Slot, readings_in
from nexus.queue.etcd.slots import known_slots, partitions_of
from nexus.queue.port import Message
from nexus.queue.publishing import PublisherOptions
from support.etcd import EtcdMember
from support.etcd_publishing import PARTITIONS, Contents, Sender, etcd_url, numbered
from support.needs import need_program
from support.ports import free_port
from support.waiting import wait_until

SLOTS = [Slot("c1", partition) for partition in range(PARTITIONS)]
Make = Callable[..., Sender]


@pytest.fixture(scope="module")
def member(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdMember]:
    etcd = EtcdMember(tmp_path_factory.mktemp("etcd")).start()
    yield etcd
    etcd.kill()


@pytest.fixture(scope="module")
def etcd(member: EtcdMember) -> Iterator[BlockingClient]:
    with BlockingClient(member.config()) as client:
        yield client


@pytest.fixture
def make(member: EtcdMember, name: str) -> Iterator[Make]:
    """Publishers to the test's own queue: `make("form=packed", batch_messages=10)`."""
    made: list[Sender] = []

    def one(query: str = "", **options: object) -> Sender:
        url = etcd_url(f"etcd://{member.endpoint}/{name}/q?{query}")
        chosen = PublisherOptions(partitions=PARTITIONS, cluster="c1", **options)  # type: ignore[arg-type]
        made.append(Sender(url, chosen))
        return made[-1]

    yield one
    for each in made:
        each.publisher.close()


@pytest.fixture
def queue(etcd: BlockingClient, name: str) -> Contents:
    return Contents(etcd, etcd_url(f"etcd://h:1/{name}/q").layout)


def send(sender: Sender, count: int) -> None:
    """One batch, acknowledged."""
    sender.send(range(count))
    assert sender.wait(1) == [None]


def test_a_json_message_is_a_key_that_people_can_read(
    make: Make, queue: Contents, member: EtcdMember
) -> None:
    send(make(), 2)
    words = [need_program("etcdctl"), "--endpoints", member.endpoint, "get", "--prefix"]
    shown = subprocess.run(
        [*words, queue.layout.slot(SLOTS[1]).start.decode()],
        env={"ETCDCTL_API": "3"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\n")
    timestamp, host, gpu, sequence = shown[0].rpartition("/")[2].split("_")
    assert (len(timestamp), host, gpu, len(sequence)) == (19, "h0", "1", 10)
    assert orjson.loads(shown[1])["n"] == 1


@pytest.mark.parametrize("form", ["json", "packed"])
def test_each_partition_holds_its_messages_once_and_in_order(
    make: Make, queue: Contents, form: str
) -> None:
    sender = make(f"form={form}")
    for start in range(0, 3000, 300):
        sender.send(range(start, start + 300))
    assert sender.publisher.flush(20) == 0
    for slot in SLOTS:
        assert queue.numbers(slot) == list(range(slot.partition, 3000, PARTITIONS))


def test_packed_values_say_in_their_keys_how_many_readings_they_hold(
    make: Make, queue: Contents
) -> None:
    send(make("form=packed"), 1000)
    items = queue.items()
    assert len(items) < 20
    assert [readings_in(item.key) for item in items] == [len(unpack(i.value)) for i in items]
    assert sorted(queue.numbers()) == list(range(1000))


def test_what_is_not_json_is_packed_with_its_headers(make: Make, queue: Contents) -> None:
    headers = (("content-type", b"application/vnd.apache.arrow.stream"), ("count", b"500"))
    done = threading.Event()
    arrow = Message(b"\x00arrow", None, headers, 1234, 1)
    make().publisher.publish([*numbered([1]), arrow, *numbered([5])], lambda _: done.set())
    assert done.wait(10)
    first, second, third = queue.items(SLOTS[1])
    assert [orjson.loads(item.value)["n"] for item in (first, third)] == [1, 5]
    (frame,) = unpack(second.value)
    assert (frame.value, frame.headers, frame.timestamp_ms) == (b"\x00arrow", headers, 1234)
    assert readings_in(second.key) == 500
    assert queue.totals().published == Count(3, 502)


def test_a_transaction_holds_as_many_messages_as_told_and_as_the_server_takes(
    make: Make, queue: Contents
) -> None:
    send(make(batch_messages=50), 200)
    send(make(batch_messages=10_000), 1000)
    sizes = Counter(item.mod_revision for item in queue.items())
    assert max(sizes.values()) == 127  # and the bell
    assert sorted(sizes.values())[:4] == [50, 50, 50, 50]


def test_transactions_stay_small_since_etcd_keeps_thousands_in_memory(
    make: Make, queue: Contents
) -> None:
    sender = make("form=packed")
    sender.send(range(600), size=2000)
    assert sender.wait(1) == [None]
    sizes: Counter[int] = Counter()
    for item in queue.items():
        sizes[item.mod_revision] += len(item.value)
    assert 128 << 10 < max(sizes.values()) <= 256 << 10


def test_each_transaction_rings_its_bell(make: Make, queue: Contents) -> None:
    send(make(), 300)
    bells = [orjson.loads(i.value) for i in queue.etcd.range(_bells(queue)).items]
    revisions = {item.mod_revision for item in queue.items()}
    assert sum(bell["transaction"] for bell in bells) == len(revisions)
    assert queue.totals()[1:] == (Count(300, 300), Count(), 300)


def test_a_queue_keeps_the_partitions_it_was_made_with(make: Make, queue: Contents) -> None:
    send(make("partitions=2"), 8)
    second = make("partitions=7")
    wait_until(lambda: second.publisher.stats.problem == "")
    assert second.publisher.partitions() == 2
    assert queue.etcd.run(lambda c: partitions_of(c, queue.layout)) == 2
    assert queue.etcd.run(lambda c: known_slots(c, queue.layout)) == tuple(SLOTS[:2])


def test_dead_letters_go_beside_the_queue_with_what_is_said_of_them(
    make: Make, queue: Contents
) -> None:
    done = threading.Event()
    letter = Message(b"bad,row", None, (("reason", b"no value"),), dead=True)
    make().publisher.publish([letter], lambda _: done.set())
    assert done.wait(10)
    (item,) = [i for page in queue.etcd.scan(queue.layout.dead_letters) for i in page.items]
    (frame,) = unpack(item.value)
    assert (frame.value, frame.headers) == (b"bad,row", letter.headers)
    assert queue.items() == []
    assert queue.totals().published == Count()


def test_a_message_too_large_for_the_server_is_refused_and_the_others_go_on(
    make: Make, queue: Contents
) -> None:
    sender = make()
    sender.send([0], size=2_000_000)
    sender.send([4])
    refused, held = sender.wait(2)
    assert "too large" in str(refused)
    assert held is None
    assert queue.numbers() == [4]


def test_messages_expire_after_their_time_and_are_counted(make: Make, queue: Contents) -> None:
    send(make("ttl=1"), 10)
    wait_until(lambda: not queue.items(), within=10, what="expiry")
    totals = queue.totals()
    assert (totals.published.keys, totals.taken.keys, totals.expired) == (10, 0, 10)


def test_leases_rotate_and_are_given_back_when_their_messages_are_taken(
    make: Make, queue: Contents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "KEYS_MOST", 100)
    monkeypatch.setattr(leases, "TIDY_S", 0.05)
    sender = make(batch_messages=50)
    send(sender, 600)
    used = {item.lease for item in queue.items()}
    assert len(used) >= 4
    items = queue.items()
    first, kept = items[0].lease, next(item for item in items if item.lease != items[0].lease)
    for item in items:
        if item.key != kept.key:
            queue.etcd.delete(item.key)
    wait_until(lambda: _is_gone(queue, first), what="a lease given back")
    time.sleep(0.3)
    assert [item.key for item in queue.items()] == [kept.key]  # none that a message hangs on


def test_a_publisher_whose_bells_were_folded_goes_on_and_nothing_counts_twice(
    make: Make, queue: Contents
) -> None:
    sender = make()
    send(sender, 100)
    folded = queue.etcd.run(lambda c: fold(c, queue.layout, now_ms=1 << 50))
    assert folded == PARTITIONS
    sender.send(range(100, 200))
    assert sender.wait(2) == [None, None]
    assert sorted(queue.numbers()) == list(range(200))
    assert queue.totals().published == Count(200, 200)


def test_a_queue_that_was_wiped_is_made_again(make: Make, queue: Contents, name: str) -> None:
    sender = make()
    send(sender, 8)
    queue.etcd.delete(Keys.prefix(f"/{name}/".encode()))
    sender.send(range(8))
    assert sender.wait(2) == [None, None]
    assert sorted(queue.numbers()) == list(range(8))
    assert queue.etcd.run(lambda c: known_slots(c, queue.layout)) == tuple(SLOTS)
    assert queue.etcd.run(lambda c: partitions_of(c, queue.layout)) == PARTITIONS


def test_messages_without_a_partition_go_by_their_key(make: Make, queue: Contents) -> None:
    done = threading.Event()
    messages = [m._replace(partition=None) for m in numbered(range(80))]
    make().publisher.publish(messages, lambda _: done.set())
    assert done.wait(10)
    homes = sorted({(i.key.split(b"_")[2], queue.layout.slot_of_key(i.key)) for i in queue.items()})
    assert len(homes) == 8
    assert len({slot for _, slot in homes}) > 1


def test_more_than_may_be_on_its_way_is_refused_for_now(name: str) -> None:
    url = etcd_url(f"etcd://127.0.0.1:{free_port()}/{name}")
    sender = Sender(url, PublisherOptions(in_flight_bytes=1000))
    try:
        sender.send(range(40))  # one batch of any size
        with pytest.raises(QueueFull, match="bytes are unsent"):
            sender.send(range(40))
        with pytest.raises(QueueAway):
            sender.publisher.partitions()
        assert sender.publisher.flush(0.01) == 40
    finally:
        sender.publisher.close()
    with pytest.raises(QueueError, match="closed"):
        sender.send([1])


def test_messages_of_several_publishers_never_share_a_key(make: Make, queue: Contents) -> None:
    senders = [make() for _ in range(3)]
    for sender in senders:
        sender.send(range(400))
    for sender in senders:
        sender.wait(1)
    assert sorted(queue.numbers()) == sorted([*range(400)] * 3)


def test_a_user_with_rights_on_the_queues_names_only_can_publish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = EtcdMember(tmp_path).start()

    def etcdctl(*words: str) -> None:
        command = [need_program("etcdctl"), "--endpoints", member.endpoint, *words]
        subprocess.run(command, env={"ETCDCTL_API": "3"}, check=True, capture_output=True)

    try:
        for words in (
            "user add root:r",
            "user grant-role root root",
            "role add queue",
            "role grant-permission queue --prefix readwrite /telemetry/queue",
            "user add streamer:secret",
            "user grant-role streamer queue",
            "auth enable",
        ):
            etcdctl(*words.split())
        url = etcd_url(f"etcd://streamer@{member.endpoint}")
        with pytest.raises(QueueError, match="set ETCD_PASSWORD"):
            Sender(url, PublisherOptions())
        monkeypatch.setenv("ETCD_PASSWORD", "secret")
        sender = Sender(url, PublisherOptions())
        send(sender, 100)
        sender.publisher.close()
        with BlockingClient(member.config(login=Login("root", "r"))) as etcd:
            assert sorted(Contents(etcd, url.layout).numbers()) == list(range(100))
    finally:
        member.kill()


def _bells(queue: Contents) -> Get:
    return Get(queue.layout.metas("bells"))


def _is_gone(queue: Contents, lease: int) -> bool:
    try:
        queue.etcd.run(lambda client: client.leases.look(lease))
    except LeaseNotFound:
        return True
    return False
