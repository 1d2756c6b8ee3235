"""The table of analyses beside those of the peers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import kinetoscope
from benchmarks.analyses import SAME_QUESTION, Took, beside, took

TRACE = Path(__file__).parents[1] / "traces" / "mlp_default.pt.trace.json.gz"


@pytest.mark.slow
def test_every_analysis_is_measured() -> None:
    found = took("kinetoscope", Path(sys.executable), TRACE, repeat=1, timeout=300)
    assert [each.error for each in found if each.error] == []
    assert next(each.count for each in found if each.name == "events") > 100
    assert {analysis.name for analysis in kinetoscope.ANALYSES} <= {each.name for each in found if each.seconds}


@pytest.mark.slow
def test_what_fails_stands_in_the_table_with_its_reason() -> None:
    [failed] = took("kinetoscope", Path(sys.executable), TRACE.with_name("absent.json"), repeat=1, timeout=300)
    assert failed.seconds is None
    assert "absent.json" in failed.error


def test_a_peer_stands_below_what_answers_the_same_question() -> None:
    ours = [Took("events", 0.0, count=9), Took("overlap", 0.5), Took("flame", 0.25)]
    peers = {"HTA": [Took("get_comm_comp_overlap", 2.0), Took("something else", error="TypeError: no")]}
    rows = [line.split() for line in beside(ours, peers)[1:]]
    assert rows == [
        ["overlap", "0.500"],
        ["HTA", "get_comm_comp_overlap", "2.000", "4.0"],
        ["flame", "0.250"],
        ["HTA", "something", "else", "TypeError:", "no"],
    ]


def test_our_names_are_those_of_analyses() -> None:
    assert set(SAME_QUESTION.values()) <= {analysis.name for analysis in kinetoscope.ANALYSES}
