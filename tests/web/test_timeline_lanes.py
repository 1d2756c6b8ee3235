"""Lanes of the Timeline: filtered, hidden, moved, resized, all ranks as lines, the picture at full height."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.web.conftest import Served, Tab, axe
from tests.web.test_timeline_page import SEEN, SHARE, in_sight, opened

pytestmark = pytest.mark.slow

RUN = "dlrm_ddp_v100_8rank"
UNSEEN = "words => !document.querySelector('.tl-stage').dataset.sight.includes(words)"


def lanes(tab: Tab) -> list[str]:
    return re.findall(r"(?:device|host|group): ([^;]+)", in_sight(tab))


def kept(tab: Tab) -> list[str]:
    """The lanes after a reload, which are those before it."""
    before = lanes(tab)
    tab.page.reload()
    tab.page.wait_for_function("() => !!document.querySelector('.tl-stage')?.dataset.sight", timeout=30_000)
    tab.page.wait_for_timeout(800)
    assert lanes(tab) == before
    return before


def test_lanes_are_filtered_hidden_ordered_and_reset_in_the_menu(at_theirs: Tab, theirs: Served) -> None:
    page = at_theirs.page
    opened(at_theirs, theirs.run(RUN), "?rank=0")
    assert "main thread" in in_sight(at_theirs)
    page.locator("button.pill", has_text="Lanes").click()
    page.get_by_placeholder("Filter").fill("stream")
    page.wait_for_function(UNSEEN, arg="main thread")
    assert [name.split(" · ")[-1] for name in lanes(at_theirs)] == ["stream 7", "stream 22", "stream 24", "stream 84"]
    page.get_by_label("Hide: stream 22").click()
    page.wait_for_function(UNSEEN, arg="stream 22")
    page.get_by_label("Down: stream 7", exact=True).click()
    page.wait_for_function("() => /stream 24.*stream 7/.test(document.querySelector('.tl-stage').dataset.sight)")
    assert [name.split(" · ")[-1] for name in kept(at_theirs)] == ["stream 24", "stream 7", "stream 84"]
    page.go_back()
    page.wait_for_function("() => /stream 7.*stream 24/.test(document.querySelector('.tl-stage').dataset.sight)")
    page.locator("button.pill", has_text="Lanes").click()
    page.get_by_role("button", name="Reset").click()
    page.wait_for_function(SEEN, arg="main thread")
    assert all(f"p.{name}=" not in page.url for name in ("filter", "hide", "move"))


def test_a_label_is_dragged_and_the_border_widens_the_labels(at_theirs: Tab, theirs: Served) -> None:
    page = at_theirs.page
    opened(at_theirs, theirs.run(RUN), "?rank=0&p.filter=stream")
    box: Any = page.locator(".tl-stage").bounding_box()
    top, pitch = box["y"] + 54 + 26, 25
    page.mouse.move(box["x"] + 60, top + 10)
    page.mouse.down()
    page.mouse.move(box["x"] + 60, top + 30)
    page.mouse.move(box["x"] + 60, top + 3 * pitch + 20)
    page.mouse.up()
    page.wait_for_function("() => /stream 84.*stream 7($|;)/.test(document.querySelector('.tl-stage').dataset.sight)")
    page.mouse.move(box["x"] + 184, top + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + 220, top + 40)
    page.mouse.move(box["x"] + 300, top + 40)
    page.mouse.up()
    page.wait_for_function("() => location.hash.includes('p.labels=300')")
    kept(at_theirs)


def test_keys_move_size_and_hide_the_lane_under_the_pointer(at_theirs: Tab, theirs: Served) -> None:
    page = at_theirs.page
    opened(at_theirs, theirs.run(RUN), "?rank=0&p.filter=stream")
    box: Any = page.locator(".tl-stage").bounding_box()
    page.locator(".tl-stage").focus()
    page.mouse.move(box["x"] + 700, box["y"] + 54 + 26 + 10)
    page.keyboard.press("Shift+ArrowDown")
    page.wait_for_function("() => /stream 22.*stream 7/.test(document.querySelector('.tl-stage').dataset.sight)")
    page.keyboard.press("+")
    page.wait_for_function("() => /p.tall=l0%2F\\d+w%3A3/.test(location.hash)")
    page.keyboard.press("x")
    page.wait_for_function(UNSEEN, arg="stream 22")


def test_all_ranks_are_lines_that_tell_what_is_under_the_pointer(at_theirs: Tab, theirs: Served) -> None:
    page = at_theirs.page
    opened(at_theirs, theirs.run(RUN))
    page.get_by_role("button", name="All ranks").click()
    page.wait_for_function(SEEN, arg="Rank 7")
    page.wait_for_function("() => document.querySelector('.tl-stage').dataset.waiting === '0'")
    page.wait_for_timeout(500)
    box: Any = page.locator(".tl-stage").bounding_box()
    line = box["y"] + 54 + 26 + 28  # of rank 1, whose first collective waits for the others for most of the step
    page.mouse.move(box["x"] + 600, line + 20)
    tip = page.locator(".tl-tip:not([hidden])")
    page.wait_for_function("() => /nccl/i.test(document.querySelector('.tl-tip')?.textContent)")
    assert re.search(r"rank 1 · .*communication", tip.inner_text())


def test_full_height_is_a_key_and_in_the_address(at_theirs: Tab, theirs: Served) -> None:
    page = at_theirs.page
    page.set_viewport_size({"width": 1280, "height": 720})
    opened(at_theirs, theirs.run("owlv2_h100"))
    assert page.evaluate(SHARE) >= 0.65
    page.locator(".tl-stage").focus()
    page.keyboard.press("z")
    page.locator("header").wait_for(state="hidden")
    assert page.locator("nav").is_hidden()
    page.reload()
    page.wait_for_function("() => !!document.querySelector('.tl-stage')?.dataset.sight", timeout=30_000)
    assert page.locator("header").is_hidden()
    assert page.evaluate(SHARE) >= 0.65
    page.locator(".tl-stage").focus()
    page.keyboard.press("z")
    page.locator("header").wait_for(state="visible")
    page.keyboard.press("z")
    page.evaluate("() => { location.hash = location.hash.replace('/timeline', '/overview') }")
    page.locator("header").wait_for(state="visible")


def test_the_instruments_have_no_faults_of_accessibility(at_theirs: Tab, theirs: Served) -> None:
    page = at_theirs.page
    opened(at_theirs, theirs.run(RUN), "?ranks=all&time=1000000-9000000&p.lanes=0-3/w")
    page.locator(".tl-area .grid-body .grid-row").first.click()
    page.locator(".tl-walk").wait_for()
    page.locator("button.pill", has_text="Lanes").click()
    page.get_by_placeholder("Filter").wait_for()
    page.evaluate(axe())
    found = page.evaluate("() => axe.run(document, { runOnly: ['wcag2a', 'wcag2aa'] })")
    assert not [(fault["id"], [node["html"] for node in fault["nodes"]][:3]) for fault in found["violations"]]
