"""Every page over the real gateway: what it shows is what the API says."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from browser.conftest import OpenPage
from browser.stack import GPUS, HOSTS, Stack

WIDTHS = {"wide": (1440, 900), "narrow": (420, 900)}


def total(page: Page, name: str) -> float:
    """A number of the tiles on the fleet page."""
    text = page.locator(f"[data-total='{name}'] .tile-value").inner_text()
    return float(re.sub(r"[^0-9.]", "", text))


def test_the_fleet_page_counts_what_the_api_lists(stack: Stack, open_page: OpenPage) -> None:
    page = open_page(stack.url)
    expect(page.locator("[data-total='gpus'] .tile-value")).to_have_text(str(HOSTS * GPUS))
    page.get_by_role("button", name="Live").click()  # paused: nothing moves while we compare
    counts = Counter(gpu["state"] for gpu in stack.gpus())
    shown = {name: total(page, name) for name in ("active", "idle-held", "free", "unknown")}
    assert sum(shown.values()) == HOSTS * GPUS
    assert sum(abs(shown[name] - counts[name]) for name in shown) <= 4  # what changed since
    assert 0 < total(page, "kw") < HOSTS * GPUS


def test_the_heat_map_opens_the_gpu_that_is_pointed_at(stack: Stack, open_page: OpenPage) -> None:
    page = open_page(stack.url)
    page.locator("#heat-map").hover(position={"x": 180, "y": 40})
    name = page.locator(".heat-tip strong").inner_text()
    assert re.fullmatch(r"[\w-]+ · GPU \d", name)
    map_box, outline = (page.locator(of).bounding_box() for of in ("#heat-map", ".heat-cursor"))
    assert map_box is not None
    assert outline is not None
    assert outline["x"] <= map_box["x"] + 180 <= outline["x"] + outline["width"]
    assert outline["y"] <= map_box["y"] + 40 <= outline["y"] + outline["height"]
    page.locator("#heat-map").click(position={"x": 180, "y": 40})
    expect(page.locator("h1")).to_contain_text(name)


def test_a_gpu_page_shows_its_latest_values(stack: Stack, open_page: OpenPage) -> None:
    gpu = next(each for each in stack.gpus() if each["state"] == "active")
    past = "from=2026-01-01T00:00:00Z&to=2026-01-01T01:00:00Z"  # where nothing is live
    page = open_page(f"{stack.url}/gpu/{gpu['uuid']}?{past}")
    expect(page.locator("h1")).to_contain_text(f"{gpu['hostname']} · GPU {gpu['gpu']}")
    for name in ("uuid", "model", "pod"):
        expect(page.locator(".facts")).to_contain_text(gpu[name])
    latest = {row["metric"]: row["value"] for row in stack.json(f"gpus/{gpu['uuid']}")["latest"]}
    for metric in ("gpu_util", "power", "memory_used", "sm_clock", "gpu_temperature"):
        shown = page.locator(f"tr[data-metric='{metric}']").first.get_attribute("data-value")
        assert float(shown or "nan") == latest[metric]


def test_every_metric_of_a_gpu_has_a_chart(stack: Stack, open_page: OpenPage) -> None:
    gpu = stack.gpus()[0]
    metrics = {row["metric"] for row in stack.json(f"gpus/{gpu['uuid']}")["latest"]}
    page = open_page(f"{stack.url}/gpu/{gpu['uuid']}")
    for _ in range(12):
        page.mouse.wheel(0, 800)
        page.wait_for_timeout(100)
    expect(page.locator(".chart canvas")).to_have_count(len(metrics))


def test_a_host_page_shows_all_its_gpus(stack: Stack, open_page: OpenPage) -> None:
    gpu = stack.gpus()[0]
    page = open_page(f"{stack.url}/host/{quote(gpu['cluster'])}/{quote(gpu['hostname'])}")
    expect(page.locator("h1")).to_have_text(gpu["hostname"])
    expect(page.locator(".gpu-table tbody tr")).to_have_count(GPUS)
    expect(page.locator(".lane")).to_have_count(GPUS)
    page.locator(".chart .u-over").first.hover(position={"x": 150, "y": 40})
    expect(page.locator(".chart-tip .tip-label").first).to_contain_text(f"{gpu['hostname']} · GPU ")


def test_the_pipeline_page_shows_queue_tables_and_quarantine(
    stack: Stack, open_page: OpenPage
) -> None:
    page = open_page(f"{stack.url}/pipeline?range=1h")
    rows = {table["name"]: table["rows"] for table in stack.json("pipeline")["tables"]}
    shown = page.locator("tr[data-table='readings'] [data-field='rows']").inner_text()
    assert int(shown.replace(",", "")) == rows["readings"]
    topic = next(t for t in stack.json("queue")["topics"] if t["topic"] == "gpu-telemetry")
    expect(page.locator(".lag-table tbody tr")).to_have_count(len(topic["partitions"]))
    expect(page.locator(".reasons")).to_contain_text("the value is no number")
    page.locator(".refusals summary").first.click()
    expect(page.locator(".refusals pre")).to_have_text('{"value": "<b>many</b>"}')
    expect(page.get_by_text("No collector answers")).to_be_visible()


def test_readings_come_by_themselves_and_stop_when_paused(
    stack: Stack, open_page: OpenPage
) -> None:
    gpu = next(each for each in stack.gpus() if each["state"] == "active")
    page = open_page(f"{stack.url}/gpu/{gpu['uuid']}")
    expect(page.locator(".live")).to_contain_text(re.compile(r"Live · newest [0-9] s ago"))
    power = page.locator("tr[data-metric='power']").first
    before = power.get_attribute("data-value")
    expect(power).not_to_have_attribute("data-value", before or "")
    page.keyboard.press("p")
    expect(page.locator(".live")).to_contain_text("Paused")
    still = power.get_attribute("data-value")
    page.wait_for_timeout(2500)
    assert power.get_attribute("data-value") == still


@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("width", WIDTHS)
def test_pages_fit_the_screen(
    stack: Stack, open_page: OpenPage, screenshots: Path, theme: str, width: str
) -> None:
    gpu = next(each for each in stack.gpus() if each["pod"])
    host = f"/host/{quote(gpu['cluster'])}/{quote(gpu['hostname'])}"
    pages = {"fleet": "/", "host": host, "gpu": f"/gpu/{gpu['uuid']}", "pipeline": "/pipeline"}
    across, down = WIDTHS[width]
    page = open_page(stack.url, width=across, height=down, theme=theme)
    for name, path in pages.items():
        page.goto(stack.url + path)
        page.locator("canvas, table").first.wait_for()
        page.wait_for_timeout(200)
        page.screenshot(path=screenshots / f"{name}-{theme}-{width}.png")
        assert page.evaluate("document.documentElement.scrollWidth") <= across
