"""Some of the documents in every run of the tests; `python -m tests.fuzz` for as many as one likes."""

from __future__ import annotations

import pytest

from tests.conftest import first_quick
from tests.fuzz.running import one

AT_ONCE = 3


@pytest.mark.parametrize("first", first_quick(range(0, 60, AT_ONCE)))
def test_every_verb_answers_or_refuses_in_one_line(first: int) -> None:
    wrong = {seed: found for seed in range(first, first + AT_ONCE) if (found := one(seed)[2])}
    alone = "; ".join(f"alone: python -m tests.fuzz 1 {seed}" for seed in wrong)
    assert not wrong, alone
