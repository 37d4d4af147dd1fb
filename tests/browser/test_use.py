"""What a person does with the dashboard: looks at times, filters, presses keys, meets nothing."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import expect

from browser.conftest import OpenPage
from browser.made_fleet import MadeFleet
from browser.mock_gateway import MockGateway
from browser.stack import GPUS, HOSTS, Stack

A_BEAT_MS = 15_000  # in which a page asks for all that it shows
LONG_AGO = "from=2020-01-01T00:00:00.000Z&to=2020-01-01T01:00:00.000Z"


def test_a_drag_over_a_chart_zooms_in_and_back_undoes_it(stack: Stack, open_page: OpenPage) -> None:
    page = open_page(stack.url)
    plot = page.locator(".chart .u-over").first
    box = plot.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 100, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 50, steps=5)
    page.mouse.up()
    page.wait_for_url(re.compile(r"from=.*&to="))
    expect(page.locator(".live")).to_contain_text("Fixed range")
    expect(page.locator("#heat-title")).to_contain_text("mean of")
    page.go_back()
    expect(page.locator("#time-picker")).to_contain_text("Last 15 minutes")


def test_a_range_can_be_picked_and_shared(stack: Stack, open_page: OpenPage) -> None:
    page = open_page(stack.url)
    page.locator("#time-picker").click()
    page.get_by_role("button", name="Last 6 hours").click()
    page.locator("#metric-picker").select_option("power")
    page.get_by_role("button", name="By host").click()
    expect(page.locator(".charts .legend-item").first).to_be_visible()
    again = open_page(page.url)
    expect(again.locator("#time-picker")).to_contain_text("Last 6 hours")
    expect(again.locator("#heat-title")).to_contain_text("Power of every GPU")
    expect(again.get_by_role("button", name="By host")).to_have_attribute("aria-pressed", "true")


def test_filters_narrow_everything(stack: Stack, open_page: OpenPage) -> None:
    page = open_page(stack.url)
    host = sorted({gpu["hostname"] for gpu in stack.gpus()})[0]
    page.get_by_role("button", name="Host", exact=True).click()
    page.get_by_label(host).check()
    expect(page.locator("[data-total='gpus'] .tile-value")).to_have_text(str(GPUS))
    expect(page.locator(".host-table tbody tr")).to_have_count(1)
    assert f"host={host}" in page.url
    page.get_by_role("button", name="Clear filters").click()
    expect(page.locator("[data-total='gpus'] .tile-value")).to_have_text(str(HOSTS * GPUS))


def test_a_time_without_readings_says_when_there_were_some(
    stack: Stack, open_page: OpenPage
) -> None:
    uuid = stack.gpus()[0]["uuid"]
    page = open_page(f"{stack.url}/gpu/{uuid}?{LONG_AGO}")
    note = page.locator(".note").first
    expect(note).to_contain_text("No readings")
    expect(note).to_contain_text("The newest reading is from")
    note.get_by_role("link").click()
    expect(page.locator(".chart canvas").first).to_be_visible()


def test_a_gpu_that_nobody_knows_leads_back(stack: Stack, open_page: OpenPage) -> None:
    page = open_page(f"{stack.url}/gpu/GPU-nobody-at-all", forgives="GPU-nobody-at-all")
    expect(page.get_by_text("No such GPU")).to_be_visible()
    page.get_by_role("link", name="All GPUs").click()
    expect(page.locator("#heat-map")).to_be_visible()


def test_a_gateway_that_goes_away_is_said_and_its_return_is_noticed(
    made: Callable[..., MockGateway], open_page: OpenPage
) -> None:
    gateway = made(MadeFleet(4))
    page = open_page(gateway.url, forgives="net::ERR", own_clock=True)
    page.locator("#heat-map").wait_for()
    gateway.stop()
    page.clock.fast_forward(A_BEAT_MS)
    expect(page.get_by_text("The gateway does not answer").first).to_be_visible()
    expect(page.locator("[data-total='gpus'] .tile-value")).to_have_text("32")
    made(MadeFleet(4), port=gateway.port)
    page.clock.fast_forward(A_BEAT_MS)
    expect(page.get_by_text("The gateway does not answer")).to_have_count(0)


def test_the_page_can_be_used_without_a_mouse(stack: Stack, open_page: OpenPage) -> None:
    page = open_page(stack.url)
    page.locator("#heat-map").wait_for()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_hidden()
    page.keyboard.press("h")
    page.keyboard.press("ArrowRight")
    name = page.locator(".heat-tip strong").inner_text()
    assert name.endswith("GPU 1")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text(name)
    page.keyboard.press("i")
    expect(page.get_by_role("heading", name="Tables")).to_be_visible()
    page.keyboard.press("f")
    page.keyboard.press("[")
    page.wait_for_url(re.compile("from="))
    page.keyboard.press("n")
    expect(page.locator("#time-picker")).to_contain_text("Last 15 minutes")
    page.keyboard.press("t")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("#time-picker")).to_contain_text("Last 15 minutes")
    page.keyboard.press("d")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")


def test_what_has_the_focus_can_be_seen(stack: Stack, open_page: OpenPage) -> None:
    page = open_page(stack.url)
    page.locator("#heat-map").wait_for()
    for _ in range(20):
        page.keyboard.press("Tab")
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid", page.evaluate("document.activeElement.outerHTML")
