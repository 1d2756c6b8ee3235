"""Every golden value of the predecessors against our answer: equal, or different by name.

The rows are in `outcomes.tsv`; `python -m tests.golden` makes them anew, and the page with them.
"""

from __future__ import annotations

import pytest

from kinetoscope import ANALYSES
from tests.golden import hta, page, plugin
from tests.golden.differences import DIFFERENCES
from tests.golden.rows import Row, expected, names, outcome, rows

EXPECTED = expected()
PRESENT = hta.FOLDER.is_dir() and plugin.FOLDER.is_dir()
ABSENT = f"no {hta.FOLDER.parent}: golden values and their traces are not part of the project"
needs_golden = pytest.mark.skipif(not PRESENT, reason=ABSENT)
FILES = sorted({(row.peer, row.name) for row in EXPECTED})


@needs_golden
@pytest.mark.slow
@pytest.mark.parametrize(("peer", "name"), FILES, ids=["/".join(each) for each in FILES])
def test_all_of_a_golden_file_comes_to_what_the_table_says(peer: str, name: str) -> None:
    rows = {row: said for row, said in EXPECTED.items() if (row.peer, row.name) == (peer, name)}
    assert {str(row): came for row, said in rows.items() if (came := _outcome(row)) != said} == {}


def _outcome(row: Row) -> str:
    try:
        return str(outcome(row))
    except AssertionError as error:
        return str(error)


@needs_golden
def test_no_golden_value_is_forgotten() -> None:
    assert set(rows()) == set(EXPECTED)


def test_each_difference_has_a_reason_and_each_reason_a_difference() -> None:
    used = {(row.peer, name) for row, said in EXPECTED.items() for name in names(said)}
    assert used == {(each.peer, each.name) for each in DIFFERENCES}
    assert len(used) == len(DIFFERENCES)
    for each in DIFFERENCES:
        assert each.what.endswith(".")
        assert each.why.endswith(".")


def test_the_answers_are_those_of_analyses() -> None:
    known = {analysis.name for analysis in ANALYSES}
    assert {row.analysis for row in EXPECTED} - {"-"} <= known


def test_the_page_says_what_the_table_says() -> None:
    print(page.counts(EXPECTED))
    assert page.PAGE.read_text() == page.text(EXPECTED), "run `python -m tests.golden`"
