"""Takes messages from a queue over HTTP, as a client without events does."""

from __future__ import annotations

from typing import Any

from support.proxies import ProxyProcess
from support.waiting import wait_until


def take_all(proxy: ProxyProcess, topic: str, count: int) -> list[dict[str, Any]]:
    """Every message of a topic, each taken once and acknowledged."""
    params = {"topic": topic, "group": "all"}
    taken: list[dict[str, Any]] = []

    def is_done() -> bool:
        answer = proxy.get("/poll", params={**params, "wait": "2s", "max": 1000})
        assert answer.status_code == 200, answer.text
        messages = answer.json()["messages"]
        if messages:
            ids = [message["id"] for message in messages]
            settled = proxy.post("/ack", params=params, json={"ids": ids})
            assert settled.json().get("settled") == ids, settled.text
        taken.extend(messages)
        return len(taken) >= count

    wait_until(is_done, within=60, what=f"all {count} of {topic}")
    assert len({(one["partition"], one["offset"]) for one in taken}) == len(taken) == count
    return taken
