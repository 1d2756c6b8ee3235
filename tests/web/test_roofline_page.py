"""Device efficiency in a real browser: what points, keys and clicks do to the roofline and to what stands below."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.web.conftest import Served, Tab

RUN = "owlv2_h100"

pytestmark = pytest.mark.slow


def address(page: Any) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).fragment.partition("?")[2])


def answer(theirs: Served, **pairs: str) -> dict[str, Any]:
    blocks = theirs.client.get(f"runs/{theirs.run(RUN)}/pages/efficiency", pairs)["blocks"]
    found: dict[str, Any] = next(block for block in blocks if block["block"] == "roofline")
    return found


@pytest.fixture
def page(at_theirs: Tab, theirs: Served) -> Any:
    at_theirs.open(theirs.run(RUN), "efficiency")
    at_theirs.page.locator(".block-roofline canvas").wait_for()
    return at_theirs.page


def said(page: Any) -> str:
    return str(page.locator(".block-roofline [role=status]").text_content())


def pixels(page: Any) -> str:
    return str(page.locator(".block-roofline canvas").evaluate("canvas => canvas.toDataURL()"))


def test_keys_lead_from_point_to_point_and_to_its_calls(at_theirs: Tab, theirs: Served, page: Any) -> None:
    points = answer(theirs)
    names = [points["texts"][at] for at in points["name"]]
    assert "Area is time" in said(page)
    canvas = page.locator(".block-roofline canvas")
    canvas.focus()
    page.keyboard.press("ArrowRight")
    assert said(page).startswith(names[0]), "the one that takes longest is first"
    page.keyboard.press("ArrowRight")
    assert said(page).startswith(names[1])
    assert "of its limit, bound by" in said(page)
    page.keyboard.press("Enter")
    at_theirs.settle()
    assert address(page)["p.name"] == [names[1]]
    assert page.get_by_role("heading", name=f"Each call of {names[1]}").count() == 1
    rows = page.locator(".block-table").first.locator(".grid-body .grid-row")
    rows.first.wait_for()
    assert {row.locator("[role=gridcell]").first.inner_text() for row in rows.all()} == {names[1]}
    page.get_by_role("button", name="show all").click()
    at_theirs.settle()
    assert "p.name" not in address(page)


def test_the_pointer_names_a_point_and_a_click_holds_it(theirs: Served, page: Any) -> None:
    """The largest circle is where the answer says that it stands."""
    points = answer(theirs)
    canvas = page.locator(".block-roofline canvas")
    canvas.focus()
    page.keyboard.press("ArrowRight")
    ring = page.locator(".block-roofline .ring")
    box, name = canvas.bounding_box(), points["texts"][points["name"][0]]
    found = False
    for x in range(100, int(box["width"]) - 20, 14):
        for y in range(20, int(box["height"]) - 50, 14):
            page.mouse.move(box["x"] + x, box["y"] + y)
            tip = page.locator("#tip")
            if tip.is_visible() and tip.inner_text().startswith(name):
                found = True
                break
        if found:
            break
    assert found
    assert ring.is_visible()
    page.keyboard.press("Escape")
    assert "Area is time" in said(page)
    page.mouse.click(box["x"] + x, box["y"] + y)
    assert said(page).startswith(name)


def test_it_zooms_pans_and_shows_all_again(page: Any) -> None:
    canvas, at_first = page.locator(".block-roofline canvas"), pixels(page)
    assert page.locator(".block-roofline").get_by_role("button", name="All", exact=True).is_disabled()
    canvas.focus()
    page.keyboard.press("+")
    closer = pixels(page)
    assert closer != at_first
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + 400, box["y"] + 200)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 180, steps=4)
    page.mouse.up()
    assert pixels(page) not in (at_first, closer)
    assert "Area is time" in said(page), "a drag chooses no point"
    page.locator(".block-roofline").get_by_role("button", name="All", exact=True).click()
    page.mouse.move(0, 0)
    assert pixels(page) == at_first


def test_the_key_chooses_what_limits(at_theirs: Tab, theirs: Served, page: Any) -> None:
    page.locator(".block-roofline .key").get_by_role("link", name="Bound by compute").click()
    at_theirs.settle()
    assert address(page)["p.bound"] == ["compute"]
    few = answer(theirs, **{"p.bound": "compute"})
    assert [part["label"] for part in few["parts"]] == ["Bound by compute"]
    assert 0 < len(few["time"]) < len(answer(theirs)["time"])
    assert page.locator(".block-roofline .key li").count() == 1
