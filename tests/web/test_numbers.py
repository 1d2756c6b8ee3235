"""The numbers on the page are those of the library."""

from __future__ import annotations

import pytest

from kinetoscope.analyses import named
from kinetoscope.model.steps.selection import Selection
from kinetoscope.reading import read
from kinetoscope.views.numbers import scale
from tests.conftest import OURS
from tests.web.conftest import Served, Tab

pytestmark = pytest.mark.slow

MLP = OURS / "mlp.pt.trace.json.gz"
STEADY = Selection(steps="steady")


def cells(tab: Tab, label: str) -> list[list[str]]:
    """The rows that are in view of the table of this name."""
    grid = tab.page.get_by_role("grid", name=label, exact=True)
    grid.scroll_into_view_if_needed()
    tab.settle()
    rows = [
        [text.strip() for text in row.get_by_role("gridcell").all_inner_texts()]
        for row in grid.get_by_role("row").all()
    ]
    return [row for row in rows if row]


def test_a_table_shows_the_rows_of_the_library(at_ours: Tab, ours: Served) -> None:
    at_ours.open(ours.run("mlp"), "operators")
    rows = cells(at_ours, "All operators")
    frame = named("operators")(read(str(MLP)), select=STEADY).frame.sort(
        "host_self", descending=True, maintain_order=True
    )
    unit = scale(frame.get_column("host_self").to_list(), "ns")
    assert len(rows) >= 10
    for row, (calls, own) in zip(rows, frame.select("calls", "host_self").iter_rows(), strict=False):
        assert unit.text(own) in row
        assert scale([calls], "").text(calls) in row


def test_the_bar_of_the_average_step(at_ours: Tab, ours: Served) -> None:
    at_ours.open(ours.run("mlp"), "overview")
    steps = named("step_breakdown")(read(str(MLP)), select=STEADY).frame
    mean = steps.get_column("duration").mean()
    assert isinstance(mean, float)
    assert scale([mean], "ns").with_unit(mean) in at_ours.sentence
    text = at_ours.page.locator(".block-parts").inner_text()
    host = steps.get_column("host").cast(float).mean()
    assert isinstance(host, float)
    assert scale([host], "ns").with_unit(host).replace("\u00a0", " ") in text.replace("\u00a0", " ")


def test_chosen_steps_are_obeyed(at_ours: Tab, ours: Served) -> None:
    steps = named("step_breakdown")(read(str(MLP))).frame
    number, duration = steps.select("step", "duration").row(1)
    at_ours.open(ours.run("mlp"), "overview", f"?steps={number}")
    assert scale([duration], "ns").with_unit(duration) in at_ours.sentence
