"""The editor of queries: it completes words, has examples, and remembers what was asked."""

from __future__ import annotations

import pytest

from tests.web.conftest import Served, Tab

pytestmark = pytest.mark.slow


def test_words_are_completed_and_queries_remembered(at_ours: Tab, ours: Served) -> None:
    page = at_ours.page
    at_ours.open(ours.run("mlp"), "sql")
    editor = page.get_by_label("Query")
    editor.fill("SELECT name FROM op")
    editor.press("s")
    editor.press("Backspace")
    page.locator(".sql-offered button.first", has_text="ops").wait_for()
    editor.press("Tab")
    assert editor.input_value() == "SELECT name FROM ops"
    page.keyboard.type(" WHERE dur")
    page.locator(".sql-offered button", has_text="duration").first.click()
    assert editor.input_value() == "SELECT name FROM ops WHERE duration"
    page.keyboard.type(" > 0 LIMIT 3")
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    assert not editor.evaluate("element => element === document.activeElement"), "Tab goes on where nothing is offered"
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("3 rows").wait_for()
    page.get_by_text("Examples").click()
    page.get_by_role("button", name="The steps").click()
    assert editor.input_value() == "SELECT * FROM steps"
    page.get_by_text("History").click()
    page.get_by_role("button", name="SELECT name FROM ops WHERE duration > 0 LIMIT 3").click()
    assert editor.input_value() == "SELECT name FROM ops WHERE duration > 0 LIMIT 3"
