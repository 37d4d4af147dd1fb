"""/api/v1/clusters: clusters, hosts, and GPUs by their place."""

from __future__ import annotations

from support.gateways import Client

HOSTS = "/api/v1/clusters/c1/hosts"


def test_a_cluster_counts_its_gpus_by_what_they_do(client: Client) -> None:
    found = client.json("/api/v1/clusters")
    assert [row["cluster"] for row in found["data"]] == ["c1", "c2"]
    first = found["data"][0]
    assert {k: first[k] for k in ("hosts", "gpus", "active", "idle_held", "free", "unknown")} == {
        "hosts": 2, "gpus": 4, "active": 1, "idle_held": 1, "free": 1, "unknown": 1
    }  # fmt: skip
    assert first["power_w"] == 300.0
    assert first["last_seen"] == "2025-07-18T12:00:00Z"
    assert client.json("/api/v1/clusters/c1") == first


def test_stats_are_the_same_by_model_and_namespace(client: Client) -> None:
    found = client.json("/api/v1/clusters/c1/stats")
    assert found["gpus"] == 4
    assert {row["model"]: row["gpus"] for row in found["by_model"]} == {
        "NVIDIA H100": 2,
        "NVIDIA H200": 2,
    }
    by_namespace = {row["namespace"]: row["gpus"] for row in found["by_namespace"]}
    assert by_namespace == {"": 2, "team-a": 1, "team-b": 1}


def test_hosts_come_in_pages(client: Client) -> None:
    first = client.json(HOSTS, limit=1)
    assert [row["hostname"] for row in first["data"]] == ["h1"]
    second = client.json(HOSTS, limit=1, cursor=first["next_cursor"])
    assert [row["hostname"] for row in second["data"]] == ["h2"]
    assert second["next_cursor"] is None
    assert client.json(f"{HOSTS}/h2") == second["data"][0]


def test_a_hosts_gpus(client: Client) -> None:
    found = client.json(f"{HOSTS}/h2/gpus")
    assert [gpu["uuid"] for gpu in found["data"]] == ["GPU-00000002-aaaa", "GPU-00000003-aaaa"]


def test_a_gpu_by_index_uuid_or_prefix_on_its_host(client: Client) -> None:
    wanted = client.json("/api/v1/gpus/GPU-00000003-aaaa")
    for given in ("1", "GPU-00000003-aaaa", "GPU-00000003"):
        assert client.json(f"{HOSTS}/h2/gpus/{given}") == wanted
    assert client.problem(f"{HOSTS}/h2/gpus/GPU-0000000")["status"] == 409
    for given in ("7", "GPU-0", "GPU-00000000-aaaa", "11"):
        assert client.problem(f"{HOSTS}/h2/gpus/{given}")["status"] == 404


def test_what_is_not_there_is_not_found(client: Client) -> None:
    for path in (
        "/api/v1/clusters/c9",
        "/api/v1/clusters/c9/stats",
        "/api/v1/clusters/c9/hosts",
        "/api/v1/clusters/c9/metrics",
        "/api/v1/clusters/c1/hosts/h3",
        "/api/v1/clusters/c1/hosts/h3/gpus",
        "/api/v1/clusters/c1/hosts/h3/gpus/0",
    ):
        assert client.problem(path)["status"] == 404


def test_the_metrics_of_a_cluster(client: Client) -> None:
    found = client.json("/api/v1/clusters/c2/metrics")
    assert [(row["metric"], row["unit"], row["series"]) for row in found["data"]] == [
        ("gpu_temperature", "C", 1),
        ("gpu_util", "ratio", 1),
        ("power", "W", 1),
    ]
    assert found["data"][0]["newest"] == "2025-07-18T12:00:00Z"


def test_the_catalogue_says_what_is_collected(client: Client) -> None:
    found = client.json("/api/v1/metrics")
    by_name = {row["name"]: row for row in found["data"]}
    assert by_name["power"]["collected"]
    assert not by_name["sm_active"]["collected"]
    assert {"name": "DCGM_FI_DEV_POWER_USAGE", "unit": "W"} in by_name["power"]["sources"]
    assert list(by_name) == sorted(by_name)
    text = client.get("/api/v1/metrics", {"Accept": "text/csv"}).text
    assert text.startswith("name,unit,kind,description,sources,collected\n")
