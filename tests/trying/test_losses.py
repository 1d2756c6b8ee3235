"""Losses under a change: equal, close, different, not a number, or nothing to compare with."""

from __future__ import annotations

import math

import pytest

from kinetoscope.compare.trials.runs import TimedRun
from kinetoscope.record.trials.trial import Edit, Trial
from kinetoscope.trying.losses import difference_of, objection
from kinetoscope.trying.search import Comparison


def trial(name: str, **more: object) -> Trial:
    given = {"title": name, "answers": (), "put_in": print, "effect": "rounding", "edit": Edit(), **more}
    return Trial(name=name, **given)  # type: ignore[arg-type]


TRIALS = {each.name: each for each in (trial("a"), trial("coarse", loss_within=0.02), trial("b", effect="training"))}
BASE = (2.0, 1.5, 1.0)


def compared(losses: tuple[float | None, ...], name: str = "a", own: tuple[float, ...] = BASE) -> tuple[str, int, str]:
    comparison = Comparison((), (name,), (TimedRun(losses=BASE),), (TimedRun(losses=losses),))
    base = [TimedRun(losses=BASE), TimedRun(losses=own)]
    difference = difference_of(comparison, TRIALS, base)
    return difference.word, difference.step, objection(comparison, TRIALS, base)


def test_what_rounding_explains_in_the_first_step_that_differs() -> None:
    assert compared(BASE) == ("equal", 0, "")
    assert compared((2.0, 1.5 + 1e-6, 1.3)) == ("close", 2, "")  # a difference grows from there
    word, step, why = compared((2.0, 1.51, 1.0))
    assert (word, step) == ("different", 2)
    assert why == "its loss differs by 6.6e-03 in step 2, where 1e-05 is explained by rounding"


def test_a_trial_says_how_much_it_may_change() -> None:
    assert compared((2.01, 1.5, 1.0), "coarse") == ("close", 1, "")
    assert compared((2.1, 1.5, 1.0), "coarse")[2] == "its loss differs by 4.8e-02 in step 1"
    assert compared((5.0, 4.0, 3.0), "b") == ("close", 1, "")


@pytest.mark.parametrize("name", [*TRIALS, "a variant"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_number_is_never_kept(name: str, value: float) -> None:
    assert compared((2.0, value, value), name)[2] == "its loss is not a number any more"
    assert compared((2.0, value, value), name, own=(2.1, 1.5, 1.0))[2] == "its loss is not a number any more"


def test_a_program_without_a_seed_says_nothing() -> None:
    assert compared((1.0, 1.0, 1.0), own=(2.1, 1.5, 1.0)) == ("unknown", 1, "")
    assert compared((None, None, None)) == ("unknown", 0, "")
