"""Two runs beside each other, and trees of calls, used in a browser."""

from __future__ import annotations

import re

import pytest

from tests.web.conftest import Served, Tab

pytestmark = pytest.mark.slow

WINDOW = "(at) => document.querySelectorAll('.beside .tl-stage')[at].getAttribute('data-view')?.split(' ').map(Number)"


def test_the_names_searched_in_a_tree_have_a_share(at_ours: Tab, ours: Served) -> None:
    at_ours.open(ours.run("mlp"), "modules")
    tree = at_ours.page.locator(".block-icicle").filter(has_text="From the program")
    tree.get_by_label("Search names").fill("no such name")
    tree.get_by_text("not here").wait_for()
    tree.get_by_label("Search names").fill("linear")
    tree.get_by_text(re.compile(r"^\d+% in \d+ places$")).wait_for()
    tree.get_by_label("Search names").press("Enter")  # the widest of them fills the picture
    tree.get_by_role("button", name="Callers and callees").click()
    at_ours.settle()
    assert "p.frame=" in at_ours.page.url
    assert at_ours.page.get_by_role("heading", name="Callers", exact=True).count() == 1
    at_ours.page.get_by_role("link", name="Close").click()
    at_ours.settle()
    assert at_ours.page.get_by_role("heading", name="Callers", exact=True).count() == 0


def test_two_timelines_move_together_from_the_start_of_their_steps(at_ours: Tab, ours: Served) -> None:
    page = at_ours.page
    at_ours.open(ours.run("mlp"), "compare", f"?base={ours.run('mlp_default')}")
    stages = page.locator(".beside .tl-stage")
    stages.nth(1).wait_for()
    page.wait_for_timeout(600)
    before = [page.evaluate(WINDOW, at) for at in (0, 1)]
    assert before[0][1] - before[0][0] == pytest.approx(before[1][1] - before[1][0], rel=1e-6)
    stages.nth(1).scroll_into_view_if_needed()
    box = stages.nth(1).bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 120)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -400)
    page.keyboard.up("Control")
    page.wait_for_timeout(1200)
    after = [page.evaluate(WINDOW, at) for at in (0, 1)]
    assert after[1][1] - after[1][0] < 0.9 * (before[1][1] - before[1][0])
    for end in (0, 1):  # the distance between both is that of their steps
        assert after[0][end] - after[1][end] == pytest.approx(before[0][end] - before[1][end], abs=2)
    step = page.locator(".beside-head").nth(0).locator("span").first
    said = step.text_content()
    page.get_by_role("button", name=re.compile("(Next|Previous) step before")).and_(
        page.locator(":enabled")
    ).first.click()
    page.wait_for_timeout(300)
    assert step.text_content() != said


def test_the_tree_of_two_runs_changes_with_what_it_is_of(at_ours: Tab, ours: Served) -> None:
    at_ours.open(ours.run("mlp"), "compare", f"?base={ours.run('mlp_default')}")
    note = at_ours.page.locator(".block-icicle .note").last
    assert "Time of the step" in str(note.text_content())
    at_ours.page.get_by_role("button", name="host", exact=True).click()
    at_ours.settle()
    assert "Host time." in str(note.text_content())
    assert "p.time=host" in at_ours.page.url


def test_the_runs_of_the_ledger_are_chosen(at_ours: Tab, ours: Served) -> None:
    page = at_ours.page
    at_ours.open(ours.run("mlp"), "ledger")
    page.get_by_role("button", name="Choose").click()
    box = page.get_by_role("dialog", name="Choose: runs in the ledger")
    tick = box.locator(".tick input")
    assert tick.and_(page.locator(":disabled")).count() == 1  # the open run
    if box.get_by_role("button", name="All of these").count():
        box.get_by_role("button", name="All of these").click()
    box.get_by_role("button", name="None of these").click()
    assert box.locator(".tick input:checked").count() == 1
    box.get_by_label("Search runs").fill("transformer")
    tick.first.check()
    box.get_by_role("button", name="Show 2").click()
    at_ours.settle()
    page.get_by_text("2 of").first.wait_for()
    assert "as chosen" in str(page.locator(".sub").text_content())
    assert "p.runs=" in page.url
    page.reload()
    at_ours.settle()
    assert "as chosen" in str(page.locator(".sub").text_content())
    page.get_by_role("button", name="Forget the choice").click()
    at_ours.settle()
    assert "as chosen" not in str(page.locator(".sub").text_content())
