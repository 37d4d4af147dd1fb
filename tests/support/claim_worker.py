"""A claim worker in a process of its own: `python -m support.claim_worker URL [PAUSE_S]`.

Stores `{prefix}.results/{name}` for each message, and prints a line when it has joined.
"""

from __future__ import annotations

import sys
import time

from nexus.etcd import Put
from nexus.queue.etcd.claims import ClaimOptions
from nexus.queue.etcd.hands import Claimed
from nexus.queue.etcd.worker import Worker
from nexus.queue.url import EtcdUrl, parse_queue_url

LEASE_S = 2


def main(address: str, pause_s: float) -> None:
    url = parse_queue_url(address)
    assert isinstance(url, EtcdUrl)

    def handle(claimed: Claimed) -> list[Put]:
        time.sleep(pause_s)
        name = claimed.key.rpartition(b"/")[2]
        return [Put(f"{url.prefix}.results/".encode() + name, claimed.value)]

    options = ClaimOptions(lease_s=LEASE_S, max_attempts=1000, retry_s=0.05, workers=2)
    with Worker(url, options) as worker:
        print("joined", flush=True)
        worker.work(handle, batch=20)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 0.0)
