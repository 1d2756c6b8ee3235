"""The simulator of jobs: what it writes is read without a flaw, and what it calls the truth can have happened."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from kinetoscope.model.execution.device_work import DeviceWork, device_work
from kinetoscope.model.job import Job
from kinetoscope.model.steps.steps import steps
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.event_kinds import WorkKind
from kinetoscope.model.trace.trace import Trace
from kinetoscope.reading import read
from tests.simulator import CAUSES, DIALECTS, Fault, Model, Truth, happened, simulate
from tests.simulator.cases import drawn, noisy
from tests.simulator.model import Cause, Dialect

_KNOWN = {"NO_STACKS", "NO_MEMORY"}
"""Notes on what the simulator does not record."""

_MIXED = Model(ranks=16, tensor=2, pipeline=2, expert=2, single=True, steps=2, layers=2)
_ALL = pytest.mark.parametrize("dialect", DIALECTS)


def simulated(folder: Path, model: Model) -> tuple[Truth, Job]:
    truth = simulate(model, folder)
    return truth, read(str(folder), jobs=1)


@_ALL
def test_traces_are_read_without_a_flaw(tmp_path: Path, dialect: Dialect) -> None:
    _, job = simulated(tmp_path, replace(_MIXED, dialect=dialect))
    expected = _KNOWN | {"2022": {"WHOLE_MICROSECONDS"}, "gloo": {"NO_DEVICE_WORK"}}.get(dialect, set())
    assert job.notes == ()
    assert job.ranks == tuple(range(16))
    for rank in (0, 9):
        assert {symptom.code for symptom in job.trace(rank).health.symptoms} == expected


@_ALL
def test_work_is_linked_and_in_steps(tmp_path: Path, dialect: Dialect) -> None:
    _, job = simulated(tmp_path, replace(_MIXED, dialect=dialect))
    trace = job.trace(5)
    work = device_work(trace)
    assert (work.launch >= 0).all()
    assert (work.op >= 0).all()
    assert steps(trace, None).number.tolist() == [3, 4]
    assert steps(trace, None).origin == "profiler"


@pytest.mark.parametrize("dialect", [dialect for dialect in DIALECTS if dialect != "gloo"])
def test_collectives_are_where_the_truth_says(tmp_path: Path, dialect: Dialect) -> None:
    model = replace(_MIXED, dialect=dialect, clock_offset=10_000_000, clock_drift=50)
    truth, job = simulated(tmp_path, model)
    for rank in (0, 7, 12):
        trace = job.trace(rank)
        work = device_work(trace)
        found = work.rows[work.of(WorkKind.COMMUNICATION)]
        own = truth.collectives.filter(rank=rank).sort("start_recorded", "end_recorded")
        spans = sorted(zip(trace.start[found] + trace.base, trace.end[found] + trace.base, strict=True))
        assert spans == list(own.select("start_recorded", "end_recorded").iter_rows())


@pytest.mark.parametrize("seed", range(24))
def test_the_truth_can_have_happened(tmp_path: Path, seed: int) -> None:
    truth = simulate(drawn(seed, dialects=DIALECTS), tmp_path)
    rows = truth.collectives.filter(pl.col("kind") != "broadcast")
    groups = rows.group_by("match").agg(
        pl.len(), pl.col("group_size").first(), pl.col("arrival").max(), pl.col("begin").min(),
        pl.col("begin").n_unique().alias("begins"),
        pl.col("end").min().alias("first"), pl.col("end").max().alias("last"),
        pl.col("kind").n_unique().alias("kinds"), pl.col("group_name").n_unique().alias("names"),
        pl.col("seq").n_unique().alias("sequences"), pl.col("kind").first().is_in(["send", "recv"]).alias("exchange"),
        pl.col("transfer").first(),
    )  # fmt: skip
    exchange = pl.col("exchange")
    truths = groups.select(
        all_there=pl.col("len") == pl.when(exchange).then(2).otherwise("group_size"),
        begins_together=pl.col("begins") == 1,
        begins_with_the_last=(pl.col("arrival") == pl.col("begin")) | (truth.model.dialect == "gloo"),
        takes_time=pl.col("transfer") == pl.col("first") - pl.col("begin"),
        ends_together=pl.col("last") - pl.col("first") <= truth.model.spread,
        one_kind=pl.col("kinds") == pl.when(exchange).then(2).otherwise(1),
        one_group=pl.col("names") == 1,
        one_number=exchange | (pl.col("sequences") == 1),
    )
    assert truths.select(pl.all().all()).row(0) == (True,) * truths.width
    assert rows.select(pl.struct("match", "rank").is_unique().all()).item()


@pytest.mark.parametrize("seed", range(6))
def test_a_stream_does_one_thing_at_a_time(tmp_path: Path, seed: int) -> None:
    _, job = simulated(tmp_path, drawn(seed, dialects=("2026",)))
    work = device_work(job.trace(1))
    for stream in np.unique(work.stream):
        of = np.flatnonzero(work.stream == stream)
        of = of[np.argsort(work.start[of], kind="stable")]
        assert (work.start[of][1:] >= work.end[of][:-1]).all()
    assert (work.start >= job.trace(1).end[work.launch]).all()


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    models = _MIXED, _MIXED, replace(_MIXED, seed=1)
    first, again, other = (simulate(model, tmp_path / str(place)) for place, model in enumerate(models))
    texts = [[file.read_bytes() for file in truth.files.values()] for truth in (first, again, other)]
    assert texts[0] == texts[1]
    assert texts[0] != texts[2]
    assert first.collectives.equals(again.collectives)


@pytest.mark.parametrize("cause", CAUSES)
def test_a_fault_costs_what_it_must(tmp_path: Path, cause: Cause) -> None:
    amount = {"slow_kernels": 0.5, "slow_link": 3.0}.get(cause, 2e6)
    model = Model(ranks=4, steps=2, noise=0.0, fault=Fault(cause, 2, amount))
    truth = simulate(model, tmp_path)
    if cause in ("none", "slow_link"):
        assert truth.straggler is None
        return
    assert truth.straggler is not None
    assert (truth.straggler.rank, truth.straggler.cause) == (2, cause)
    expected = {"slow_kernels": 0.5 * truth.step_time, "synchronization": 4 * amount}.get(cause, amount)
    assert expected / 2 < truth.straggler.loss <= expected * 1.1
    rows = truth.collectives.filter(kind="all_reduce")
    last = rows.filter(pl.col("arrival") == pl.col("begin"))
    assert (last.filter(match=0)["rank"] == 2).all()


def test_clocks_are_wrong_by_what_the_truth_says(tmp_path: Path) -> None:
    truth = simulate(Model(ranks=8, clock_offset=10_000_000, clock_drift=100, steps=2), tmp_path)
    rows = truth.collectives.with_columns(host=pl.col("rank").replace_strict(truth.hosts)).join(truth.clocks, on="host")
    gained = ((pl.col("end") - truth.origin) * pl.col("rate")).round().cast(pl.Int64)
    wrong = rows.select(pl.col("end_recorded") - pl.col("end") - pl.col("offset") - gained).to_series()
    assert (wrong == 0).all()
    assert truth.clocks["offset"].n_unique() == 2
    assert truth.clocks["offset"].abs().max() > 100_000  # type: ignore[operator]


def test_what_is_not_recorded_is_said_so(tmp_path: Path) -> None:
    model = Model(ranks=4, steps=2, missing=(1,), cut=(2,), seed=5)
    truth, job = simulated(tmp_path, model)
    assert job.ranks == (0, 2, 3)
    shares = truth.collectives.group_by("rank").agg(pl.col("recorded").mean()).sort("rank")["recorded"].to_list()
    assert shares[0] == shares[3] == 1
    assert shares[1] == 0
    assert 0.3 < shares[2] < 0.8
    assert _communication(job.trace(2)) == truth.collectives.filter(rank=2)["recorded"].sum()


def test_sampled_events_leave_out_collectives(tmp_path: Path) -> None:
    truth, job = simulated(tmp_path, Model(ranks=4, steps=3, sampled=0.7))
    for rank in range(4):
        expected = truth.collectives.filter(rank=rank)["recorded"].sum()
        assert _communication(job.trace(rank)) == expected < 12


def test_long_lists_of_ranks_are_cut_short(tmp_path: Path) -> None:
    _, job = simulated(tmp_path, Model(ranks=32, steps=1, layers=1, kernels=1, dialect="2025"))
    trace = job.trace(31)
    found = device_work(trace)
    rows = found.rows[found.of(WorkKind.COMMUNICATION)]
    text = trace.strings.text(int(arguments.codes(trace, "process_group_ranks", rows)[0]))
    assert text == "[" + ", ".join(map(str, range(30))) + ", ...]"
    assert trace.metadata["distributedInfo"]["pg_config"][1]["ranks"] == list(range(32))


def test_the_root_of_a_broadcast_waits_for_nobody(tmp_path: Path) -> None:
    model = Model(ranks=4, steps=2, buffers=True, fault=Fault("data_loading", 2, 1e6))
    rows = simulate(model, tmp_path).collectives.filter(kind="broadcast")
    took = rows.group_by("rank").agg((pl.col("end") - pl.col("arrival")).max()).sort("rank")["end"]
    assert len(rows) == 8
    assert took.max() < 100_000  # type: ignore[operator]
    late = rows.filter(match=0, rank=2)["arrival"].item() - rows.filter(match=0, rank=0)["arrival"].item()
    assert late > 900_000


def test_names_alone_do_not_tell_groups_apart(tmp_path: Path) -> None:
    truth = simulate(Model(ranks=8, tensor=2, steps=1, names="purpose"), tmp_path)
    by_name = truth.collectives.group_by("group_name").agg(pl.col("group_ranks").n_unique()).sort("group_name")
    assert dict(by_name.iter_rows()) == {"0": 1, "mesh_dp": 2, "mesh_tp": 4}


def _communication(trace: Trace) -> int:
    work: DeviceWork = device_work(trace)
    return int(work.of(WorkKind.COMMUNICATION).sum())


def test_a_fault_begins_when_it_must_and_comes_now_and_then() -> None:
    fault = Fault("host_gap", 1, 1e6, since=1, every=3)
    assert [fault.hits(step) for step in range(6)] == [False, True, False, False, True, False]
    assert not Fault().hits(0)
    always = happened(Model(ranks=4, steps=6, noise=0.0, fault=Fault("host_gap", 1, 1e6))).straggler
    seldom = happened(Model(ranks=4, steps=6, noise=0.0, fault=fault)).straggler
    assert always is not None
    assert seldom is not None
    assert seldom.loss == pytest.approx(always.loss / 3, rel=0.1)
    assert seldom.lasting == pytest.approx(seldom.loss / 2, rel=0.1)


def test_two_faults_have_two_culprits() -> None:
    slow, late = Fault("slow_kernels", 2, 0.5), Fault("data_loading", 0, 3e6)
    truth = happened(Model(ranks=4, steps=4, fault=slow, other=late))
    assert truth.straggler is not None
    assert truth.other is not None
    assert (truth.straggler.rank, truth.other.rank, truth.other.cause) == (2, 0, "data_loading")


@pytest.mark.parametrize("knob", ["jitter", "shapes", "uneven", "warmup", "hiccups"])
def test_what_is_uneven_changes_when_things_happen_and_nothing_else(knob: str) -> None:
    even, uneven = (happened(Model(ranks=4, steps=3, **{knob: amount})).collectives for amount in (0.0, 0.5))  # type: ignore[arg-type]
    what = ["match", "rank", "kind", "bytes", "seq", "step"]
    assert even.select(what).equals(uneven.select(what))
    assert not even["arrival"].equals(uneven["arrival"])


def test_noisy_models_are_as_various_as_they_say() -> None:
    models = [noisy(seed) for seed in range(300)]
    assert {model.ranks for model in models} >= {2, 4, 8, 16, 64}
    assert min(model.steps for model in models) == 3
    assert max(model.steps for model in models) == 30
    assert {model.dialect for model in models} == set(DIALECTS)
    assert {model.fault.cause for model in models} == set(CAUSES)
    assert {model.fault.every for model in models} == {1, 5}
    assert any(model.missing for model in models)
    assert any(len(model.faults) == 2 for model in models)
