"""Jobs whose truth is known: who makes others wait and why, how wrong clocks are, what links deliver."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from kinetoscope import collectives, rank_balance, stragglers
from kinetoscope.model.collectives.calls import for_matching
from kinetoscope.model.job import Job
from kinetoscope.model.matching.clocks import aligned, clocks
from kinetoscope.model.matching.match import Matched, match
from kinetoscope.model.steps.selection import ALL
from kinetoscope.reading import read
from tests.simulator import DIALECTS, Fault, Model, Truth, simulate
from tests.simulator.cases import KINDS, drawn
from tests.simulator.model import Dialect

pytestmark = pytest.mark.slow

_CASES: Final = 200
_BLOCKS: Final = 4
_MATTERS: Final = 0.02
"""Of a step: a rank that costs less may be named or not."""

_CAUSES: Final = {
    "slow_kernels": "computation",
    "host_gap": "host gap",
    "data_loading": "data loading",
    "synchronization": "synchronization",
}
"""What the analysis calls the faults."""

_NAMELESS: Final = ("2022", "gloo")
"""Dialects that do not say of which process group a collective is."""


@pytest.mark.parametrize("block", range(_BLOCKS))
def test_the_straggler_and_its_cause_are_found(tmp_path: Path, block: int) -> None:
    verdicts: dict[int, str] = {}
    for seed in range(block, _CASES, _BLOCKS):
        truth = simulate(drawn(seed), tmp_path / str(seed))
        wrong = _wrong(truth, read(str(tmp_path / str(seed)), jobs=1))
        if wrong:
            verdicts[seed] = wrong
    assert not {seed: wrong for seed, wrong in verdicts.items() if wrong.startswith("false")}
    assert len(verdicts) <= 0.02 * _CASES / _BLOCKS, verdicts


def _wrong(truth: Truth, job: Job) -> str:
    """What is wrong with what `stragglers` says of a job; "" if nothing."""
    found = stragglers(job).frame.filter("straggler").sort("lost", descending=True)
    named = [(rank, cause) for rank, cause in found.select("rank", "cause").iter_rows()]
    true = truth.straggler
    if true is None or true.loss == 0:
        return f"false straggler {named} ({truth.model.fault})" if named else ""
    expected = true.rank, _CAUSES[true.cause]
    alone = truth.model.pipeline > 1 and truth.model.data * truth.model.tensor == 1  # of its stage: others have bubbles
    if not named and (alone or true.loss < _MATTERS * truth.step_time):
        return ""
    return "" if named[:1] == [expected] else f"{named} instead of {expected}, loss {true.loss / truth.step_time:.3f}"


def test_the_straggler_is_found_where_no_group_is_recorded(tmp_path: Path) -> None:
    """Most collectives stay unmatched; whole steps tell."""
    verdicts = {}
    for seed in range(24):
        model = replace(drawn(seed, kind=_SEVERAL[seed % len(_SEVERAL)]), dialect="2022")
        truth = simulate(model, tmp_path / str(seed))
        wrong = _wrong(truth, read(str(tmp_path / str(seed)), jobs=1))
        if wrong:
            verdicts[seed] = wrong
    assert not {seed: wrong for seed, wrong in verdicts.items() if wrong.startswith("false")}
    assert len(verdicts) <= 2, verdicts


_JOINED: Final = ("ddp", "fsdp", "tp+dp", "tp+fsdp", "ep")
"""Kinds of parallelism in which all hosts take part in many collectives."""


@pytest.mark.parametrize("seed", range(20))
def test_clocks_are_recovered(tmp_path: Path, seed: int) -> None:
    model = drawn(seed, causes=("none", "slow_kernels", "host_gap"), kind=_JOINED[seed % len(_JOINED)])
    model = replace(model, layers=4, steps=26 if model.style == "ddp" else 9, clock_offset=10_000_000)
    model = replace(model, clock_drift=20, spread=3_000)
    truth, matched = _matched(tmp_path, model)
    found = aligned(matched.frame, clocks(matched.frame))
    true = _reference_ends(truth)
    rows = found.join(true, left_on=["rank", "end_recorded"], right_on=["rank", "end_recorded"])
    assert len(rows) == len(true) >= 100
    assert rows.select((pl.col("end") - pl.col("end_true")).abs().max()).item() <= 5_000


def _matched(folder: Path, model: Model) -> tuple[Truth, Matched]:
    """The calls of all ranks, matched; what the files say of their end is kept as end_recorded."""
    truth = simulate(model, folder)
    job = read(str(folder), jobs=1)
    calls = pl.concat([for_matching(job.trace(rank), ALL).frame for rank in job.ranks])
    return truth, match(calls.with_columns(end_recorded=pl.col("end")))


def _reference_ends(truth: Truth) -> pl.DataFrame:
    """When each rank really left each collective, as the clock of the first host would have shown it."""
    offset, rate = truth.clocks.row(0)[1:]
    gained = ((pl.col("end") - truth.origin) * rate).round().cast(pl.Int64)
    recorded = truth.collectives.filter("recorded")
    return recorded.select("rank", "end_recorded", end_true=pl.col("end") + offset + gained)


@pytest.mark.parametrize("kind", KINDS)
def test_bandwidths_are_exact(tmp_path: Path, kind: str) -> None:
    model = replace(drawn(5, kind=kind), clock_offset=10_000_000, clock_drift=0, spread=0, dialect="2026")
    truth = simulate(model, tmp_path)
    found = collectives(read(str(tmp_path), jobs=1), by="call").frame.sort("start", "kind")
    true = truth.collectives.group_by("match").agg(
        pl.col("begin", "bytes", "transfer", "group_size").first(), pl.col("kind").max()
    )
    true = true.with_columns(pl.col("kind").replace({"send": "send_recv", "recv": "send_recv"}))
    bandwidth = pl.col("bytes") / pl.col("transfer") * 1e9
    ring = (pl.col("group_size") - 1) / pl.col("group_size")
    factor = pl.when(kind="all_reduce").then(2 * ring).when(kind="send_recv").then(1.0).otherwise(ring)
    true = true.with_columns(algorithm_bandwidth=bandwidth, bus_bandwidth=bandwidth * factor)
    columns = ["kind", "bytes", "transfer", "algorithm_bandwidth", "bus_bandwidth"]
    found = found.with_columns(transfer=pl.col("transfer") // pl.col("ranks"))
    assert_frame_equal(found.select(columns), true.select(columns), check_row_order=False, rel_tol=1e-12)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("kind", ["ddp", "fsdp", "tp+dp", "ep", "pp+tp+dp"])
def test_what_is_the_same_collective_is_found(tmp_path: Path, dialect: Dialect, kind: str) -> None:
    model = drawn(7, causes=("none",), kind=kind)
    model = replace(model, dialect=dialect, clock_offset=10_000_000, names="purpose")
    truth, matched = _matched(tmp_path, model)
    assert _mispaired(truth, matched) == 0
    if dialect in _NAMELESS and kind not in ("ddp", "fsdp"):
        # which of several groups a collective is of is nowhere: what is not certain is said and left
        assert set(matched.frame["matched_by"].drop_nulls()) <= {"shape"}
        assert any("name no process group" in note for note in matched.notes)
    else:
        assert matched.frame["match"].null_count() == 0


@pytest.mark.parametrize("dialect", _NAMELESS)
@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_groups_that_act_alike_at_once_are_told_apart_or_not_matched(
    tmp_path: Path, dialect: Dialect, noise: float
) -> None:
    matches = several = 0
    for seed in range(12):
        model = replace(drawn(seed, kind=_SEVERAL[seed % len(_SEVERAL)]), dialect=dialect, noise=noise)
        truth, matched = _matched(tmp_path / str(seed), replace(model, clock_offset=10_000_000, clock_drift=20))
        assert _mispaired(truth, matched) == 0
        found = matched.frame["match"].n_unique() - 1
        matches, several = matches + found, several + truth.collectives["match"].n_unique()
        if found >= 100:
            _assert_clocks(truth, matched)
    if noise:
        assert matches >= 0.25 * several  # as soon as ranks differ at all


_SEVERAL: Final = ("tp+dp", "tp+fsdp", "ep", "pp+dp", "pp+tp+dp")
"""Kinds of parallelism with several process groups."""


def _assert_clocks(truth: Truth, matched: Matched) -> None:
    """Of all that are joined to the first, clocks are right within 5 µs."""
    found = clocks(matched.frame)
    joined = found.frame.filter(component=found.frame["component"][0])["host"]
    ends = aligned(matched.frame, found).filter(
        pl.coalesce("host", pl.format("rank {}", "rank")).is_in(joined.implode())
    )
    rows = ends.join(_reference_ends(truth), on=["rank", "end_recorded"])
    assert rows.select((pl.col("end") - pl.col("end_true")).abs().max()).item() <= 5_000


@pytest.mark.parametrize("dialect", ["2022", "2024", "2026"])
def test_a_rank_that_is_late_in_broadcasts_is_matched(tmp_path: Path, dialect: Dialect) -> None:
    """The root and the others have left before it comes: these calls overlap none, and must not spoil the order."""
    model = Model(ranks=4, steps=3, buffers=True, dialect=dialect, fault=Fault("data_loading", 2, 2e6))
    truth, matched = _matched(tmp_path, model)
    assert matched.unmatched == 0
    assert _mispaired(truth, matched) == 0


def _mispaired(truth: Truth, matched: Matched) -> int:
    """Matches of the files that join what is not the same collective."""
    true = truth.collectives.filter("recorded").select("rank", "start_recorded", "end_recorded", true="match")
    found = matched.frame.filter(pl.col("match").is_not_null()).join(
        true, left_on=["rank", "start", "end_recorded"], right_on=["rank", "start_recorded", "end_recorded"]
    )
    assert len(found) == matched.frame["match"].drop_nulls().len()
    return found.group_by("match").agg(pl.col("true").n_unique()).filter(pl.col("true") > 1).height


@pytest.mark.parametrize("fault", [{"sampled": 0.8}, {"missing": (2,)}, {"cut": (1,)}])
@pytest.mark.parametrize(("kind", "dialect"), [("fsdp", "2022"), ("tp+fsdp", "2024"), ("tp+fsdp", "2026")])
def test_nothing_is_mispaired_where_events_are_missing(
    tmp_path: Path, fault: dict[str, object], kind: str, dialect: Dialect
) -> None:
    model = replace(drawn(3, causes=("none",), kind=kind), dialect=dialect)
    truth, matched = _matched(tmp_path, replace(model, **fault))  # type: ignore[arg-type]
    assert _mispaired(truth, matched) == 0


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_files_changes_nothing(tmp_path: Path, seed: int) -> None:
    simulate(replace(drawn(seed), clock_offset=10_000_000), tmp_path)
    job = read(str(tmp_path), jobs=1)
    turned = replace(job, sources=job.sources[::-1][2:] + job.sources[::-1][:2])
    for analysis in (stragglers, collectives, rank_balance):
        assert analysis(turned).frame.equals(analysis(job).frame)
