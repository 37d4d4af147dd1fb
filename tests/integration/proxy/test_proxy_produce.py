"""Messages over HTTP to one broker: written once, as safe as asked, the answer says where."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from nexus.queue.partitioners import murmur2
from support.broker import BrokerProcess
from support.confluent import values_in
from support.needs import need_program
from support.proxies import Proxies, ProxyProcess
from support.waiting import wait_until

pytestmark = pytest.mark.timeout(240)


def everything(broker: BrokerProcess, topic: str, partitions: int = 12) -> list[bytes | None]:
    return [v for n in range(partitions) for v in values_in(broker.bootstrap, topic, n)]


def test_a_message_is_where_the_answer_says(broker: BrokerProcess, proxy: ProxyProcess) -> None:
    written = proxy.produce("where", {"a": 1}, key="gpu-7")
    assert written["partition"] == murmur2(b"gpu-7") % 12
    assert written["id"] == f"{written['partition']}-{written['offset']}"
    assert values_in(broker.bootstrap, "where", written["partition"]) == [b'{"a":1}']


def test_curl_needs_no_more_than_a_line(broker: BrokerProcess, proxy: ProxyProcess) -> None:
    words = [need_program("curl"), "-sS", "-d", '{"payload": "hello"}']
    said = subprocess.run(
        [*words, f"{proxy.url}/produce?topic=curled"], capture_output=True, text=True, check=True
    )
    assert '"offset":0' in said.stdout
    assert everything(broker, "curled") == [b'"hello"']


def test_raw_bytes_arrive_as_they_were(broker: BrokerProcess, proxy: ProxyProcess) -> None:
    answer = proxy.post(
        "/produce?topic=raw&partition=2", content=b"\x00\xff", headers={"content-type": "a/b"}
    )
    assert answer.json()["partition"] == 2
    assert values_in(broker.bootstrap, "raw", 2) == [b"\x00\xff"]


def test_concurrent_single_messages_are_all_written_once(
    broker: BrokerProcess, proxy: ProxyProcess
) -> None:
    before = broker.metric("nexus_broker_request_seconds_count", api="produce")
    connections = broker.metric("nexus_broker_connections_accepted_total")
    with httpx.Client(base_url=proxy.url, timeout=60) as client, ThreadPoolExecutor(16) as pool:

        def send(number: int) -> str:
            answer = client.post("/produce?topic=many", json={"payload": number})
            assert answer.status_code == 200, answer.text
            return str(answer.json()["id"])

        ids = list(pool.map(send, range(400)))
    assert len(set(ids)) == 400
    # They share connections, and those that waited together went in one request.
    assert broker.metric("nexus_broker_connections_accepted_total") - connections < 10
    assert 0 < broker.metric("nexus_broker_request_seconds_count", api="produce") - before < 400
    assert sorted(int(v or b"") for v in everything(broker, "many")) == list(range(400))


@pytest.mark.parametrize("kind", ["application/json", "application/x-ndjson"])
def test_a_batch_keeps_the_order_of_each_key(
    broker: BrokerProcess, proxy: ProxyProcess, kind: str
) -> None:
    topic = "batch-" + kind.rpartition("/")[2]
    items = [f'{{"payload":{n},"key":"k{n % 5}"}}' for n in range(5000)]
    body = f"[{','.join(items)}]" if kind.endswith("/json") else "\n".join(items)
    answer = proxy.post(
        f"/produce/batch?topic={topic}", content=body, headers={"content-type": kind}
    )
    assert answer.status_code == 200, answer.text
    assert len(set(answer.json()["ids"])) == 5000
    for partition in range(12):
        found = [int(v or b"") for v in values_in(broker.bootstrap, topic, partition)]
        for residue in range(5):
            mine = [n for n in found if n % 5 == residue]
            assert mine == sorted(mine)
    assert len(everything(broker, topic)) == 5000


def test_a_batch_larger_than_one_of_the_brokers_is_divided(
    broker: BrokerProcess, proxy: ProxyProcess
) -> None:
    items = [{"payload": "x" * 100_000, "partition": 1} for _ in range(40)]
    answer = proxy.post("/produce/batch?topic=large", json=items)
    assert answer.status_code == 200, answer.text
    assert answer.json()["ids"] == [f"1-{n}" for n in range(40)]


@pytest.mark.parametrize(("acks", "status"), [("all", 200), ("1", 200), ("0", 202)])
def test_acks_say_how_safe_a_message_must_be(
    broker: BrokerProcess, proxy: ProxyProcess, acks: str, status: int
) -> None:
    topic = f"acks-{acks}"
    answer = proxy.post(f"/produce?topic={topic}&acks={acks}", json={"payload": 1})
    assert answer.status_code == status
    assert (answer.json()["id"] is None) == (acks == "0")
    wait_until(lambda: everything(broker, topic) == [b"1"], what="the message")


def test_a_key_makes_a_retry_safe_at_any_instance_and_after_a_restart(
    broker: BrokerProcess, proxies: Proxies
) -> None:
    one, two = proxies

    def send(proxy: ProxyProcess, **more: Any) -> httpx.Response:
        return proxy.post(
            "/produce?topic=once", json={"payload": 1}, headers={"Idempotency-Key": "a"}, **more
        )

    first = send(one).json()
    assert send(one).json() == first
    assert send(two).json() == first
    one.kill()  # without a word, as a crash
    one.start()
    assert send(one).json() == first
    broker.kill()
    broker.start()
    again = wait_until(lambda: _written(send(two)), within=30, what="the broker back")
    assert again == first
    assert everything(broker, "once") == [b"1"]


def _written(answer: httpx.Response) -> Any:
    return answer.json() if answer.status_code == 200 else None


def test_a_retry_finds_what_a_proxy_wrote_that_was_killed_in_mid_request(
    broker: BrokerProcess, proxies: Proxies, tmp_path: Path
) -> None:
    third = ProxyProcess(tmp_path / "third", broker.bootstrap).start()
    third.produce("mid", 0, partition=0)
    body, headers = {"payload": 1}, {"Idempotency-Key": "mid"}
    with ThreadPoolExecutor(1) as pool, broker.paused():
        asked = pool.submit(
            third.post, "/produce?topic=mid&partition=0", json=body, headers=headers
        )
        # The request is with the broker, which answers when it is awake: to nobody.
        wait_until(lambda: _in_flight(third), within=30, what="the request to be sent")
        third.kill()
        with pytest.raises(httpx.HTTPError):
            asked.result()
    retries = [
        proxy.post("/produce?topic=mid&partition=0", json=body, headers=headers).json()
        for proxy in proxies
    ]
    assert [retry["id"] for retry in retries] == ["0-1", "0-1"]
    assert values_in(broker.bootstrap, "mid", 0) == [b"0", b"1"]


def _in_flight(proxy: ProxyProcess) -> bool:
    return any(one["in_flight"] for one in proxy.get("/status").json()["brokers"])


def test_a_queue_that_is_deep_enough_answers_429(proxies: Proxies) -> None:
    one, two = proxies
    configs = {"queue.max.depth": "3"}
    wanted = {"name": "deep", "partitions": 1, "configs": configs}
    assert one.post("/topics", json=wanted).status_code == 201
    params = {"topic": "deep", "group": "g"}
    for number in range(3):
        one.produce("deep", number)
    held = wait_until(
        lambda: one.get("/poll", params={**params, "wait": "1s"}).json()["messages"], within=20
    )
    for path, body in (("/produce", {"payload": 3}), ("/produce/batch", [{"payload": 3}])):
        full = two.post(path, params={"topic": "deep"}, json=body)
        assert (full.status_code, full.json()["type"]) == (429, "urn:nexus:problem:queue-full")
        assert full.headers["retry-after"]
    assert two.post("/ack", params=params, json={"id": held[0]["id"]}).is_success
    one.produce("deep", 3)


def test_a_batch_with_a_key_is_written_once(broker: BrokerProcess, proxies: Proxies) -> None:
    items = [{"payload": n, "key": f"k{n}"} for n in range(300)]
    answers = [
        proxy.post("/produce/batch?topic=once-b", json=items, headers={"Idempotency-Key": "b"})
        for proxy in (*proxies, *proxies)
    ]
    assert len({str(answer.json()) for answer in answers}) == 1
    assert len(everything(broker, "once-b")) == 300


def test_a_key_that_comes_with_another_message_is_refused(proxy: ProxyProcess) -> None:
    headers = {"Idempotency-Key": "c"}
    assert proxy.post("/produce?topic=o", json={"payload": 1}, headers=headers).is_success
    other = proxy.post("/produce?topic=o", json={"payload": 2}, headers=headers)
    assert (other.status_code, other.json()["type"]) == (422, "urn:nexus:problem:other-body")


def test_topics_can_be_made_with_what_they_need(proxy: ProxyProcess) -> None:
    wanted = {"name": "made", "partitions": 3, "configs": {"retention.ms": "60000"}}
    answer = proxy.post("/topics", json=wanted)
    assert (answer.status_code, answer.json()["partitions"]) == (201, 3)
    assert proxy.post("/topics", json=wanted).status_code == 409
    assert "made" in [topic["name"] for topic in proxy.get("/topics").json()["topics"]]
    bad = proxy.post("/topics", json={"name": "bad", "configs": {"what": "1"}})
    assert bad.status_code == 400


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/produce", 400),
        ("/produce?topic=a/b", 400),
        ("/produce?topic=..", 400),
        ("/produce?topic=t&partition=99", 400),
        ("/produce?topic=t&acks=2", 400),
        ("/produce?topic=__consumer_offsets", 422),
        ("/nothing", 404),
        ("/status", 405),
    ],
)
def test_what_is_wrong_is_a_problem_document(proxy: ProxyProcess, path: str, status: int) -> None:
    answer = proxy.post(path, json={"payload": 1})
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == status


def test_a_body_that_is_too_large_is_refused_before_it_is_read(proxy: ProxyProcess) -> None:
    def without_length() -> Iterator[bytes]:
        for _ in range(20):
            yield b" " * (1 << 20)

    assert proxy.post("/produce?topic=t", content=b" " * (17 << 20)).status_code == 413
    assert proxy.post("/produce?topic=t", content=without_length()).status_code == 413


def test_a_message_larger_than_the_topic_takes_is_refused_alone(proxy: ProxyProcess) -> None:
    large = proxy.post("/produce?topic=t&partition=0", json={"payload": "x" * 2_000_000})
    assert large.status_code == 413, large.text
    proxy.produce("t", 1, partition=0)


def test_pages_of_other_sites_are_refused(proxy: ProxyProcess) -> None:
    answer = proxy.post(
        "/produce?topic=t", json={"payload": 1}, headers={"Origin": "http://elsewhere.example"}
    )
    assert answer.status_code == 403
    same = proxy.post("/produce?topic=t", json={"payload": 1}, headers={"Origin": proxy.url})
    assert same.status_code == 200


def test_without_a_broker_it_says_so_and_when_to_come_again(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "broker")
    proxy = ProxyProcess(tmp_path / "proxy", broker.bootstrap)
    try:
        proxy.start()
        answer = proxy.post("/produce?topic=t", json={"payload": 1})
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "1"
        assert "no broker answers" in answer.json()["detail"]
        assert proxy.get("/ready").status_code == 503
        assert proxy.get("/health").status_code == 200
        broker.start()
        wait_until(lambda: proxy.get("/ready").is_success, within=30, what="the proxy ready")
        proxy.produce("t", 1)
    finally:
        proxy.stop()
        broker.kill()


def test_over_a_restart_of_the_only_broker_every_answer_is_true(
    broker: BrokerProcess, proxies: Proxies
) -> None:
    proxy = proxies[1]
    stopping = threading.Event()
    statuses: list[int] = []

    def send() -> None:
        with httpx.Client(base_url=proxy.url, timeout=60) as client:
            while not stopping.is_set():
                answer = client.post("/produce?topic=restart", json={"payload": 1})
                statuses.append(answer.status_code)

    with ThreadPoolExecutor(4) as pool:
        sending = [pool.submit(send) for _ in range(4)]
        wait_until(lambda: statuses.count(200) > 20, within=60, what="messages to flow")
        broker.restart()
        so_far = statuses.count(200)
        wait_until(lambda: statuses.count(200) > so_far + 20, within=60, what="them to go on")
        stopping.set()
        for one in sending:
            one.result()
    # With no other broker to wait for, some are told to come again: those were not written.
    assert set(statuses) <= {200, 503}
    assert len(everything(broker, "restart")) == statuses.count(200)
