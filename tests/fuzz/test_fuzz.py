"""Some of the documents in every run of the tests; `python -m tests.fuzz` for as many as one likes."""

from __future__ import annotations

import pytest

from tests.conftest import first_quick
from tests.fuzz.running import one


@pytest.mark.slow
@pytest.mark.parametrize("seed", first_quick(range(60)))
def test_every_verb_answers_or_refuses_in_one_line(seed: int) -> None:
    assert not one(seed)[2], f"alone: python -m tests.fuzz 1 {seed}"
