"""Every golden value of the predecessors against our answer: equal, or different by name.

The rows are in `outcomes.tsv`; `python -m tests.golden` makes them anew, and the page with them.
"""

from __future__ import annotations

import pytest

from kinetoscope import ANALYSES
from tests.golden import hta, page, plugin
from tests.golden.differences import DIFFERENCES
from tests.golden.outcome import CannotApply
from tests.golden.rows import Row, expected, kind, names, outcome, rows

EXPECTED = expected()
PRESENT = hta.FOLDER.is_dir() and plugin.FOLDER.is_dir()
ABSENT = f"no {hta.FOLDER.parent}: golden values and their traces are not part of the project"
needs_golden = pytest.mark.skipif(not PRESENT, reason=ABSENT)
COMPARED = sorted(row for row, said in EXPECTED.items() if kind(said) is not CannotApply)


@needs_golden
@pytest.mark.parametrize("row", COMPARED if PRESENT else [], ids=str)
def test_it_comes_to_what_the_table_says(row: Row) -> None:
    assert str(outcome(row)) == EXPECTED[row]


@needs_golden
def test_no_golden_value_is_forgotten() -> None:
    assert set(rows()) == set(EXPECTED)


@needs_golden
def test_what_cannot_be_compared_still_cannot() -> None:
    reasons = {row: said for row, said in EXPECTED.items() if kind(said) is CannotApply}
    assert {row: str(outcome(row)) for row in reasons} == reasons


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
