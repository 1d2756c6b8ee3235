"""Tables used by hand: rows, columns and the way back."""

from __future__ import annotations

import re

import pytest

from tests.web.conftest import Served, Tab

pytestmark = pytest.mark.slow


def test_a_click_on_a_row_keeps_the_view_and_says_what_can_be_done(at_ours: Tab, ours: Served) -> None:
    page = at_ours.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    at_ours.open(ours.run("mlp"), "operators")
    table = page.locator(".block-table").filter(has_text="All operators")
    row = table.locator(".grid-body .grid-row").nth(2)
    name = str(row.locator(".grid-cell").first.text_content())
    before = page.url
    row.click()
    assert page.url == before
    assert table.locator(".picked-name").text_content() == name
    table.get_by_role("button", name="Copy name").click()
    table.get_by_text("Name copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == name
    table.get_by_role("link", name="Search the timeline for it").click()
    at_ours.settle()
    assert "/timeline" in page.url


def test_back_leads_to_where_the_page_was_scrolled_to(at_ours: Tab, ours: Served) -> None:
    page = at_ours.page
    at_ours.open(ours.run("transformer"), "operators")
    page.evaluate("scrollTo(0, 5000)")
    page.wait_for_timeout(200)
    at = page.evaluate("scrollY")
    assert at > 100
    page.get_by_role("navigation").get_by_text("Overview", exact=True).click()
    at_ours.settle()
    assert page.evaluate("scrollY") == 0
    page.go_back()
    at_ours.settle()
    page.wait_for_function(f"() => Math.abs(scrollY - {at}) < 3", timeout=10_000)


@pytest.mark.parametrize("width", [1440, 1280, 390])
def test_columns_fit_and_are_widened(at_ours: Tab, ours: Served, width: int) -> None:
    page = at_ours.page
    page.set_viewport_size({"width": width, "height": 900})
    for view in ("operators", "idle", "memory", "critical_path"):
        at_ours.open(ours.run("transformer"), view)
        page.wait_for_timeout(200)
        for grid in page.locator(".grid").all():
            wide, room = grid.evaluate("each => [each.scrollWidth, each.clientWidth]")
            heads = grid.get_by_role("columnheader").count()
            assert wide <= room or heads == 2, (view, wide, room)
    if width < 1000:
        return
    at_ours.open(ours.run("transformer"), "operators")
    table = page.locator(".block-table").filter(has_text="All operators")
    head = table.get_by_role("columnheader").first
    head.scroll_into_view_if_needed()
    before = head.bounding_box()
    grip = head.locator(".grip").bounding_box()
    assert before
    assert grip
    page.mouse.move(grip["x"] + 4, grip["y"] + 8)
    page.mouse.down()
    page.mouse.move(grip["x"] + 104, grip["y"] + 8, steps=4)
    page.mouse.up()
    after = head.bounding_box()
    assert after
    assert after["width"] == pytest.approx(before["width"] + 100, abs=3)


def test_a_panel_closes_with_the_view_and_columns_left_out_are_counted(at_ours: Tab, ours: Served) -> None:
    page = at_ours.page
    at_ours.open(ours.run("mlp"), "overview")
    at_ours.open(ours.run("mlp"), "operators")
    page.locator(".of-run > button").click()
    assert page.get_by_role("dialog").count() == 1
    page.evaluate("history.back()")
    at_ours.settle()
    assert page.get_by_role("dialog").count() == 0
    page.set_viewport_size({"width": 420, "height": 900})
    at_ours.open(ours.run("mlp"), "operators")
    page.get_by_text(re.compile(r"^Columns · \d+ more$")).first.wait_for()
