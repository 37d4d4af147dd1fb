"""Hostile names, the content security policy, and thousands of cells that change every second."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from pathlib import Path
from urllib.parse import quote

import httpx
from playwright.sync_api import expect

from browser.conftest import OpenPage
from browser.made_fleet import HOSTILE, MadeFleet
from browser.mock_gateway import MockGateway
from browser.stack import Stack

FRAME_MS_MAX = 33
WINDOW_MS = 3_000
WINDOWS = 8
MakeGateway = Callable[[MadeFleet], MockGateway]

FRAMES = """
(ms) => new Promise((done) => {
  const frames = [];
  let last = performance.now();
  const end = last + ms;
  const frame = () => {
    const now = performance.now();
    frames.push(now - last);
    last = now;
    if (now < end) requestAnimationFrame(frame);
    else done(frames);
  };
  requestAnimationFrame(frame);
})
"""


def test_names_are_shown_as_text_whatever_they_are(made: MakeGateway, open_page: OpenPage) -> None:
    gateway = made(MadeFleet(3, hostile=True))
    page = open_page(gateway.url)
    expect(page.locator(".host-table tbody tr").first).to_contain_text(HOSTILE)
    page.get_by_role("button", name="Host", exact=True).click()
    expect(page.locator(".option-name").first).to_have_text(HOSTILE)
    page.goto(f"{gateway.url}/host/cluster-a/{quote(HOSTILE, safe='')}")
    expect(page.locator("h1")).to_have_text(HOSTILE)
    expect(page.locator(".hold").first).to_contain_text(HOSTILE)
    page.goto(f"{gateway.url}/gpu/{gateway.gpus[0].uuid}")
    expect(page.locator("h1")).to_contain_text(HOSTILE)
    assert page.title() == f"{gateway.gpus[0].uuid} · Nexus"
    assert page.locator("img[src='x']").count() == 0


def test_the_policy_forbids_what_is_inline_and_the_page_needs_none(
    stack: Stack, open_page: OpenPage
) -> None:
    answer = httpx.get(stack.url)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    page = open_page(stack.url, forgives="Content Security Policy")
    page.locator("#heat-map").wait_for()
    blocked = page.evaluate(
        """() => new Promise((done) => {
          document.addEventListener("securitypolicyviolation", () => done(true));
          setTimeout(() => done(false), 3000);
          const script = document.createElement("script");
          script.textContent = "window.taken = true";
          document.body.append(script);
        })"""
    )
    assert blocked
    assert page.evaluate("window.taken") is None


def test_8000_cells_change_every_second_without_stutter(
    made: MakeGateway, open_page: OpenPage, screenshots: Path
) -> None:
    gateway = made(MadeFleet(1000, clusters=3))
    page = open_page(gateway.url)
    expect(page.locator("[data-total='gpus'] .tile-value")).to_have_text("8,000")
    expect(page.locator(".charts .chart canvas")).to_have_count(2)
    page.wait_for_timeout(2000)
    page.screenshot(path=screenshots / "fleet-8000.png")
    before = page.evaluate("document.getElementById('heat-map').toDataURL()")
    # Other processes may take the processor away: one window without them is asked for.
    found: list[float] = []
    while len(found) < WINDOWS and min(found, default=inf) >= FRAME_MS_MAX:
        found.append(_p95(page.evaluate(FRAMES, WINDOW_MS)))
    assert min(found) < FRAME_MS_MAX, found
    assert page.evaluate("document.getElementById('heat-map').toDataURL()") != before


def _p95(frames: list[float]) -> float:
    return sorted(frames)[int(len(frames) * 0.95)]
