"""Ctrl-K: by the keyboard alone to views, names, steps and runs, and to a report; and what takes long is stopped."""

from __future__ import annotations

import re
import threading
import time

import pytest

from kinetoscope.caching import checkpoint
from kinetoscope.errors import StoppedError
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import Selection
from kinetoscope.pages import memory
from kinetoscope.pages.blocks import Page
from tests.conftest import OURS
from tests.server.serving import serving
from tests.web.conftest import Served, Tab, axe

pytestmark = pytest.mark.slow


def go_to(tab: Tab, typed: str, option: str) -> None:
    """Type, wait for the option whose text begins so ("“queue length” on the timeline" does not), and choose it."""
    tab.page.keyboard.press("Control+k")
    tab.page.locator(".palette input:focus").wait_for()
    tab.page.keyboard.type(typed)
    tab.page.locator(".palette [aria-selected=true]").filter(has_text=re.compile(f"^{re.escape(option)}")).wait_for()
    tab.page.keyboard.press("Enter")
    tab.settle()


def test_views_steps_analyses_runs_and_names_by_the_keyboard(at_ours: Tab, ours: Served) -> None:
    page = at_ours.page
    at_ours.open(ours.run("mlp"), "overview")
    go_to(at_ours, "cp", "Critical path")
    assert "/critical_path" in page.url
    step = ours.client.get(f"runs/{ours.run('mlp')}")["steps"][1]["step"]
    go_to(at_ours, f"step {step}", f"Step {step}")
    assert f"steps={step}" in page.url
    go_to(at_ours, "show all", "Show all")
    assert "steps=" not in page.url
    go_to(at_ours, "queue length", "Queue length")
    assert "analyses?p.name=queue_length" in page.url
    go_to(at_ours, "aten::addmm", "aten::addmmoperator")
    assert "operators?p.name=aten%3A%3Aaddmm" in page.url
    go_to(at_ours, "transformer compare", "transformer")
    assert f"base={ours.run('transformer')}" in page.url
    assert page.get_by_role("dialog").count() == 0


def test_the_arrows_choose_and_escape_leaves(at_ours: Tab, ours: Served) -> None:
    page = at_ours.page
    at_ours.open(ours.run("mlp"), "overview")
    before = page.url
    page.get_by_role("button", name="Go to").click()
    first = page.get_by_role("option", selected=True).text_content()
    page.keyboard.press("ArrowDown")
    second = page.get_by_role("option", selected=True)
    assert second.text_content() != first
    assert page.get_by_role("combobox").get_attribute("aria-activedescendant") == second.get_attribute("id")
    page.evaluate(f"() => {{ {axe()} }}")
    found = page.evaluate("axe.run('.palette', {resultTypes: ['violations']})")
    assert not [each["id"] for each in found["violations"] if each["impact"] in ("serious", "critical")]
    page.keyboard.press("Escape")
    assert page.get_by_role("dialog").count() == 0
    assert page.url == before


def test_the_report_is_downloaded(at_ours: Tab, ours: Served) -> None:
    at_ours.open(ours.run("mlp"), "overview")
    with at_ours.page.expect_download(timeout=60_000) as download:
        go_to(at_ours, "report", "Download the report")
    assert download.value.suggested_filename.endswith(".html")
    text = download.value.path().read_text("utf-8")
    assert text.startswith("<!doctype html>")
    assert "Content-Security-Policy" in text[:300]


def test_what_takes_long_says_how_long_and_is_stopped(tab: Tab, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()

    def slow(job: Job, select: Selection, params: object) -> Page:
        for _ in range(3000):
            try:
                checkpoint()
            except StoppedError:
                ended.set()
                raise
            time.sleep(0.01)
        return Page("memory", "Memory", "Done.")

    with serving(OURS / "mlp.pt.trace.json.gz") as client:
        tab.address = f"http://127.0.0.1:{client.port}"
        tab.open(client.run(), "overview")
        monkeypatch.setattr(memory, "page", slow)
        tab.page.get_by_role("navigation").get_by_text("Memory", exact=True).click()
        tab.page.get_by_text(re.compile(r"· \d+ s")).wait_for()
        tab.page.get_by_role("button", name="Stop").click()
        tab.page.get_by_role("heading", name=re.compile(r"^Stopped after \d")).wait_for()
        assert ended.wait(10)
        monkeypatch.undo()
        tab.page.get_by_role("button", name="Ask again").click()
        tab.page.get_by_role("heading", name=re.compile(r"^Stopped after \d")).wait_for(state="detached")
        tab.settle()
        assert "Stopped" not in tab.sentence
