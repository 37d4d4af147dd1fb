"""The exporter source against a real HTTP server that behaves, hangs, fails and lies."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from typing import Any

import pyarrow as pa
import pytest

from nexus.streamer.sources.exporter import ExporterSource, open_exporter
from nexus.streamer.sources.exporter_target import parse_exporter_url
from nexus.streamer.sources.port import Block, SourceOptions
from nexus.telemetry.catalogue import meaning_of
from nexus.telemetry.checks import refusals
from nexus.telemetry.reading import SOURCE_SCHEMA
from support.exporters import UUIDS, Exporters, new_page, old_page
from support.ports import free_port

Row = dict[str, Any]
Enough = Callable[[list[Block]], bool]


@pytest.fixture
def exporters() -> Iterator[Exporters]:
    with Exporters().running() as running:
        yield running


ONE_SCRAPE, QUICK = "interval=1m&timeout=5s", "interval=100ms&timeout=5s"


def source_of(*urls: str, options: str = ONE_SCRAPE) -> ExporterSource:
    return open_exporter(f"exporter://{','.join(urls)}?{options}", SourceOptions())


def collect(source: ExporterSource, enough: Enough, within_s: float = 15) -> list[Block]:
    """Blocks until there are enough."""

    async def taken() -> list[Block]:
        blocks: list[Block] = []
        async with asyncio.timeout(within_s):
            async for block in source.blocks({}):
                blocks.append(block)
                if enough(blocks):
                    await source.close()
        return blocks

    return asyncio.run(taken())


def once(blocks: list[Block]) -> bool:
    return bool(blocks)


def rows(blocks: list[Block]) -> list[Row]:
    return [row for block in blocks for row in block.table.to_pylist()]


def ups(blocks: list[Block]) -> list[tuple[str, float, str | None]]:
    found = []
    for row in rows(blocks):
        if row["source_metric"] == "up":
            labels = json.loads(str(row["labels"]))
            found.append((labels["instance"], row["source_value"], labels.get("error")))
    return found


def seen(value: float, times: int) -> Enough:
    """Whether so many `up` readings have this value."""
    return lambda blocks: sum(up == value for _, up, _ in ups(blocks)) >= times


def test_a_page_becomes_readings_with_names_values_and_labels_as_they_were(
    exporters: Exporters,
) -> None:
    blocks = collect(source_of(exporters.serve("/metrics", old_page())), once)
    table = blocks[0].table
    assert table.column_names == [name for name in SOURCE_SCHEMA.names if name != "ingested"]
    found = {(row["source_metric"], row["gpu"]): row for row in rows(blocks)}
    power = found["DCGM_FI_DEV_POWER_USAGE", "1"]
    del power["timestamp"]
    assert power == {
        "source_metric": "DCGM_FI_DEV_POWER_USAGE",
        "source_value": 118.78,
        "unit": "W",
        "uuid": UUIDS[1],
        "gpu": "1",
        "device": "nvidia1",
        "model": "NVIDIA H100 80GB HBM3",
        "hostname": "dgx-01",
        "cluster": "",
        "mig": "",
        "namespace": "team-a",
        "pod": "llm-1",
        "container": "train",
        "labels": '{"DCGM_FI_DRIVER_VERSION":"535.129.03","pci_bus_id":"00000000:01:00.0"}',
    }


def test_both_generations_mean_the_same_once_their_units_are_stamped(exporters: Exporters) -> None:
    old, new = exporters.serve("/old", old_page()), exporters.serve("/new", new_page())
    blocks = collect(source_of(old, new), seen(1.0, 2))
    values: dict[str, dict[str, float]] = {"dgx-01": {}, "dgx-02": {}}
    for row in rows(blocks):
        meaning = meaning_of(str(row["source_metric"]), str(row["unit"]))
        assert not meaning.problem
        if row["gpu"] == "0" and row["source_metric"] != "up":
            value = float(str(row["source_value"])) * meaning.multiply / meaning.divide
            values[str(row["hostname"])][meaning.metric] = value
    shared = values["dgx-01"].keys() & values["dgx-02"].keys()
    assert len(shared) == 8
    for metric in shared:
        assert values["dgx-01"][metric] == pytest.approx(values["dgx-02"][metric], rel=1e-6), metric


def test_link_metrics_find_their_gpu_by_their_own_labels(exporters: Exporters) -> None:
    blocks = collect(source_of(exporters.serve("/metrics", new_page())), once)
    links = [r for r in rows(blocks) if r["source_metric"] == "DCGM_FI_DEV_NVLINK_CRC_ERROR_TOTAL"]
    assert [(r["uuid"], r["model"], r["labels"]) for r in links] == [
        (UUIDS[0], "NVIDIA H200", '{"nvlink":"0"}'),
        (UUIDS[0], "NVIDIA H200", '{"nvlink":"1"}'),
    ]


def test_what_is_no_gpus_nor_the_hosts_is_counted_and_left_out(exporters: Exporters) -> None:
    body = (
        old_page(gpus=1)
        + 'DCGM_FI_DEV_CPU_UTIL_TOTAL{cpu="0",Hostname="dgx-01"} 0.5\n'
        + 'DCGM_FI_DEV_GPU_TEMP{Hostname="dgx-01"} 40\n'
        + f'DCGM_FI_DEV_MEMORY_TEMP{{gpu="0",UUID="{UUIDS[0]}"}} NaN\n'
    )
    source = source_of(exporters.serve("/metrics", body))
    blocks = collect(source, once)
    assert source.counts["not a GPU metric"] == 2
    assert source.counts["no GPU in its labels"] == 1
    assert source.counts["not a finite number"] == 1
    assert blocks[0].table.num_rows == 1 + 9 + 1
    assert refusals(blocks[0].table, time.time_ns() // 1000).null_count == 11


def test_a_gpu_without_a_uuid_or_hostname_is_known_by_its_index_and_endpoint(
    exporters: Exporters,
) -> None:
    blocks = collect(source_of(exporters.serve("/m", 'DCGM_FI_DEV_GPU_UTIL{gpu="3"} 5\n')), once)
    (row,) = [row for row in rows(blocks) if row["source_metric"] != "up"]
    assert (row["uuid"], row["gpu"], row["hostname"]) == ("", "3", "127.0.0.1")


def test_a_mig_instance_is_told_apart(exporters: Exporters) -> None:
    body = (
        f'DCGM_FI_DEV_FB_USED{{gpu="0",UUID="{UUIDS[0]}",GPU_I_PROFILE="1g.10gb",GPU_I_ID="7"}} 5\n'
    )
    blocks = collect(source_of(exporters.serve("/m", body)), once)
    (row,) = [row for row in rows(blocks) if row["source_metric"] != "up"]
    assert (row["mig"], row["labels"]) == ("7", '{"GPU_I_PROFILE":"1g.10gb"}')


def test_a_sample_keeps_its_own_time_and_the_others_get_the_scrapes(exporters: Exporters) -> None:
    body = 'DCGM_FI_DEV_GPU_UTIL{gpu="0"} 5 1700000000123\nDCGM_FI_DEV_GPU_TEMP{gpu="0"} 40\n'
    table = collect(source_of(exporters.serve("/m", body)), once)[0].table
    times = dict(
        zip(
            table["source_metric"].to_pylist(),
            table["timestamp"].cast(pa.int64()).to_pylist(),
            strict=True,
        )
    )
    assert times["DCGM_FI_DEV_GPU_UTIL"] == 1_700_000_000_123_000
    assert times["DCGM_FI_DEV_GPU_TEMP"] == times["up"]


def test_an_endpoint_that_is_down_or_fails_says_so_and_why(exporters: Exporters) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    urls = [
        f"http://{nobody}/metrics",
        exporters.serve("/500", "oops", status=500),
        exporters.serve("/html", "<html>\n<p>hello\n</html>\n"),
        exporters.serve("/bad.gz", b"not gzip", Content_Encoding="gzip"),
        exporters.serve("/br", b"?", Content_Encoding="br"),
    ]
    blocks = collect(source_of(*urls), seen(0.0, 5))
    errors = {error for _, value, error in ups(blocks) if value == 0.0}
    assert errors == {
        "no connection",
        "HTTP 500",
        "not a metrics page",
        "broken answer",
        "unknown content encoding",
    }
    assert (nobody, 0.0, "no connection") in ups(blocks)
    assert not any(block.rejected for block in blocks)


def test_one_that_hangs_delays_nobody_and_is_never_asked_twice_at_once(
    exporters: Exporters,
) -> None:
    slow = [exporters.hang(f"/hang{n}") for n in range(3)]
    good = exporters.serve("/good", old_page())
    source = source_of(*slow, good, options="interval=100ms&timeout=400ms")
    blocks = collect(source, lambda got: seen(0.0, 6)(got) and seen(1.0, 8)(got))
    assert {error for _, value, error in ups(blocks) if value == 0.0} == {"timeout"}
    assert exporters.asked["/good"] > exporters.asked["/hang0"]
    assert max(exporters.most_at_once.values()) <= 2  # the server may see late that one gave up
    assert source.counts["ticks missed"] > 0


def test_a_page_over_the_bound_is_not_taken_in(exporters: Exporters) -> None:
    huge = old_page() + "# padding\n" * 20_000
    plain = exporters.serve("/huge", huge)
    zipped = exporters.serve("/huge.gz", gzip.compress(huge.encode()), Content_Encoding="gzip")
    source = source_of(plain, zipped, options="interval=100ms&body_max=64KB")
    blocks = collect(source, seen(0.0, 2))
    assert {error for _, _, error in ups(blocks)} == {"page too large"}


def test_an_endless_page_is_cut_off(exporters: Exporters) -> None:
    def endless(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        request.close_connection = True
        try:
            while not exporters.released.is_set():
                request.wfile.write(b"# more\n" * 1000)
        except OSError:
            pass

    source = source_of(exporters.route("/endless", endless), options="interval=1s&body_max=256KB")
    assert ups(collect(source, once))[0][2] == "page too large"


def test_a_compressed_page_is_read(exporters: Exporters) -> None:
    url = exporters.serve("/z", gzip.compress(old_page().encode()), Content_Encoding="gzip")
    assert collect(source_of(url), once)[0].table.num_rows == 1 + 18


def test_a_bad_line_goes_to_the_dead_letters_once_and_the_rest_of_the_page_is_used(
    exporters: Exporters,
) -> None:
    url = exporters.serve("/metrics", "DCGM_FI_DEV_GPU_UTIL{gpu=0} 1\n" + old_page())
    source = source_of(url, options=QUICK)
    blocks = collect(source, seen(1.0, 3))
    rejected = [bad for block in blocks for bad in block.rejected]
    assert [(bad.where, bad.raw) for bad in rejected] == [
        (f"{exporters.address}/metrics:1", b"DCGM_FI_DEV_GPU_UTIL{gpu=0} 1")
    ]
    assert source.counts["bad lines"] >= 3
    assert blocks[0].table.num_rows % (1 + 18) == 0


def test_an_exporter_that_comes_back_is_up_again(exporters: Exporters) -> None:
    url = exporters.serve("/metrics", "", status=503)
    served = False

    def back(blocks: list[Block]) -> bool:
        nonlocal served
        if not served and seen(0.0, 1)(blocks):
            exporters.serve("/metrics", old_page())
            served = True
        return seen(1.0, 1)(blocks)

    values = [value for _, value, _ in ups(collect(source_of(url, options=QUICK), back))]
    assert values[0] == 0.0
    assert values[-1] == 1.0


def test_an_up_reading_is_of_the_host_that_the_page_names(exporters: Exporters) -> None:
    blocks = collect(source_of(exporters.serve("/metrics", old_page(host="dgx-77"))), once)
    (up,) = [row for row in rows(blocks) if row["source_metric"] == "up"]
    assert (up["hostname"], up["uuid"], up["source_value"]) == ("dgx-77", "", 1.0)
    assert json.loads(str(up["labels"])) == {"instance": exporters.address}


def test_the_scrapes_of_a_moment_share_a_block(exporters: Exporters) -> None:
    urls = [exporters.serve(f"/{n}", old_page(host=f"dgx-{n}", gpus=1)) for n in range(12)]
    blocks = collect(source_of(*urls, options="interval=2s"), seen(1.0, 12))
    assert len(blocks) < 12
    hosts = {row["hostname"] for row in rows(blocks)}
    assert hosts == {f"dgx-{n}" for n in range(12)}


def test_closing_ends_it_and_leaves_nothing_running(exporters: Exporters) -> None:
    source = source_of(exporters.hang("/hang"), exporters.serve("/good", old_page()))

    async def story() -> set[asyncio.Task[object]]:
        async for _ in source.blocks({}):
            await source.close()
            await source.close()
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert not asyncio.run(story())


def test_a_share_without_endpoints_just_ends() -> None:
    plan = replace(parse_exporter_url("exporter://h", SourceOptions()), targets=())
    assert collect(ExporterSource(plan), once) == []
