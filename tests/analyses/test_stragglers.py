from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from kinetoscope import Selection, rank_balance, read, stragglers
from kinetoscope.pages.sentences.steps import who_waits
from kinetoscope.schema import Result
from tests import drawn
from tests.simulator import Model, simulate
from tests.simulator.model import Fault

GROUP: dict[str, Any] = {
    "Process Group Name": "0",
    "Process Group Ranks": "[0, 1, 2]",
    "Group size": 3,
    "Collective name": "allreduce",
}
FACTS: dict[str, Any] = {"distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 3}}


def written(folder: Path, ranks: list[list[drawn.Event]]) -> Path:
    for rank, events in enumerate(ranks):
        facts = {"distributedInfo": {**FACTS["distributedInfo"], "rank": rank}}
        drawn.written(folder / f"rank{rank}.pt.trace.json", *events, **facts)
    return folder


def meeting(start: int, end: int, number: int) -> drawn.Event:
    return drawn.kernel("ncclDevKernel_AllReduce_Sum_f32", start, end - start, 100 + number, stream=9, **GROUP)


def computing(start: int, end: int) -> drawn.Event:
    return drawn.kernel("gemm", start, end - start, start + 1)


def job_of_three(folder: Path) -> Path:
    """They meet at 10,000; then rank 1 loads data from 11,000 to 50,000; they meet again at 70,000."""
    step = drawn.annotation("ProfilerStep#1", 0, 100_000)
    punctual = [step, computing(0, 10_000), meeting(10_000, 11_000, 1), computing(11_000, 30_000)]
    loading = drawn.annotation("enumerate(DataLoader)#_Single.__next__", 11_000, 40_000)
    late = [step, computing(0, 10_000), meeting(10_000, 11_000, 1), loading, computing(51_000, 70_000)]
    return written(
        folder,
        [
            [*punctual, meeting(30_000, 71_000, 2)],
            [*late, meeting(70_000, 71_000, 2)],
            # hides 6,000 of its waiting, in which it would have had its transfer of 1,000
            [*punctual, computing(30_000, 36_000), meeting(30_000, 71_000, 2)],
        ],
    )


def test_the_loss_is_what_the_others_waited_and_did_not_compute(tmp_path: Path) -> None:
    result = stragglers(read(job_of_three(tmp_path), jobs=1))
    rows = result.frame.select("rank", "calls", "last", "late", "lost", "carried", "straggler", "cause", "cause_share")
    assert rows.rows() == [
        (1, 2, 1, 40_000, 40_000 + 35_000, 0, True, "data loading", 1.0),
        (0, 2, 1, 0, 0, 0, False, None, None),
        (2, 2, 0, 0, 0, 0, False, None, None),
    ]
    assert result.frame["lost_share"].to_list() == [75_000 / 200_000, 0.0, 0.0]
    assert result.notes[-1] == "The others wait for rank 1."


def test_what_a_rank_does_not_hide_of_a_transfer_is_its_host(tmp_path: Path) -> None:
    """All gather from 11,000 to 31,000; rank 1 waits for that with all its device before it launches what is next."""
    step = drawn.annotation("ProfilerStep#1", 0, 60_000)
    begin = [step, computing(0, 10_000), meeting(10_000, 11_000, 1), meeting(11_000, 31_000, 2)]
    punctual = [*begin, drawn.launch(9_000, 10, 11_001), computing(11_000, 31_000), meeting(31_000, 53_000, 3)]
    waits = drawn.launch(11_500, 20_000, 0, name="cudaDeviceSynchronize")
    late = [*begin, waits, drawn.launch(31_600, 10, 32_001), computing(32_000, 52_000), meeting(52_000, 53_000, 3)]
    result = stragglers(read(written(tmp_path, [punctual, late, punctual]), jobs=1))
    assert verdict(result) == [(1, "synchronization")]
    assert result.frame["cause_share"][0] > 0.9


def test_by_collective_it_says_who_was_last_and_whose_fault_it_was(tmp_path: Path) -> None:
    frame = stragglers(read(job_of_three(tmp_path), jobs=1), by="collective").frame
    columns = ("rank", "step", "kind", "start", "late", "lost", "straggler", "cause", "charged_to")
    assert frame["row"].is_null().to_list() == [True, False]
    assert frame.select(columns).rows() == [
        (0, 1, "all_reduce", 0, 0, 0, False, None, None),
        (1, 1, "all_reduce", 20_000, 40_000, 75_000, True, "data loading", 1),
    ]
    assert frame["process_group"].str.contains("0-2").all()


def test_by_step_each_rank_has_a_row_for_each_step(tmp_path: Path) -> None:
    frame = stragglers(read(job_of_three(tmp_path), jobs=1), by="step").frame
    assert frame.select("rank", "step", "lost").rows() == [(0, 1, 0), (1, 1, 75_000), (2, 1, 0)]


def test_a_range_of_time_leaves_collectives_out(tmp_path: Path) -> None:
    result = stragglers(read(job_of_three(tmp_path), jobs=1), select=Selection(time=(0, 20_000)))
    assert result.frame["calls"].to_list() == [1, 1, 1]
    assert result.frame["lost"].sum() == 0


def behind_the_backward_pass(**more: Any) -> Model:
    """Buckets take as long as the computation that hides them: what is late in the first ends late in the last."""
    plain: dict[str, Any] = {"ranks": 4, "steps": 6, "layers": 6, "elements": 40_000_000, "noise": 0.01, "seed": 3}
    return Model(**{**plain, **more})


@pytest.mark.parametrize(
    "fault",
    [Fault("host_gap", 1, 3e6), Fault("slow_kernels", 2, 0.3), Fault("data_loading", 3, 2e6)],
    ids=lambda fault: fault.cause,
)
def test_waiting_beneath_computation_costs_what_it_puts_off(tmp_path: Path, fault: Fault) -> None:
    """The others wait in the first bucket, while they compute; what that puts off is nine tenths of the loss."""
    model = behind_the_backward_pass(fault=fault)
    truth = simulate(model, tmp_path)
    assert truth.straggler
    job = read(tmp_path, jobs=1)
    row = stragglers(job).frame.row(0, named=True)
    share = truth.straggler.loss / truth.step_time
    assert (row["rank"], row["straggler"]) == (fault.rank, True)
    assert row["lost_share"] == pytest.approx(share, abs=0.01)
    assert row["gain"] == pytest.approx(row["lost"], rel=0.02)
    balance = rank_balance(job).frame.filter(pl.col("rank") != fault.rank)
    waited, whole = balance.select(pl.col("exposed_waiting", "duration").sum()).row(0)
    assert waited / whole == pytest.approx(share, abs=0.01)


def test_of_two_stragglers_each_gains_its_delay_beyond_the_other(tmp_path: Path) -> None:
    host, device = Fault("host_gap", 1, 3e6), Fault("slow_kernels", 2, 0.2)
    truth = simulate(behind_the_backward_pass(fault=host, other=device), tmp_path)
    row = stragglers(read(tmp_path, jobs=1)).frame.filter(rank=1).row(0, named=True)
    assert truth.straggler
    others = 3 * truth.model.steps * truth.step_time
    assert row["gain"] / others == pytest.approx(truth.straggler.loss / truth.step_time, abs=0.01)
    assert row["lost"] > 1.2 * row["gain"]


def test_one_rank_waits_for_nobody(tmp_path: Path) -> None:
    file = job_of_three(tmp_path) / "rank0.pt.trace.json"
    assert stragglers(read(file, jobs=1)).notes[-1].code == "ONE_RANK"
    nothing = stragglers(drawn.job(tmp_path, drawn.op("aten::mm", 0, 10)))
    assert (len(nothing), nothing.notes) == (0, ("No collectives were recorded.",))


def test_files_in_any_order_give_the_same(tmp_path: Path) -> None:
    simulate(Model(ranks=4, tensor=2, steps=3, fault=Fault("slow_kernels", 2, 0.4), seed=3), tmp_path / "a")
    for rank in range(4):
        (tmp_path / "b").mkdir(exist_ok=True)
        shutil.copy(tmp_path / "a" / f"rank{rank}.pt.trace.json", tmp_path / "b" / f"{3 - rank}_of_job.pt.trace.json")
    for by in ("rank", "step", "collective"):
        first, second = (stragglers(read(tmp_path / name, jobs=2), by=by).frame for name in "ab")
        assert first.equals(second)
        assert first["lost"].sum() > 0


def verdict(result: Result) -> list[tuple[Any, ...]]:
    return result.frame.filter("straggler").select("rank", "cause").rows()


@pytest.mark.parametrize("style", ["ddp", "fsdp"])
def test_a_slow_link_and_noise_make_no_straggler(tmp_path: Path, style: Any) -> None:
    for place, fault in enumerate((Fault(), Fault("slow_link", 1, 2.0))):
        model = Model(ranks=8, style=style, tensor=2, steps=4, noise=0.01, fault=fault, clock_offset=5_000_000, seed=5)
        simulate(model, tmp_path / str(place))
        assert verdict(stragglers(read(tmp_path / str(place), jobs=2))) == []


@pytest.mark.slow
@pytest.mark.parametrize("style", ["ddp", "fsdp"])
@pytest.mark.parametrize("cause", ["data_loading", "host_gap"])
def test_a_host_that_is_slow_in_each_step_but_hidden_is_one_and_an_accident_is_none(
    tmp_path: Path, style: Any, cause: Any
) -> None:
    """Hosts do not wait for the loss, so they run ahead of their devices: only the first step is late, either way."""
    for place, every in enumerate((1, 99)):
        fault = Fault(cause, 2, 3e6, every=every)
        model = Model(ranks=4, style=style, steps=4, launch=3000, synchronizes=False, fault=fault, seed=3)
        simulate(model, tmp_path / str(place))
    lasting, accident = (read(tmp_path / name, jobs=1) for name in "01")
    first, *others = stragglers(lasting, by="step").frame.filter(rank=2)["lost"].to_list()
    assert first > 50 * max(others)
    result = stragglers(lasting)
    assert verdict(result) == [(2, cause.replace("_", " "))]
    assert "its host is slow in each" in result.notes[-2]
    assert verdict(stragglers(accident)) == []


def nameless(dialect: Any, fault: Fault) -> Model:
    """Groups that do the same at the same time, and files that do not say which is which."""
    return Model(ranks=8, tensor=2, steps=5, noise=0.0, spread=0, dialect=dialect, fault=fault, seed=3)


def test_where_no_collective_is_matched_whole_steps_tell(tmp_path: Path) -> None:
    simulate(nameless("2022", Fault("host_gap", 2, 1e6)), tmp_path)
    job = read(tmp_path, jobs=1)
    result = stragglers(job)
    assert verdict(result) == [(2, "host gap")]
    row = result.frame.row(0, named=True)
    assert (row["calls"], row["last"], row["late"]) == (0, 0, None)
    assert row["lost"] == pytest.approx(7 * 5 * 1e6, rel=0.1)
    assert "Whole steps, not single collectives, show that the others wait for rank 2" in result.notes[-2]
    by_step = stragglers(job, by="step").frame
    assert by_step.filter("straggler").select("rank", "cause").unique().rows() == [(2, "host gap")]
    assert by_step["lost"].sum() == row["lost"]
    nothing = stragglers(job, by="collective")
    said = "No collectives were matched across ranks."
    assert (len(nothing.frame), nothing.notes[-1]) == (0, said)


@pytest.mark.parametrize("fault", [Fault(), Fault("slow_link", 2, 2.0)])
@pytest.mark.parametrize("dialect", ["2022", "gloo"])
def test_where_groups_are_not_recorded_nobody_is_named_either(tmp_path: Path, dialect: Any, fault: Fault) -> None:
    simulate(nameless(dialect, fault), tmp_path)
    assert verdict(stragglers(read(tmp_path, jobs=1))) == []


def test_who_waits_elsewhere_hides_less_and_is_not_to_blame(tmp_path: Path) -> None:
    """1 of a pair waits for the other before each layer; other pairs wait for both, and hide what their hosts do."""
    simulate(nameless("gloo", Fault("host_gap", 2, 1e6)), tmp_path)
    assert verdict(stragglers(read(tmp_path, jobs=1))) == [(2, "host gap")]


# --- real traces


def test_of_eight_ranks_the_last_one_is_late_in_five_of_eight_collectives(shared_traces: Path) -> None:
    job = read(shared_traces / "dlrm_ddp_v100_8rank", jobs=2)
    result = stragglers(job)
    assert dict(result.frame.select("rank", "last").rows())[7] == 5
    assert result.frame["last"].sum() == 8
    assert result.frame["calls"].to_list() == [8] * 8
    assert result.frame.sort("lost")["rank"].last() == 7


def test_the_rank_that_sleeps_is_named(shared_traces: Path) -> None:
    """One of four gloo ranks was slowed in each step, between operators."""
    result = stragglers(read(f"{shared_traces}/torch_2_13_cpu/ddp4*", jobs=2))
    assert verdict(result) == [(3, "host gap")]


def test_unlike_htas_candidates_there_may_be_none(shared_traces: Path) -> None:
    """HTA's get_potential_stragglers() answers [0, 1] here: the two of two ranks, of 128, that there are."""
    assert verdict(stragglers(read(shared_traces / "sampled_2rank", jobs=2))) == []


def test_nobody_is_acquitted_where_no_collective_is_matched(tmp_path: Path) -> None:
    """Gloo names no process group, and one of three ends says that the calls are of several groups."""
    ends = {0: (36_000_000, 69_000_000, 88_000_000), 1: (44_000_000, 69_000_000, 88_000_000)}
    for rank, mine in ends.items():
        events = [drawn.annotation("ProfilerStep#1", 0, 100_000_000)]
        events += [
            drawn.annotation("gloo:all_reduce", start, end - start, tid=7 + number)
            for number, (start, end) in enumerate(zip((32_000_000, 59_000_000, 74_000_000), mine, strict=True))
        ]
        facts = {"distributedInfo": {"backend": "gloo", "rank": rank, "world_size": 2}}
        drawn.written(tmp_path / f"rank{rank}.pt.trace.json", *events, **facts)
    job = read(tmp_path, jobs=1)
    result = stragglers(job)
    assert {"CALLS_UNMATCHED", "NO_MATCHED_COLLECTIVES"} <= {note.code for note in result.notes}
    assert "NO_STRAGGLER" not in {note.code for note in result.notes}
    assert who_waits(result, rank_balance(job)).startswith("Who waits for whom is not known")
