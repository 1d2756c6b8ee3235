"""Forty of the runs of `make chaos`, always the same."""

from __future__ import annotations

import pytest

from tests.record import chaos_programs
from tests.record.chaos import complaints, drawn

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("seed", range(20))
def test_a_job_to_which_things_happen_is_as_without_us(seed: int) -> None:
    assert complaints(seed) == []


@pytest.mark.parametrize("seed", range(20))
def test_a_program_that_does_things_is_as_without_us(seed: int) -> None:
    assert chaos_programs.complaints(seed) == []


@pytest.mark.parametrize("seed", range(20, 32))
def test_a_program_that_is_watched_for_hangs_is_as_without_us(seed: int) -> None:
    assert chaos_programs.complaints(seed, **chaos_programs.WATCHED) == []


@pytest.mark.parametrize("seed", range(32, 40))
def test_a_program_whose_history_is_kept_is_as_without_us(seed: int) -> None:
    assert chaos_programs.complaints(seed, history=True) == []


def test_the_twenty_see_a_bit_of_everything() -> None:
    plans = [drawn(seed) for seed in range(20)]
    assert {plan.how for plan in plans} == {"profile", "recorder", "handler"}
    for fact in ("workers", "limit", "tmpfs", "stack"):
        assert any(getattr(plan, fact) for plan in plans), fact
    assert any(plan.killed_at >= 0 for plan in plans)
    assert any(plan.fails_at >= 0 for plan in plans)


def test_the_twenty_do_a_bit_of_everything() -> None:
    happenings = [chaos_programs.drawn(seed) for seed in range(20)]
    assert len({happening.what for happening in happenings}) >= 8
