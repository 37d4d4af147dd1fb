"""A real Chromium, pages that must not complain, and what they look at.

Screenshots go to the folder that NEXUS_SCREENSHOTS names, else to the tests' own.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from browser.made_fleet import MadeFleet
from browser.mock_gateway import MockGateway
from browser.stack import Stack, running_stack
from support.needs import need_program

ROOT = Path(__file__).parents[2]
OpenPage = Callable[..., Page]
Theme = Literal["dark", "light"]


@pytest.fixture(scope="session")
def dashboard() -> None:
    """The page, built of the sources as they are."""
    built = subprocess.run(
        [ROOT / "tools/build-web"], capture_output=True, text=True, timeout=100, check=False
    )
    assert built.returncode == 0, built.stderr


@pytest.fixture(scope="session")
def stack(dashboard: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("stack")) as running:
        yield running


@pytest.fixture
def made(dashboard: None) -> Iterator[Callable[..., MockGateway]]:
    """Gateways over made-up fleets."""
    started: list[MockGateway] = []

    def start(fleet: MadeFleet, port: int = 0) -> MockGateway:
        gateway = MockGateway(fleet, port=port)
        started.append(gateway)
        gateway.start()
        return gateway

    yield start
    for gateway in started:
        gateway.stop()


# For one module at a time: while Playwright is there, so is its event loop, and other tests in this
# process could not run theirs.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    program = need_program("chromium")
    with sync_playwright() as playwright:
        # Root, which builds often are, may not use Chromium's sandbox.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Browser) -> Iterator[OpenPage]:
    """Opens addresses; a page that logs an error or throws one fails its test.

    `forgives` is what a complaint that the test provokes has in it. A page with its `own_clock` can
    be sent into the future.
    """
    complaints: list[str] = []
    forgiven: list[str] = []
    contexts = []

    def heard(message: ConsoleMessage) -> None:
        said = f"{message.text} ({message.location.get('url')})"
        if message.type in ("error", "warning") and not any(part in said for part in forgiven):
            complaints.append(said)

    def open_at(
        url: str,
        *,
        width: int = 1440,
        height: int = 900,
        theme: Theme = "dark",
        forgives: str | None = None,
        own_clock: bool = False,
    ) -> Page:
        forgiven.extend([forgives] if forgives else [])
        context = chromium.new_context(
            viewport={"width": width, "height": height}, color_scheme=theme
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        if own_clock:
            page.clock.install()
        page.on("console", heard)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(url)
        return page

    yield open_at
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    named = os.environ.get("NEXUS_SCREENSHOTS")
    folder = Path(named) if named else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
