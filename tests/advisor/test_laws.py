"""The laws of promises: on drawn findings, and on what all rules say of every trace there is, mutilated ones too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinetoscope
from kinetoscope.advisor.advice import advise
from kinetoscope.advisor.finding import Confidence, Finding, Stake
from kinetoscope.advisor.join_ranks import joined_findings
from kinetoscope.advisor.laws import StepTime
from kinetoscope.advisor.run_rules import rank_findings
from kinetoscope.algorithms.intervals.intervals import Intervals, difference, merge, union
from kinetoscope.errors import KinetoscopeError
from kinetoscope.model.steps.selection import ALL, default_to_steady
from kinetoscope.reading import read
from tests.advisor.laws import ROUNDING, keep_the_laws
from tests.catalog.samples import advice_of, everywhere, job_of, samples
from tests.fuzz.documents import document

STEP = 1000
"""ns of the drawn step, which begins at 0."""

IDLE_ONLY = ("DATA001", "DATA002", "DATA004", "HOST002", "HOST007", "DEVICE006")
"""Rules about time in which the device has nothing to do."""

QUICK_SEEDS = 10


def spans(times: list[tuple[int, int]]) -> Intervals:
    start, length = np.array(times, np.int64).reshape(-1, 2).T
    return union(start, np.minimum(start + length, STEP))


SPANS = st.lists(st.tuples(st.integers(0, STEP - 1), st.integers(1, STEP)), max_size=4).map(spans)


@st.composite
def findings(draw: st.DrawFn) -> Finding:
    confidences: list[Confidence] = ["high", "medium", "low"]
    return Finding(
        "It is slow.",
        Stake(draw(st.floats(-50, 2 * STEP)), draw(st.floats(-50, 2 * STEP))),
        confidence=draw(st.sampled_from(confidences)),
        time=draw(st.none() | SPANS),
        takes=draw(st.none() | st.floats(0, 2 * STEP)),
        key=draw(st.text(max_size=3)),
        overlap_priority=draw(st.integers(0, 2)),
    )


@given(st.lists(findings(), max_size=6), SPANS)
def test_no_promise_breaks_a_law(claims: list[Finding], busy: Intervals) -> None:
    step = StepTime(float(STEP), busy, 1)
    kept = list(rank_findings(claims, step))
    by_key = {each.key: each for each in claims}
    for finding in kept:
        given_ = by_key[finding.key]
        assert 0 <= finding.stake.low <= finding.stake.high
        if len([each for each in claims if each.key == finding.key]) == 1:
            assert finding.stake.high <= (np.inf if given_.takes is None else given_.takes) + ROUNDING
            remains = difference(busy, given_.time).length if given_.time is not None else busy.length
            assert finding.stake.high <= STEP - remains + ROUNDING
        assert finding.confidence != "low" or finding.stake.low == 0
    times = [each.time for each in claims if each.time is not None]
    least = difference(busy, merge(*times)).length if times else busy.length
    assert sum(each.stake.high for each in kept) <= STEP - least + ROUNDING


@given(st.lists(findings(), min_size=2, max_size=4))
def test_a_finding_of_several_ranks_promises_no_more_than_the_thing_takes(claims: list[Finding]) -> None:
    step = StepTime(float(STEP), spans([]), 1)
    of_ranks = [
        replace(each, code="HOST004", key="", ranks=(rank,))
        for rank, claim in enumerate(claims)
        for each in rank_findings([replace(claim, takes=claim.takes or 0.0)], step)
    ]
    for one in joined_findings(of_ranks, len(claims), float(STEP)):
        assert one.takes is not None
        assert one.stake.low <= one.stake.high <= one.takes + ROUNDING


def test_without_steps_there_is_no_time_to_promise_beyond_what_the_thing_takes() -> None:
    claim = Finding("It is slow.", Stake(5.0, 30.0), takes=20.0)
    assert [each.stake for each in rank_findings([claim], StepTime(0.0))] == [Stake(5.0, 20.0)]


def test_where_workers_set_the_pace_nothing_else_is_sure() -> None:
    waits = Finding("It waits for workers.", Stake(5.0, 30.0), confidence="low", takes=30.0, code="DATA002")
    others = [
        Finding("It is slow.", Stake(40.0, 90.0), takes=900.0, code=code) for code in ("HOST004", "DATA003", "DATA005")
    ]
    step = StepTime(float(STEP))
    lows = {each.code: each.stake.low for each in rank_findings([*others, waits], step)}
    assert lows == {"DATA002": 0.0, "HOST004": 0.0, "DATA003": 40.0, "DATA005": 0.0}
    hidden = replace(waits, stake=Stake(0.0, 30.0))
    assert {each.code: each.stake.low for each in rank_findings([*others, hidden], step)}["HOST004"] == 40.0


def test_where_workers_share_the_cores_nothing_is_sure() -> None:
    claims = [Finding("It is slow.", Stake(40.0, 90.0), takes=900.0, code=code) for code in ("HOST004", "DATA001")]
    alone, shared = (StepTime(float(STEP), shares_cores=shares) for shares in (False, True))
    assert {each.stake.low for each in rank_findings(claims, alone)} == {40.0}
    said = [*rank_findings(claims, shared)]
    assert {each.stake.low for each in said} == {0.0}
    assert all("more than the cores" in str(each.why) for each in said)


# --- on traces


@pytest.mark.parametrize("file", [*everywhere(), *samples()])
def test_the_findings_of_every_trace_keep_the_laws(file: Path) -> None:
    keep_the_laws(advice_of(file))


@pytest.mark.parametrize("file", [*everywhere(), *samples()])
def test_together_they_leave_the_devices_work(file: Path) -> None:
    """Rules about an idle device, held against the computation of `step_breakdown`, which knows nothing of findings."""
    job, advice = job_of(file), advice_of(file)
    table = advice.result.frame
    if len(job.ranks) > 1 or not advice.step or not table.height:
        return
    steps = kinetoscope.step_breakdown(job, select=default_to_steady(ALL)).frame
    idle_only = table.filter(pl.col("code").is_in(IDLE_ONLY))["at_stake_high"].sum()
    work = steps["computation"].mean()
    assert isinstance(work, (int, float))
    if steps["duration"].mean() == pytest.approx(advice.step, rel=0.01):  # else a server's steps, with what is between
        assert idle_only <= advice.step - work + ROUNDING * table.height


# --- of mutilated traces


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=() if seed < QUICK_SEEDS else pytest.mark.slow) for seed in range(120)]
)
def test_the_findings_of_mutilated_traces_keep_the_laws(seed: int, tmp_path: Path) -> None:
    drawn = document(seed)
    path = tmp_path / drawn.name
    path.write_bytes(drawn.content)
    try:
        advice = advise(read(path, jobs=1))
    except KinetoscopeError:
        return
    keep_the_laws(advice)
