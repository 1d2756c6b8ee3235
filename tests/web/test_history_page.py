"""The page of a whole run in a browser: it opens with it, a drag selects a stretch, it goes on while the job runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.history.drawn import Noise, Planted, Run, draw
from tests.history.written import blocks, records, write, write_run
from tests.server.serving import serving
from tests.web.conftest import Served, Tab

pytestmark = pytest.mark.slow

PLANTED = (Planted("shift", 1200, (1,), "data", 0.2), Planted("period", 0, None, "gap", 5, 200, "save"))
CANVAS = ".block-history canvas"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    noise = Noise(deviation=0.01, own=0.003, outliers=0)
    write_run(tmp_path / "ended", draw(Run("drawn", steps=2000, ranks=4, noise=noise, planted=PLANTED), 1))
    write(tmp_path / "growing", records(300))
    return tmp_path


@pytest.fixture
def at(tab: Tab, folder: Path) -> Iterator[Tab]:
    with serving(folder) as client:
        served = Served(client)
        tab.address = served.address
        tab.page.set_viewport_size({"width": 1280, "height": 720})
        tab.runs = {name: served.run(name) for name in ("ended", "growing")}  # type: ignore[attr-defined]
        yield tab
        tab.page.goto("about:blank")  # the server of the tests waits for open streams


def opened(at: Tab, run: str) -> None:
    at.page.goto(f"{at.address}/#/{at.runs[run]}")  # type: ignore[attr-defined]
    at.page.locator(CANVAS).wait_for()
    at.page.locator(".block-bars").wait_for()
    at.settle()


def test_a_history_alone_opens_with_it(at: Tab) -> None:
    opened(at, "ended")
    assert "From step 1,200 on, rank 1 takes" in at.sentence
    assert at.page.locator(".history-age").inner_text() == "The run has ended."
    at.shot("history")
    at.page.emulate_media(color_scheme="dark")
    at.page.wait_for_timeout(300)
    at.shot("history-dark")


def test_two_histories_are_compared(at: Tab) -> None:
    runs = at.runs  # type: ignore[attr-defined]
    at.page.goto(f"{at.address}/#/{runs['ended']}/compare?base={runs['growing']}")
    at.page.locator(".block-bars").wait_for()
    assert at.sentence.startswith("A step takes")
    assert "rest of the step" in at.page.locator("main").inner_text().lower()
    at.shot("compare-histories")


def test_a_drag_selects_steps_and_escape_clears_them(at: Tab) -> None:
    opened(at, "ended")
    box = at.page.locator(CANVAS).bounding_box()
    assert box is not None
    y = box["y"] + 120
    at.page.mouse.move(box["x"] + 600, y)
    assert "median of the ranks" in at.page.locator("#tip").inner_text()
    at.page.mouse.down()
    at.page.mouse.move(box["x"] + 750, y, steps=4)
    at.page.mouse.up()
    at.page.get_by_text("in the whole run").wait_for()
    assert "p.from=" in at.page.url
    at.shot("history-stretch")
    at.page.locator(CANVAS).focus()
    for key in ("f", "s", "w", "a", "d", "Escape"):
        at.page.keyboard.press(key)
    at.page.get_by_text("in the whole run").wait_for(state="detached")
    assert "p.from=" not in at.page.url


def test_it_goes_on_while_the_job_runs(at: Tab, folder: Path) -> None:
    opened(at, "growing")
    assert "The newest step ended" in at.page.locator(".history-age").inner_text()
    [file] = (folder / "growing" / "history").iterdir()
    rows = records(900, first=300)
    last = int(rows["start"][-1])
    with file.open("ab") as stream:
        stream.write(blocks(rows))
        stream.flush()
        at.page.get_by_text("1,200 steps").wait_for(timeout=20_000)
        write(folder / "growing", records(1200), [("end", None, 1199, last, last, None)])
    at.page.get_by_text("The run has ended.").wait_for(timeout=20_000)
