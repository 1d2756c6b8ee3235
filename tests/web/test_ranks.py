"""Rows of one rank, and rows of several, cannot be taken for one another; what is chosen can be undone."""

from __future__ import annotations

import pytest

from tests.web.conftest import Served, Tab

pytestmark = pytest.mark.slow

JOB = "dlrm_ddp_v100_8rank"


def heads(tab: Tab, label: str) -> list[str]:
    """The first columns of a table."""
    grid = tab.page.get_by_role("grid", name=label)
    grid.get_by_role("columnheader").first.wait_for()
    return [text.strip() for text in grid.get_by_role("columnheader").all_text_contents()]


def test_the_column_of_the_rank_comes_and_goes(at_theirs: Tab, theirs: Served) -> None:
    run = theirs.run(JOB)
    at_theirs.open(run, "kernels")
    assert heads(at_theirs, "All kernels and copies")[0] == "name"
    at_theirs.page.get_by_role("button", name="rank 0 of 8").click()
    at_theirs.page.get_by_role("button", name="All ranks").click()
    at_theirs.page.get_by_text("sum over 8 ranks", exact=True).wait_for()
    at_theirs.settle()
    assert heads(at_theirs, "All kernels and copies")[0] == "ranks"
    at_theirs.page.get_by_role("button", name="a row for each").click()
    at_theirs.settle()
    assert heads(at_theirs, "All kernels and copies")[0] == "rank"
    at_theirs.open(run, "kernels", "?rank=3")
    assert heads(at_theirs, "All kernels and copies")[0] == "name"


def test_a_rank_that_is_not_there_is_no_dead_end(at_theirs: Tab, theirs: Served) -> None:
    at_theirs.page.goto(f"{at_theirs.address}/#/{theirs.run(JOB)}/overview?rank=99")
    at_theirs.page.get_by_role("button", name="Show all").click()
    at_theirs.settle()
    assert at_theirs.sentence.startswith("A step takes")
    at_theirs.errors.clear()  # the browser says that it was refused


def test_a_damaged_file_says_so_above_every_view(at_theirs: Tab, theirs: Served) -> None:
    run = theirs.run("broken/truncated")
    for view in ("overview", "timeline", "kernels"):
        at_theirs.open(run, view)
        assert "This file is damaged" in str(at_theirs.page.get_by_role("alert").first.text_content())
