"""Serving in a browser: a step leads to the timeline, where a replay is a slice that opens on its operators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests import drawn
from tests.faults.engine import Engine, serving
from tests.model.graphs.test_attach import captured, replayed
from tests.server.serving import serving as served
from tests.web.conftest import Served, Tab
from tests.web.test_timeline_page import opened

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A simulated engine, a graph with the trace of its capture, and a program that trains."""
    folder = tmp_path_factory.mktemp("runs")
    for name in ("engine", "graph", "training"):
        (folder / name).mkdir()
    serving(Engine(scopes=True, prompt=3000, every=6), steps=18)(folder / "engine")
    drawn.written(folder / "graph" / "replay.json", *replayed(3))
    (captures := folder / "graph" / "capture_traces").mkdir()
    drawn.written(captures / "graph_capture_rank_0.json", *captured())
    drawn.written(
        folder / "training" / "rank0.json", drawn.op("autograd::engine::evaluate_function: MmBackward0", 0, 9)
    )
    with served(folder) as client:
        yield Served(client)


@pytest.fixture
def at(tab: Tab, engines: Served) -> Tab:
    tab.address = engines.address
    return tab


def test_a_step_leads_to_the_timeline(at: Tab, engines: Served) -> None:
    at.open(engines.run("engine"), "serving")
    assert "decode steps (median" in at.sentence
    chart: Any = at.page.locator("section.block", has_text="Steps over time").locator("svg, canvas").first
    chart.wait_for()
    assert at.page.get_by_role("button", name="mixed").count() == 1
    at.page.get_by_role("button", name="mixed").click()
    at.settle()
    assert "p.kind=mixed" in at.page.url
    at.shot("serving")
    rows = at.page.locator("section.block", has_text="Slowest steps").get_by_role("row")
    rows.nth(1).click()
    at.page.get_by_text("Show it on the timeline").click()
    at.page.wait_for_function("() => location.hash.includes('/timeline')")


def test_the_menu_has_it_where_something_is_served(at: Tab, engines: Served) -> None:
    at.open(engines.run("training"), "overview")
    entries = at.page.get_by_role("navigation").locator("a")
    assert "Serving" not in entries.all_text_contents()
    at.open(engines.run("engine"), "overview")
    at.page.get_by_role("navigation").get_by_text("Serving", exact=True).wait_for()


def under_pointer(tab: Tab, words: str) -> tuple[float, float]:
    """Where, from the top of the middle of the picture on, the tip first has these words."""
    box: Any = tab.page.locator(".tl-stage").bounding_box()
    x = box["x"] + 184 + (box["width"] - 184) / 2
    for y in range(int(box["y"]) + 56, int(box["y"]) + 300, 5):
        tab.page.mouse.move(x, y)
        tab.page.wait_for_timeout(120)
        if words in str(tab.page.locator(".tl-tip").text_content()):
            return x, y
    raise AssertionError(f"{words} is nowhere in the picture")


def test_a_double_click_opens_a_replay(at: Tab, engines: Served) -> None:
    page = at.page
    opened(at, engines.run("graph"), "?p.in=5000-6000")
    x, y = under_pointer(at, "capture_8_FULL · 2 nodes")
    page.mouse.dblclick(x, y)
    page.wait_for_function("() => location.hash.includes('p.fold=')")
    page.wait_for_timeout(800)
    x, y = under_pointer(at, "nn.Module: Net_0")
    page.mouse.click(x, y)
    page.get_by_role("region", name="Selected: nn.Module: Net_0").wait_for()
    at.shot("replay")


def test_a_search_goes_into_a_replay(at: Tab, engines: Served) -> None:
    opened(at, engines.run("graph"), "?p.q=aten::add")
    at.page.get_by_placeholder("Search names").press("Enter")
    panel = at.page.get_by_role("region", name="Selected: aten::add")
    panel.wait_for()
    assert "[8, 2], [8, 2]" in panel.inner_text()
    assert "in module Net_0" in " ".join(panel.inner_text().split())
