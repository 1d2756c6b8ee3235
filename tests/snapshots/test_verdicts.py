"""What is said of jobs whose cause is known is right, and never wrong without reserve."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.snapshots import failing
from tests.snapshots.case import Case
from tests.snapshots.verdicts import judge, judged

QUICK = ["batch too large", "lengths vary", "graph, no text", "another process"]


@pytest.mark.parametrize("case", [case for case in failing.CASES if case.name in QUICK], ids=lambda case: case.name)
def test_why_it_ran_out(case: Case, tmp_path: Path) -> None:
    assert judge(case, tmp_path).is_right


@pytest.mark.slow
def test_why_all_ran_out() -> None:
    wrong = [verdict for verdict in judged(failing.CASES) if not verdict.is_right]
    assert not wrong, "\n".join(map(str, wrong))
