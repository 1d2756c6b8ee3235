"""The page of a hang in a browser: dumps alone open with it, the picture has a row for ranks that are alike."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.hangs.scoring import job
from tests.server.serving import serving
from tests.web.conftest import Served, Tab

pytestmark = pytest.mark.slow

JOBS = {"four": ("sizes-tp", 16), "cycle": ("order-of-groups", 16), "many": ("missing", 1024)}
"""Cause and ranks of generated jobs."""


@pytest.fixture(scope="module")
def hangs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Dumps of the ranks of each job in a folder, and the trace of a program that does not hang."""
    folder = tmp_path_factory.mktemp("runs")
    for name, (cause, ranks) in JOBS.items():
        (folder / name).mkdir()
        _, _, dumps = job(cause, ranks, seed=0)
        for rank, dump in dumps.dumps.items():
            (folder / name / f"nccl_trace_rank_{rank}").write_text(json.dumps(dump))
    with serving(folder) as client:
        yield Served(client)


@pytest.fixture
def at(tab: Tab, hangs: Served) -> Tab:
    tab.address = hangs.address
    tab.page.set_viewport_size({"width": 1280, "height": 720})
    return tab


def picture(at: Tab) -> Any:
    return at.page.locator("section.block", has_text="Who is where").locator("svg, canvas").first


def test_dumps_alone_open_with_the_hang(at: Tab, hangs: Served) -> None:
    at.page.goto(f"{at.address}/#/{hangs.run('four')}")
    picture(at).wait_for()
    at.settle()
    assert "/hang" in at.page.url
    assert "with other sizes than" in at.sentence
    views = at.page.locator("nav").first.get_by_role("link").all_text_contents()
    assert views == ["Hang", "All analyses", "SQL"]
    at.shot("hang")


def test_a_cycle_is_drawn(at: Tab, hangs: Served) -> None:
    at.open(hangs.run("cycle"), "hang")
    at.page.locator("section.block", has_text="in a cycle").locator("svg, canvas").first.wait_for()
    at.shot("hang-cycle")


def test_many_ranks_fit_on_a_screen(at: Tab, hangs: Served) -> None:
    for how in ("where no dump is read yet", "where all are read"):
        began = time.perf_counter()
        at.page.goto(f"{at.address}/#/{hangs.run('many')}/hang")
        picture(at).wait_for(timeout=120_000)
        print(f"the picture of 1,024 ranks is there after {time.perf_counter() - began:.1f} s, {how}")
        at.settle()
        at.page.goto("about:blank")
    at.open(hangs.run("many"), "hang")
    picture(at).wait_for()
    box = picture(at).bounding_box()
    assert box["height"] < 720
    assert box["x"] + box["width"] <= 1280
    at.shot("hang-1024")


def test_a_run_without_records_has_no_such_view(at_ours: Tab, ours: Served) -> None:
    at_ours.open(ours.run("transformer"), "overview")
    assert "Hang" not in at_ours.page.locator("nav").first.get_by_role("link").all_text_contents()
