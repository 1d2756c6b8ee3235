"""Verdicts on jobs with known causes are right, and never wrong without reservation."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinetoscope import advise, read
from tests.snapshots.case import Case
from tests.snapshots.verdicts import CASES, judge, judged
from tests.snapshots.writing import write

QUICK = ["batch too large", "lengths vary", "graph, no text", "outputs in a list", "bounded queue"]


@pytest.mark.parametrize("case", [case for case in CASES if case.name in QUICK], ids=lambda case: case.name)
def test_some_jobs(case: Case, tmp_path: Path) -> None:
    assert judge(case, tmp_path).is_right


@pytest.mark.slow
def test_all_jobs() -> None:
    wrong = [verdict for verdict in judged(CASES) if not verdict.is_right]
    assert not wrong, "\n".join(map(str, wrong))


def test_a_leak_is_advice_where_no_steps_are_marked(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == "no steps marked")
    path = write(tmp_path / "snapshot.pickle", case.run()[0].snapshot())
    (finding,) = (each for each in advise(read(path)).findings if each.code == "MEMORY005")
    assert case.line in finding.message
