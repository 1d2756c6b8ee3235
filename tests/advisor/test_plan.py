"""The plan: in which order findings save most, and that its sums are one replay of all of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import kinetoscope
from kinetoscope.advisor.advice import advise
from kinetoscope.advisor.finding import Finding, Stake
from kinetoscope.advisor.laws import lawful
from kinetoscope.advisor.plan import AdvicePlan, plan
from kinetoscope.advisor.plan_of_rank import candidate, plan_of_rank
from kinetoscope.advisor.rule import RankView
from kinetoscope.advisor.rules import our_rules
from kinetoscope.advisor.run_rules import run_rules
from kinetoscope.model.critical_path.joint import joined
from kinetoscope.model.critical_path.path import CAUSES
from kinetoscope.model.critical_path.what_if import Factors
from kinetoscope.model.steps.selection import ALL, default_to_steady
from tests.advisor.views import STEP, rank_view, steps
from tests.catalog.samples import everywhere, job_of, samples
from tests.drawn import Event, kernel, launch

PAIR = 200_000
"""ns between the launches of two kernels in a drawn step, and those of the next two."""

KERNEL = 70_000

ROUNDING = 2.0
"""ns."""


def launching(count: int) -> list[Event]:
    """Steps in which the host launches five times two kernels: it sets the pace, and devices work 70 % of the time."""
    begins = [n * STEP + PAIR // 2 + place * PAIR for n in range(count) for place in range(STEP // PAIR)]
    events = steps(count)
    for number, begin in enumerate(begins):
        events += [launch(begin, 5_000, 2 * number + 1), launch(begin + 10_000, 5_000, 2 * number + 2)]
        events += [kernel("gemm", begin + 6_000, KERNEL, 2 * number + 1)]
        events += [kernel("gemm", begin + 6_500 + KERNEL, KERNEL, 2 * number + 2)]
    return events


def finding(rank: RankView, factors: Factors | None, code: str, low: float = 1.0, **fields: object) -> Finding:
    """A finding that promises what its replay says, or a part of it at the lower end."""
    whole = STEP / 10 if factors is None else rank.per_step(float(rank.gains(factors).sum()))
    return Finding(f"{code} is slow.", Stake(low * whole, whole), factors=factors, code=code, **fields)  # type: ignore[arg-type]


@pytest.fixture
def rank(tmp_path: Path) -> RankView:
    return rank_view(tmp_path, *launching(6))


def faster_host(rank: RankView, left: float) -> Factors:
    factors = rank.factors()
    factors.host[:] = factors.outside = left
    return factors


def faster_kernels(rank: RankView, left: float) -> Factors:
    factors = rank.factors()
    factors.work[:] = left
    return factors


def test_faster_kernels_save_little_until_the_host_is_faster(rank: RankView) -> None:
    host, device = (
        finding(rank, faster_host(rank, 0.5), "A1"),
        finding(rank, faster_kernels(rank, 0.5), "B1", time=rank.busy),
    )
    first, second = plan_of_rank(rank, [device, host])
    assert (first.finding.code, second.finding.code) == ("A1", "B1")
    assert (first.least, first.most) == (first.alone.low, first.alone.high)
    assert second.alone.high < KERNEL / 2
    assert second.most > 2 * KERNEL
    together = joined(rank.trace, [(candidate(rank, each).change, 1.0) for each in (host, device)])  # type: ignore[misc]
    assert first.most + second.most == pytest.approx(rank.per_step(float(rank.gains(together).sum())), abs=ROUNDING)
    assert CAUSES[int(np.argmax(first.causes))] == "computation"
    assert CAUSES[int(np.argmax(second.causes))] == "host"
    assert second.device == pytest.approx(10 * KERNEL / 2, rel=0.01)


def test_a_part_of_a_change_saves_the_lower_end(rank: RankView) -> None:
    only = finding(rank, faster_host(rank, 0.5), "A1", low=0.3)
    [alone] = plan_of_rank(rank, [only])
    assert (alone.least, alone.most) == pytest.approx((only.stake.low, only.stake.high), abs=ROUNDING)
    parts = candidate(rank, only)
    assert 0 < parts.parts[0] < parts.parts[1] == 1.0
    assert 0.99 * only.stake.low < parts.saved[0] <= only.stake.low


def test_the_same_change_twice_saves_nothing_more(rank: RankView) -> None:
    first, second = plan_of_rank(rank, [finding(rank, faster_host(rank, 0.5), code) for code in ("A1", "B1")])
    assert (first.finding.code, second.finding.code) == ("A1", "B1")
    assert first.most > 0
    assert (second.least, second.most, second.alone) == (0, 0, first.alone)


def test_what_no_replay_says_saves_what_is_promised_as_far_as_time_is_left(rank: RankView) -> None:
    host = finding(rank, faster_host(rank, 0.0), "A1")
    other = finding(rank, None, "B1")
    room = rank.step_time.room([])
    first, second = plan_of_rank(rank, [other, host])
    assert first.finding.code == "A1"
    assert second.most == pytest.approx(min(other.stake.high, room - first.most), abs=ROUNDING)
    assert first.causes
    assert not second.causes


def test_what_gives_way_comes_last_unless_it_is_replayed(rank: RankView) -> None:
    large = finding(rank, None, "A1", overlap_priority=2)
    small = finding(rank, faster_kernels(rank, 0.9), "B1")
    assert [each.finding.code for each in plan_of_rank(rank, [large, small])] == ["B1", "A1"]


# --- on real traces


def keep_the_laws_of_plans(planned: AdvicePlan) -> None:
    advice = planned.advice
    before = Stake(advice.step, advice.step)
    assert {(each.code, each.key) for each in planned} <= {(each.code, each.key) for each in advice.timed}
    for number, step in enumerate(planned, 1):
        assert 0 <= step.after.low <= step.after.high
        assert 0 <= step.remaining.low <= step.remaining.high <= advice.step + ROUNDING
        saved = before.middle - step.remaining.middle
        assert step.after.middle == pytest.approx(saved, abs=ROUNDING)
        if number == 1:
            assert (step.after.low, step.after.high) == pytest.approx((step.alone.low, step.alone.high), abs=ROUNDING)
        if step.limit:
            row = planned.result.frame.row(number - 1, named=True)
            assert row["limit_time"] == max(row[cause] for cause in CAUSES) > 0
            assert row["replayed"] == sum(row[cause] for cause in CAUSES)
            assert str(planned.limit_after(number)).endswith("ms") or "s of " in planned.limit_after(number)
        before = step.remaining


@pytest.mark.parametrize("file", [*everywhere(), *samples()])
def test_plans_of_every_trace(file: Path) -> None:
    planned = plan(job_of(file))
    assert planned.advice.findings == advise(job_of(file)).findings
    keep_the_laws_of_plans(planned)


@pytest.mark.parametrize("file", [*everywhere(), *samples()])
def test_the_sums_of_a_plan_are_one_replay(file: Path) -> None:
    """Of the lower ends, to which parts of changes are fitted; the upper ends have the margins of rules besides."""
    job = job_of(file)
    rank = RankView(job.trace(job.ranks[0]), default_to_steady(ALL))
    rules = [rule for rule in our_rules() if rule.fits(rank.recorded, rank.program, rank.met)]
    claims, _ = run_rules(((rule.code, rule.of_rank) for rule in rules), rank, "trace")
    alone = [replace(each, stake=lawful(each, rank.step_time)) for each in claims if each.factors is not None]
    timed = [each for each in alone if each.stake.high > 0]
    planned = plan_of_rank(rank, timed)
    parts = [candidate(rank, each) for each in timed]
    for end, sums in enumerate((sum(each.least for each in planned), sum(each.most for each in planned))):
        changes = [(each.change, each.parts[end]) for each in parts if each.change is not None]
        together = rank.per_step(float(rank.gains(joined(rank.trace, changes)).sum()))
        margins = sum(
            max((each.finding.stake.low, each.finding.stake.high)[end] - each.saved[end], 0.0) for each in parts
        )
        assert together - ROUNDING <= sums + ROUNDING * len(parts) or sums == pytest.approx(together, rel=0.01)
        assert sums <= together + margins + ROUNDING * len(parts)


def test_a_plan_of_ranks_has_medians(tmp_path: Path) -> None:
    planned = kinetoscope.plan(Path(__file__).parents[1] / "traces" / "ddp2")
    keep_the_laws_of_plans(planned)
    assert any(note.code == "PLAN_OF_RANKS" for note in planned.notes) == bool(planned.steps)
