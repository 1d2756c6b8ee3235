"""The greedy search, with programs that are drawn by chance instead of run: what it keeps, and how often by mistake."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from collections.abc import Callable, Mapping

import pytest

from kinetoscope.compare.trials.runs import TimedRun
from kinetoscope.trying.search import Changes, Search

STEP = 30e6


class Simulated:
    """A program whose step is `STEP` times a factor of the changes; runs differ by `between`, steps by `within`."""

    def __init__(
        self,
        factor: Callable[[Changes], float],
        seed: int = 0,
        *,
        between: float = 0.01,
        within: float = 0.05,
        failing: Mapping[str, str] | None = None,
        bursts: tuple[int, ...] = (),
    ) -> None:
        self.rng = random.Random(seed)
        self.factor, self.between, self.within = factor, between, within
        self.failing, self.bursts = failing or {}, bursts
        self.runs: list[Changes] = []

    def __call__(self, changes: Changes, stage: str, number: int) -> TimedRun:
        del stage, number
        self.runs.append(changes)
        for each in changes:
            if each in self.failing:
                return TimedRun(problem=self.failing[each])
        of_run = STEP * self.factor(changes) * math.exp(self.rng.gauss(0, self.between))
        if len(self.runs) in self.bursts:
            of_run *= 6
        return TimedRun(steps=tuple(round(of_run * math.exp(self.rng.gauss(0, self.within))) for _ in range(38)))


def searched(program: Simulated, *candidates: str, **options: object) -> Search:
    search = Search(program, lambda _: "", **options)  # type: ignore[arg-type]
    search.run([tuple(each.split("+")) for each in candidates])
    return search


def product(**factors: float) -> Callable[[Changes], float]:
    return lambda changes: math.prod(factors.get(each, 1.0) for each in changes)


def test_what_helps_is_kept_and_the_rest_is_not() -> None:
    search = searched(Simulated(product(a=0.7, b=1.0, c=1.4, d=0.9)), "a", "b", "c", "d")
    assert search.accepted == ("a", "d")
    assert {each.new[-1]: each.word for each in search.tried} == {
        "a": "gain", "b": "no gain", "c": "slower", "d": "gain"
    }  # fmt: skip
    assert search.final is not None
    assert search.final.change is not None
    assert search.final.change.low <= 0.63 - 1 <= search.final.change.high


def test_what_loses_is_out_after_two_rounds() -> None:
    program = Simulated(product(a=1.5))
    searched(program, "a")
    assert len(program.runs) == 4


def test_two_that_need_each_other_are_kept_together() -> None:
    def factor(changes: Changes) -> float:
        return 0.6 if {"workers", "threads"} <= {*changes} else 1.02 if changes else 1.0

    search = searched(Simulated(factor), "workers", "workers+threads", "threads")
    assert search.accepted == ("workers", "threads")
    assert set(search.without) == {"workers", "threads"}


def test_what_helps_only_on_top_of_a_later_one_is_tried_again() -> None:
    def factor(changes: Changes) -> float:
        """The loader takes 85 of 100, and the optimizer 10, of which the change takes 8."""
        return (0.05 if "loader" in changes else 0.85) + 0.05 + (0.02 if "optimizer" in changes else 0.1)

    search = searched(Simulated(factor, within=0.02, between=0.03), "optimizer", "loader")
    assert search.accepted == ("loader", "optimizer")


def test_a_change_that_brings_nothing_in_the_end_is_taken_away() -> None:
    def factor(changes: Changes) -> float:
        return 0.5 if "b" in changes else 0.8 if "a" in changes else 1.0

    search = searched(Simulated(factor), "a", "b")
    assert search.accepted == ("b",)
    assert search.removed == ("a",)
    assert search.final is not None
    assert search.final.new == ("b",)


def test_a_failing_change_costs_the_others_nothing() -> None:
    search = searched(Simulated(product(b=0.8), failing={"a": "it ran out of memory"}), "a", "b")
    assert search.accepted == ("b",)
    assert search.tried[0].word == "failed"
    assert search.tried[0].problem == "it ran out of memory"


def test_a_disturbed_run_is_run_again() -> None:
    program = Simulated(product(a=1.0), bursts=(5,))  # the third round's first
    search = searched(program, "a")
    assert search.accepted == ()
    assert max(run.typical for each in search.tried for run in (*each.of_base, *each.of_new)) < 2 * STEP


@pytest.mark.parametrize("burst", [1, 2, 3, 4, 5])
def test_a_burst_in_an_early_run_hides_no_gain(burst: int) -> None:
    assert searched(Simulated(product(a=0.6), bursts=(burst,)), "a").accepted == ("a",)


def test_what_excludes_another_takes_its_place() -> None:
    search = searched(
        Simulated(lambda changes: {"bs=1": 0.9, "bs=2": 0.7}.get(changes[-1] if changes else "", 1.0)),
        "bs=1", "bs=2", conflicts=lambda one, other: one[:2] == other[:2],
    )  # fmt: skip
    assert search.accepted == ("bs=2",)
    assert search.tried[1].base == ("bs=1",)


def test_without_time_nothing_more_is_run() -> None:
    program = Simulated(product(a=0.5))
    search = searched(program, "a", has_time=lambda _: False)
    assert (search.skipped, program.runs, search.accepted) == ([("a",)], [], ())


def test_an_objection_keeps_a_gain_out() -> None:
    search = Search(Simulated(product(a=0.5)), lambda _: "its loss is another")
    search.run([("a",)])
    assert search.accepted == ()
    assert search.tried[0].word == "gain"


@pytest.mark.parametrize(("between", "within"), [(0.005, 0.03), (0.02, 0.05), (0.05, 0.1), (0.2, 0.1)])
def test_a_change_without_effect_is_seldom_kept(between: float, within: float) -> None:
    """False gains among changes that do nothing: at most one of forty."""
    kept = sum(
        len(searched(Simulated(product(), seed, between=between, within=within), "a").accepted) for seed in range(200)
    )
    assert kept <= 200 / 40


def test_what_the_next_recording_asks_for_is_tried_on_top() -> None:
    program = Simulated(product(a=0.5, b=0.8, c=1.0))
    search = Search(program, lambda _: "", more=lambda kept: [("b",), ("a",)] if kept == ("a",) else [("c",)])
    search.run([("a",)])
    assert search.accepted == ("a", "b")
    assert [each.new[-1] for each in search.tried] == ["a", "b", "c"]


def test_the_driver_needs_no_torch() -> None:
    """The program that is tried may have an interpreter of its own."""
    program = "import sys, kinetoscope.cli.trying, kinetoscope.trying.session; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
