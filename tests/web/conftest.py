"""A real Chromium that opens the page of a real server. Whatever a page prints as an error fails its test."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import OURS, ROOT, SHARED
from tests.server.serving import Client, serving
from tests.web.browser import ABSENT, chromium

pytest.importorskip("playwright", reason="needs Playwright for Python (pip install playwright)")

SHOTS = ROOT / "build" / "screenshots"
"""Where pictures of the pages are left, to be looked at."""

SETTLED = """() => {
  const busy = [...document.querySelectorAll('[aria-busy=true]')].filter(each => each.offsetParent);
  return !!document.querySelector('h1')?.textContent && !busy.length;
}"""


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    program = chromium()
    if program is None:
        pytest.skip(ABSENT)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield running
        running.close()


@dataclass
class Tab:
    """A page, and what went wrong in it.

    Attributes:
        page: Playwright's.
        errors: what the console called an error, scripts that failed, requests to elsewhere.
        address: of the server; a request to anything else is an error.
    """

    page: Any
    address: str = ""
    errors: list[str] = field(default_factory=list)

    def listen(self) -> None:
        self.page.on("console", lambda said: self.errors.extend([said.text] if said.type == "error" else []))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self._check(request.url))
        self.page.on("dialog", lambda dialog: self.errors.append(f"dialog: {dialog.message}"))

    def _check(self, url: str) -> None:
        if not url.startswith((self.address, "data:", "blob:")):
            self.errors.append(f"request to {url}")

    def open(self, run: str, view: str, query: str = "") -> None:
        """A view of a run, until all of it is there."""
        self.page.goto(f"{self.address}/#/{run}/{view}{query}")
        self.settle()

    def settle(self) -> None:
        self.page.wait_for_timeout(120)
        self.page.wait_for_function(SETTLED, timeout=60_000)

    @property
    def sentence(self) -> str:
        return str(self.page.locator("h1").first.text_content())

    def shot(self, name: str) -> None:
        SHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SHOTS / f"{name}.png", full_page=True)


@pytest.fixture
def tab(browser: Any) -> Iterator[Tab]:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    found = Tab(context.new_page())
    found.listen()
    yield found
    context.close()
    # The server of a test may end before the page; if it ends too early, the test itself fails.
    assert not [error for error in found.errors if "ERR_CONNECTION_REFUSED" not in error]


@dataclass(frozen=True)
class Served:
    """A server, and its runs by name."""

    client: Client

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.client.port}"

    def run(self, name: str) -> str:
        """The id of the run whose name ends so."""
        return next(str(each["id"]) for each in self.client.get("runs")["runs"] if each["name"].endswith(name))


@pytest.fixture(scope="session")
def ours() -> Iterator[Served]:
    """The traces that come with the project."""
    with serving(OURS) as client:
        yield Served(client)


@pytest.fixture(scope="session")
def theirs() -> Iterator[Served]:
    """The real traces beside the checkout."""
    if not SHARED.is_dir():
        pytest.skip("needs ../shared/traces, real traces by others that are not part of the project")
    with serving(SHARED) as client:
        yield Served(client)


@pytest.fixture
def at_ours(tab: Tab, ours: Served) -> Tab:
    tab.address = ours.address
    return tab


@pytest.fixture
def at_theirs(tab: Tab, theirs: Served) -> Tab:
    tab.address = theirs.address
    return tab


def axe() -> str:
    """The script that looks for faults of accessibility."""
    found = importlib.util.find_spec("axe_playwright_python")
    if found is None or not found.submodule_search_locations:
        pytest.skip("needs axe (pip install axe-playwright-python)")
    return (Path(found.submodule_search_locations[0]) / "axe.min.js").read_text("utf-8")
