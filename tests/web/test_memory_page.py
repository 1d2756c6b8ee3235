"""The memory of a snapshot in a real browser: bands, the instant that is chosen, the segments then, a block's stack."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.server.serving import serving
from tests.snapshots.process import Process
from tests.snapshots.training import Model, Training
from tests.snapshots.writing import write
from tests.web.conftest import Served, Tab

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    process = Process()
    process.record()
    training = Training(process, Model(layers=2, width=256, batch=2, tokens=128, vocabulary=1000), metadata=True)
    training.build()
    training.run(4)
    path = tmp_path_factory.mktemp("memory") / "train.pickle"
    write(path, process.snapshot())
    return path


@pytest.fixture(scope="module")
def served(trained: Path) -> Iterator[Served]:
    with serving(trained) as client:
        yield Served(client)


@pytest.fixture
def page(tab: Tab, served: Served) -> Any:
    tab.address = served.address
    tab.open(served.run("train"), "memory")
    ready(tab.page)
    return tab.page


def ready(page: Any) -> None:
    page.wait_for_function(
        "() => +document.querySelector('.bands')?.dataset.drawn > 0 && !!document.querySelector('.heap canvas')"
    )


def said(page: Any) -> str:
    return str(page.locator(".block-allocator .said").inner_text())


def event(page: Any) -> int:
    return int(said(page).partition("event ")[2].partition(" ")[0].replace(",", ""))


def address(page: Any) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).fragment.partition("?")[2])


def pixels(page: Any, where: str) -> str:
    return str(page.locator(f"{where} canvas").evaluate("canvas => canvas.toDataURL()"))


def moved(page: Any, before: str) -> None:
    page.wait_for_function(
        "before => document.querySelector('.block-allocator .said').innerText !== before", arg=before, timeout=5_000
    )


def test_the_instant_is_the_peak_until_another_is_chosen(page: Any) -> None:
    assert page.locator(".moments [aria-pressed=true]").inner_text() == "Peak"
    at_peak, heap = said(page), pixels(page, ".heap")
    peak = event(page)
    page.locator(".bands canvas").focus()
    page.keyboard.press("ArrowRight")
    moved(page, at_peak)
    assert event(page) == peak + 1
    before = said(page)
    page.get_by_role("button", name="Beginning").click()
    moved(page, before)
    assert said(page).startswith("Before the first event")
    assert pixels(page, ".heap") != heap
    page.wait_for_timeout(600)
    assert address(page)["t.memory.at"] == ["-1"]
    page.reload()
    ready(page)
    assert said(page).startswith("Before the first event"), "the address holds it"


def test_a_drag_along_the_ruler_moves_through_the_history(page: Any) -> None:
    box = page.locator(".bands canvas").bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 10)
    page.mouse.down()
    events: list[int] = []
    for x in (100, 400, 700, 1000):
        before = said(page)
        page.mouse.move(box["x"] + x, box["y"] + 10)
        if events:
            moved(page, before)
        page.wait_for_timeout(150)
        events.append(event(page))
    page.mouse.up()
    assert events == sorted(set(events))


def test_a_drag_over_the_bands_selects_a_time_and_its_peak(tab: Tab, page: Any) -> None:
    box = page.locator(".bands canvas").bounding_box()
    page.mouse.move(box["x"] + 300, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + 500, box["y"] + 120, steps=5)
    page.mouse.up()
    page.get_by_role("button", name="Peak of the selection").wait_for()
    tab.settle()
    assert "time" in address(page)
    assert page.locator(".moments [aria-pressed=true]").first.inner_text() == "Peak of the selection"
    page.get_by_role("button", name="Clear the selection").click()
    tab.settle()
    assert "time" not in address(page)


def test_it_zooms_and_shows_events_instead_of_time(page: Any) -> None:
    whole = pixels(page, ".bands")
    page.locator(".bands canvas").focus()
    page.keyboard.press("+")
    page.wait_for_timeout(400)
    closer = pixels(page, ".bands")
    assert closer != whole
    page.keyboard.press("0")
    page.wait_for_timeout(100)
    assert pixels(page, ".bands") == whole
    other = "Events" if page.locator(".segments.small [aria-pressed=true]").inner_text() == "Time" else "Time"
    page.get_by_role("button", name=other, exact=True).click()
    page.wait_for_timeout(500)
    assert pixels(page, ".bands") != whole


def test_a_click_on_a_block_shows_who_asked_for_it(page: Any) -> None:
    box = page.locator(".heap canvas").bounding_box()
    for x in range(4, int(box["width"]), 9):
        page.mouse.click(box["x"] + x, box["y"] + 29)
        if page.locator(".allocation").count() or page.wait_for_timeout(60):
            break
    page.locator(".allocation").wait_for()
    words = page.locator(".allocation").inner_text()
    assert "requested" in words
    assert ":" in words


def test_a_category_can_be_seen_alone(page: Any) -> None:
    bands, heap = pixels(page, ".bands"), pixels(page, ".heap")
    first = page.locator(".block-allocator .key button").first
    first.click()
    assert first.get_attribute("aria-pressed") == "true"
    page.mouse.move(0, 0)
    page.wait_for_timeout(200)
    assert pixels(page, ".bands") != bands
    assert pixels(page, ".heap") != heap


def test_a_report_has_the_bands_and_the_heap_of_some_instants(tab: Tab, trained: Path, tmp_path: Path) -> None:
    from kinetoscope.cli import main

    path = tmp_path / "report.html"
    assert main(["report", str(trained), "-o", str(path), "--sections", "memory"]) == 0
    tab.address = "file:"
    tab.page.goto(path.as_uri())
    ready(tab.page)
    at_peak = said(tab.page)
    tab.page.get_by_role("button", name="Snapshot").click()
    moved(tab.page, at_peak)
    box = tab.page.locator(".bands canvas").bounding_box()
    tab.page.mouse.click(box["x"] + 300, box["y"] + 100)
    tab.page.wait_for_timeout(300)
    assert "reserved" in said(tab.page)
