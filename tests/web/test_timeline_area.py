"""An area of the Timeline: dragged, tabled, gone through, in the address and taken back."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from tests.web.conftest import Served, Tab
from tests.web.test_timeline_page import opened

pytestmark = pytest.mark.slow

GUTTER = 184
"""Width of the labels at the left."""

TOP = 54 + 26
"""Minimap, ruler and steps: where the other lanes begin."""


def dragged(tab: Tab, start: tuple[float, float], end: tuple[float, float], key: str = "") -> None:
    """From one place to another, by shares of the picture's width and px from its top."""
    box: Any = tab.page.locator(".tl-stage").bounding_box()

    def place(at: tuple[float, float]) -> tuple[float, float]:
        return box["x"] + GUTTER + at[0] * (box["width"] - GUTTER), box["y"] + at[1]

    if key:
        tab.page.keyboard.down(key)
    tab.page.mouse.move(*place(start))
    tab.page.mouse.down()
    for part in (0.3, 0.7, 1.0):
        tab.page.mouse.move(*place((start[0] + part * (end[0] - start[0]), start[1] + part * (end[1] - start[1]))))
    tab.page.mouse.up()
    if key:
        tab.page.keyboard.up(key)


def cells(tab: Tab, row: int) -> list[str]:
    line = tab.page.locator(".tl-area .grid-body .grid-row").nth(row)
    line.locator(".grid-cell:not(.coming)").first.wait_for()
    return [str(text) for text in line.locator(".grid-cell").all_inner_texts()]


def test_a_drag_opens_a_table_of_what_it_covers(at_theirs: Tab, theirs: Served) -> None:
    page, run = at_theirs.page, theirs.run("owlv2_h100")
    opened(at_theirs, run)
    dragged(at_theirs, (0.2, TOP + 50), (0.7, TOP + 52))  # the stream of the device alone
    page.locator(".tl-area .grid-body").wait_for()
    assert "p.lanes=2w" in page.url
    assert "in 1 lane" in page.locator(".tl-area h2").inner_text()
    time = page.evaluate("new URLSearchParams(location.hash.split('?')[1]).get('time')")
    expected = theirs.client.get(f"runs/{run}/timeline/area", {"time": time, "lanes": "2w"})
    names = [column["name"] for column in expected["columns"]]
    first = dict(zip(names, expected["rows"][0], strict=True))
    shown = cells(at_theirs, 0)
    assert shown[1:3] == [first["kind"], f"{first['count']:,}"]
    with page.expect_download() as file:
        page.locator(".tl-area .menu-box summary", has_text="Export").click()
        page.get_by_role("link", name="CSV").click()
    rows = list(csv.DictReader(io.StringIO(file.value.path().read_text())))
    assert sum(int(row["total"]) for row in rows) == sum(row[names.index("total")] for row in expected["rows"])

    page.locator(".tl-area .segments button", has_text="Kind").click()
    page.wait_for_function("() => document.querySelectorAll('.tl-area .grid-body .grid-row').length < 5")
    page.reload()
    page.locator(".tl-area [aria-pressed=true]", has_text="Kind").wait_for()
    page.locator(".tl-area", has_text="in 1 lane").wait_for()
    page.locator(".tl-area button", has_text="All lanes").click()
    page.locator(".tl-area", has_text="in all lanes").wait_for()
    page.go_back()
    page.locator(".tl-area", has_text="in 1 lane").wait_for()
    page.locator(".tl-stage").focus()
    page.keyboard.press("Escape")
    page.locator(".tl-area").wait_for(state="detached")
    page.go_back()
    page.locator(".tl-area", has_text="in 1 lane").wait_for()


def test_an_area_is_selected_by_keys(at_theirs: Tab, theirs: Served) -> None:
    page = at_theirs.page
    opened(at_theirs, theirs.run("owlv2_h100"))
    page.locator(".tl-stage").focus()
    page.keyboard.press("ArrowRight")  # to a mark of the first lane
    page.wait_for_timeout(300)
    page.keyboard.press("Shift+R")
    page.locator(".tl-area", has_text="in 1 lane").wait_for()
    assert "p.lanes=2w" in page.url


def test_a_row_leads_to_the_longest_and_then_to_the_next(at_theirs: Tab, theirs: Served) -> None:
    page, run = at_theirs.page, theirs.run("owlv2_h100")
    time = "0-1200000000"
    opened(at_theirs, run, f"?time={time}&p.lanes=2w&t.area.sort=-count")
    answer = theirs.client.get(f"runs/{run}/timeline/area", {"time": time, "lanes": "2w", "sort": "-count"})
    names = [column["name"] for column in answer["columns"]]
    first = dict(zip(names, answer["rows"][0], strict=True))
    cells(at_theirs, 0)
    row = page.locator(".tl-area .grid-body .grid-row").first
    row.click()
    page.wait_for_function("row => location.hash.includes('p.row=' + row)", arg=str(first["longest"]))
    page.locator(".tl-panel").wait_for()
    place = page.locator(".tl-walk span").inner_text()
    assert place.endswith(f"of {first['count']:,} × {first['name']}")
    number = int(place.split(" of ")[0].replace(",", ""))
    row.click()
    page.wait_for_function("row => !location.hash.includes('p.row=' + row + '&')", arg=str(first["longest"]))
    page.locator(".tl-walk", has_text=f"{number % first['count'] + 1:,} of").wait_for()
    page.locator(".tl-stage").focus()
    page.keyboard.press("{")
    page.locator(".tl-walk", has_text=f"{number:,} of").wait_for()
    assert page.locator(".tl-area").is_visible(), "the table stays beside the event"


def test_the_table_is_copied_as_markdown(at_theirs: Tab, theirs: Served) -> None:
    page = at_theirs.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    opened(at_theirs, theirs.run("owlv2_h100"), "?time=0-1200000000&p.by=kind")
    cells(at_theirs, 0)
    page.locator(".tl-area .menu-box summary", has_text="Export").click()
    page.locator(".tl-area button", has_text="Copy as Markdown").click()
    page.wait_for_function("() => document.querySelector('.tl-area .tl-unseen').textContent.includes('copied')")
    lines = page.evaluate("navigator.clipboard.readText()").splitlines()
    assert lines[0].startswith("| kind | count | total (")
    assert lines[1].count("--") == lines[0].count("|") - 1
    assert any(line.startswith("| python |") for line in lines)


def test_a_box_is_zoomed_to_and_back_undoes_it(at_theirs: Tab, theirs: Served) -> None:
    page = at_theirs.page
    opened(at_theirs, theirs.run("owlv2_h100"))
    page.wait_for_function("() => location.hash.includes('p.in=')")
    before = page.evaluate("location.hash")
    dragged(at_theirs, (0.4, TOP + 60), (0.5, TOP + 200), key="Control")
    page.wait_for_function("before => location.hash !== before", arg=before)
    assert "time=" not in page.url
    low, high = page.evaluate(
        "new URLSearchParams(location.hash.split('?')[1]).get('p.in').split('..').map(parseFloat)"
    )
    wide = page.evaluate("before => new URLSearchParams(before.split('?')[1]).get('p.in')", before)
    start, end = (float(part.rstrip("mnsµ")) for part in wide.split(".."))
    assert (high - low) == pytest.approx((end - start) / 10, rel=0.02)
    page.go_back()
    page.wait_for_function("before => location.hash === before", arg=before)
