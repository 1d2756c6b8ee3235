"""Rules whose stakes follow from floors: on simulated programs they find the fault, and leave the twin alone."""

from __future__ import annotations

import pytest

from tests.faults.case import Case
from tests.faults.cases import cases, healthy
from tests.faults.judging import advised, judged, warnings

_CODES = ("DEVICE009", "DEVICE010", "DEVICE011", "DEVICE012", "MEMORY007", "RANKS010")


@pytest.mark.parametrize("case", [next(each for each in cases() if each.code == code) for code in _CODES], ids=_CODES)
def test_a_fault_is_named_and_its_promise_kept_and_its_twin_left_alone(case: Case) -> None:
    found = judged(case)
    assert found.found
    assert found.kept
    assert found.false == ()
    assert case.code not in {each.code for each in advised(case.fixed)[0].findings}


def test_recomputation_that_memory_needs() -> None:
    [program] = [each for each in healthy() if each.name == "activations computed again where memory needs it"]
    assert warnings(program) == ()
