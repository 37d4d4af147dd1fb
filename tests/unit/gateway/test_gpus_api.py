"""/api/v1/gpus: who there is, what they do, and what an id may be."""

from __future__ import annotations

import pytest

from support.gateways import Client

BUSY, HELD = "GPU-00000000-aaaa", "GPU-00000001-aaaa"
FREE, SILENT = "GPU-00000002-aaaa", "GPU-00000003-aaaa"
SLICED = "GPU-00000010-aaaa"


def uuids(client: Client, **params: object) -> list[str]:
    return [gpu["uuid"] for gpu in client.json("/api/v1/gpus", **params)["data"]]


def test_a_gpu_says_who_it_is_and_what_it_does(client: Client) -> None:
    found = client.json("/api/v1/gpus", limit=1)["data"][0]
    assert found == {
        "uuid": BUSY,
        "gpu": "0",
        "device": "nvidia0",
        "model": "NVIDIA H200",
        "hostname": "h1",
        "cluster": "c1",
        "namespace": "team-a",
        "pod": "train-0",
        "container": "main",
        "mig": "",
        "state": "active",
        "last_seen": "2025-07-18T12:00:00Z",
        "first_seen": "2025-07-18T11:00:00Z",
        "busy": 0.9,
    }


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, [BUSY, HELD, FREE, SILENT, SLICED, SLICED]),
        ({"cluster": "c2"}, [SLICED, SLICED]),
        ({"host": "h1"}, [BUSY, HELD]),
        ({"hostname": "h1,h2", "gpu": "0"}, [BUSY, FREE]),
        ({"hostname": ["h1", "h2"], "gpu": "1"}, [HELD, SILENT]),
        ({"hostname": "h1", "host": "h2"}, [BUSY, HELD, FREE, SILENT]),
        ({"model": "NVIDIA H100"}, [FREE, SILENT, SLICED, SLICED]),
        ({"namespace": "team-a"}, [BUSY]),
        ({"pod": "idle-0"}, [HELD]),
        ({"state": "active"}, [BUSY, SLICED]),
        ({"state": "idle-held"}, [HELD]),
        ({"state": "free"}, [FREE]),
        ({"state": ["free", "idle-held"]}, [HELD, FREE]),
        ({"uuid": f"{FREE},{HELD}"}, [HELD, FREE]),
        ({"uuid": "GPU-00000002"}, [FREE]),
        ({"uuid": "GPU-0"}, []),  # too short for a prefix
        ({"uuid": "00000002"}, []),  # never a substring
        ({"host": "h"}, []),
        ({"host": "nobody"}, []),
        ({"namespace": "\\"}, [FREE, SILENT, SLICED, SLICED]),  # in none
        ({"namespace": ["\\", "team-a"], "cluster": "c1"}, [BUSY, FREE, SILENT]),
        ({"host": r"h1\,h2"}, []),  # one host
        ({"namespace": ""}, [BUSY, HELD, FREE, SILENT, SLICED, SLICED]),
    ],
)
def test_filters_leave_what_fits(
    client: Client, params: dict[str, object], expected: list[str]
) -> None:
    assert uuids(client, **params) == expected


def test_a_gpu_that_was_silent_for_long_is_unknown(client: Client) -> None:
    states = {g["uuid"]: g["state"] for g in client.json("/api/v1/gpus")["data"]}
    assert states[SILENT] == "unknown"


def test_pages_give_every_gpu_once(client: Client) -> None:
    seen: list[tuple[str, str]] = []
    cursor: str | None = ""
    while cursor is not None:
        page = client.json("/api/v1/gpus", limit=2, cursor=cursor)
        assert page["count"] == len(page["data"]) <= 2
        seen += [(gpu["uuid"], gpu["mig"]) for gpu in page["data"]]
        cursor = page["next_cursor"]
    assert seen == [
        (BUSY, ""), (HELD, ""), (FREE, ""), (SILENT, ""), (SLICED, "1"), (SLICED, "2")
    ]  # fmt: skip


def test_a_page_names_the_address_of_the_next(client: Client) -> None:
    response = client.get("/api/v1/gpus?limit=5&host=h1,h2,h3")
    assert response.headers["nexus-next-cursor"] == response.json()["next_cursor"]
    link = response.headers["link"]
    assert link.endswith('>; rel="next"')
    following = client.get(link.removeprefix("<").partition(">")[0])
    assert [gpu["mig"] for gpu in following.json()["data"]] == ["2"]
    assert "link" not in following.headers


def test_a_pod_that_is_long_gone_is_not_among_a_gpus_last_readings(client: Client) -> None:
    found = client.json(f"/api/v1/gpus/{HELD}")
    assert {reading["pod"] for reading in found["latest"]} == {"idle-0"}
    every = client.json("/api/v1/telemetry/latest", uuid=HELD)["data"]
    assert {reading["pod"] for reading in every} == {"idle-0", "gone-0"}


def test_one_gpu_has_its_labels_and_last_readings(client: Client) -> None:
    found = client.json(f"/api/v1/gpus/{BUSY}")
    assert (found["uuid"], found["state"], found["labels"]) == (BUSY, "active", {"rack": "r 7"})
    assert found["migs"] == []
    latest = {reading["metric"]: reading["value"] for reading in found["latest"]}
    assert latest == {"gpu_util": 0.9, "power": 100.0}


def test_a_sliced_gpu_has_its_slices_beside_it(client: Client) -> None:
    found = client.json(f"/api/v1/gpus/{SLICED}")
    assert [gpu["mig"] for gpu in found["migs"]] == ["1", "2"]
    by_slice = {(r["mig"], r["metric"]): r["value"] for r in found["latest"]}
    assert by_slice[("2", "gpu_temperature")] is None
    assert by_slice[("1", "gpu_util")] == 0.5


def test_an_id_is_exact_or_a_unique_prefix(client: Client) -> None:
    assert client.json("/api/v1/gpus/GPU-00000002")["uuid"] == FREE
    several = client.problem("/api/v1/gpus/GPU-0000000")
    assert several["status"] == 409
    assert BUSY in several["detail"]
    assert HELD in several["detail"]
    short = client.problem("/api/v1/gpus/GPU-000")
    assert short["status"] == 404
    assert "at least 8 characters" in short["detail"]
    assert client.problem("/api/v1/gpus/0000002-aaaa")["status"] == 404
    assert client.problem("/api/v1/gpus/" + "x" * 300)["status"] == 404


def test_a_prefix_of_several_is_refused_as_a_filter_too(client: Client) -> None:
    found = client.problem("/api/v1/gpus", uuid="GPU-0000000")
    assert found["status"] == 400
    assert found["errors"][0]["parameter"] == "uuid"
    assert BUSY in found["detail"]
