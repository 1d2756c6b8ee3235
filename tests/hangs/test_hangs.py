"""The verdict on generated jobs whose cause is known."""

from __future__ import annotations

import pytest

from tests.hangs.causes import CAUSES
from tests.hangs.scoring import score

HANDFUL = ("missing", "killed", "skipped-tp", "sizes-dp", "order-of-groups", "no-receive", "moving")


@pytest.mark.parametrize("cause", HANDFUL)
def test_the_verdict_on_a_small_job(cause: str) -> None:
    said = score(cause, 8, 1)
    assert said.mark == "right", said


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [8, 64])
def test_of_all_causes_nearly_all_are_right_and_nothing_wrong_is_sure(ranks: int) -> None:
    scores = [score(cause, ranks, seed) for cause in CAUSES for seed in range(100, 102 if ranks > 8 else 105)]
    assert not [each for each in scores if each.is_wrongly_sure]
    assert sum(each.mark == "right" for each in scores) >= 0.98 * len(scores)
