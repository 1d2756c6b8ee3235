"""What was wrong with the predecessors, defect by defect, must not be wrong here.

Defects are numbered as in the notes on the two: those of the TensorBoard plugin by section (`plugin 7.1 B200`), those
of HTA by their number in the list of its errors (`hta 3`) or by what failed (`hta fails on MTIA`). Each is tested here,
or stands in `NOT_THIS` with the reason why it is no matter of an analysis of one rank.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import polars as pl
import pytest

from kinetoscope import ANALYSES, Job, read
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.trace.event_kinds import EventKind, WorkKind
from kinetoscope.schema import Result
from tests import drawn
from tests.catalog.samples import SHARED, required

TESTED: Final[dict[str, str]] = {}
"""The defects that a test below is about, and what they were."""

Test = TypeVar("Test", bound=Callable[..., None])


def defect(number: str, what: str) -> Callable[[Test], Test]:
    """Say which defect a test is about."""
    assert number not in TESTED, number
    TESTED[number] = what
    return lambda test: test


NOT_THIS: Final[dict[str, str]] = {
    # the plugin
    "plugin 0.3 no network": "the page; nothing here comes from a network",
    "plugin 0.4 whole trace in one process": "reading; benchmarks guard its time and memory",
    "plugin 0.5 live reload": "the page",
    "plugin 0.6 no export, no address": "faces: `show --format`, `convert`; the page",
    "plugin 1 crash without times of backward nodes": "its own classes",
    "plugin 1 counters cut into the JSON": "writing: `convert` writes JSON anew (tests/views/test_trace_json.py)",
    "plugin 1 logdir_spec": "the page",
    "plugin 1 diff of runs": "a comparison of runs",
    "plugin 3 N/A and other JSON": "reading (tests/readers/test_repair.py)",
    "plugin 4.1 steps without device work are dropped at the end": "tested as `plugin 4.1 steps dropped silently`",
    "plugin 4.1 operators eligible for tensor cores": "advice: which operators could use them",
    "plugin 4.2 shares of what is shown": "drawing: our shares are of all rows",
    "plugin 4.4 trace view": "the page",
    "plugin 4.5 points left out, capacity line, rows hidden": "drawing: our tables have every row",
    "plugin 4.8 distributed": "all ranks",
    "plugin 4.10 diff": "a comparison of runs",
    # HTA
    "hta fails for stragglers": "all ranks",
    "hta fails for lists of files": "finding files (tests/test_reading.py)",
    "hta fails to load with pandas 3": "reading; no pandas in it",
    "hta 9 stragglers know ncclKernel only": "all ranks; the names are tested as `hta 9 names of collectives`",
    "hta 10 rank needs a blank": "finding files (tests/readers/test_recognise.py)",
    "hta 13 differences of some ranks": "a comparison of runs",
    "hta 18 batched parser": "its own reader",
    "hta 20 options that do nothing": "its own options; ours are tested in tests/catalog/test_analyses.py",
    "hta 22 names in its readme": "its own documentation; our guides are executed",
}
"""Defects that no analysis of one rank can have, and why."""


def ask(job: Job, name: str, **params: Any) -> Result:
    """The answer of an analysis, by name."""
    return analysis(name)(job, **params)


def analysis(name: str) -> Analysis:
    return next(each for each in ANALYSES if each.name == name)


def rows(job: Job, name: str, **params: Any) -> list[dict[str, Any]]:
    return ask(job, name, **params).frame.to_dicts()


def one(job: Job, name: str, **params: Any) -> dict[str, Any]:
    [row] = rows(job, name, **params)
    return row


def whole(column: pl.Series) -> int:
    """The sum of a column of whole numbers."""
    return int(column.sum())


def shared(path: str) -> Job:
    return read(required(SHARED / path), jobs=1)


OWLV2 = "owlv2_h100"
MI300 = "resnet_ddp_mi300"
A100 = "ddp_nccl_a100"
B200 = "eager_b200"
MI250 = "mi250_train"
TWO_RANKS = "sampled_2rank"
CONTROL = "trace_diff/control/control.json.gz"
TEST = "trace_diff/test/test.json.gz"
CPU_ONLY = (
    "cpu_only",
    "hostile/rank_not_found.json.gz",
    "hostile/rank_non_gpu.json.gz",
    "torch_2_13_cpu/mlp.pt.trace.json.gz",
)

# --- the plugin: current traces


@defect("plugin 0.1", "on traces since torch 1.12 operators have no device time, and no kernel an operator")
@defect("plugin 7.1 H100", "device time of operators 0, runtime calls 0, kernels counted twice")
def test_each_kernel_belongs_to_one_operator() -> None:
    job = shared(OWLV2)
    work = device_work(job.trace())
    charged = ask(job, "operators").frame.filter(pl.col("kind") != "runtime")["device_self"].sum()
    launched = ask(job, "kernels", group_by="launch", copies=True).frame
    assert charged == work.duration.sum() == launched["total"].sum()
    assert launched["calls"].sum() == len(work)
    assert launched.filter(pl.col("operator").is_null())["total"].sum() == 0


@defect("plugin 7.1 H100 driver", "232 of 551 ms launched by `cuLaunchKernelEx` belong to no operator")
@defect("plugin 1 categories", "`cuda_driver` and others are not known; in 0.4.3 no `cuda_runtime` either")
def test_launches_of_the_driver_count() -> None:
    job = shared(OWLV2)
    trace = job.trace()
    work = device_work(trace)
    driver = trace.category[work.launch] == trace.strings.code("cuda_driver")
    kernels = work.of(WorkKind.COMPUTATION, WorkKind.COMMUNICATION)
    assert [round(work.duration[which].sum() / 1e6) for which in (driver, kernels)] == [232, 551]
    assert (work.op[driver] >= 0).all()


@pytest.mark.parametrize("category", ["cuda_runtime", "cuda_driver", "xpu_runtime", "xpu_driver", "mtia_runtime"])
def test_launches_of_each_vendors_category_count(tmp_path: Path, category: str) -> None:
    call = drawn.event(category, "urEnqueueKernelLaunch", 10, 5, correlation=1)
    job = drawn.job(tmp_path, drawn.op("aten::mm", 0, 50), call, drawn.kernel("k", 20, 7, 1))
    assert {row["name"]: row["device_self"] for row in rows(job, "operators")}["aten::mm"] == 7


@defect("plugin 7.1 owlv2 loader", "0 % data loading where 619 ms are spent in the loader")
@defect("plugin 1 annotations", "annotations of loaders, optimizers and DDP are not seen")
def test_the_loaders_own_annotations_are_data_loading() -> None:
    assert round(whole(ask(shared(OWLV2), "step_breakdown", order="plugin").frame["data_loading"]) / 1e6) == 619


@defect("plugin 0.2", "communication 0.02 % where NCCL takes 396 of 606 ms")
@defect("plugin 7.1 two ranks", "the same")
def test_kernels_of_nccl_are_communication_whatever_their_external_id() -> None:
    found = ask(shared(TWO_RANKS), "overlap").frame
    assert found["communication"].to_list() == [396_199_000, 379_053_000]
    assert found["overlap"].to_list() == [59_216_000, 75_530_000]


@defect(
    "plugin 7.1 DDP", "overlap is that of NCCL's kernels with their own annotations: 15.7 ms a step, not 7.3 in all"
)
def test_communication_overlaps_computation_and_not_itself() -> None:
    row = one(shared(A100), "overlap")
    assert (round(row["communication"] / 1e6, 1), round(row["overlap"] / 1e6, 1)) == (46.9, 7.3)


@defect("plugin 7.1 MI300", "steps 15, 16, 15 and 17, one of them empty and averaged in; communication 0 %")
@defect("plugin 3 copies of steps", "`gpu_user_annotation ProfilerStep#N` makes extra steps")
@defect("plugin 1 empty steps", "an empty step loses the worker")
def test_copies_of_steps_on_streams_are_no_steps() -> None:
    frame = ask(shared(MI300), "step_breakdown").frame
    assert frame["step"].to_list() == [15, 16, 17]
    assert (frame["duration"] > 0).all()
    assert frame["communication"].sum() > 0
    assert round(whole(ask(shared(MI300), "overlap").frame["communication"]) / 1e6, 1) == 71.5


@defect("plugin 7.1 MI300 qwen", "the memory curve fails on devices of HIP's own type, 6")
@defect("plugin 4.5 names of devices", "memory of devices other than CUDA's has no name")
@pytest.mark.parametrize(("kind", "name"), [(1, "cuda:0"), (6, "hip:0"), (12, "xpu:0"), (19, "mtia:0")])
def test_memory_of_each_type_of_device_has_a_curve(tmp_path: Path, kind: int, name: str) -> None:
    taken = drawn.memory(10, 100, device=0)
    taken["args"] |= {"Device Type": kind, "Addr": 7, "Total Allocated": 100}
    job = drawn.job(tmp_path, drawn.op("aten::empty", 0, 50), taken)
    assert [(row["device"], row["allocated"]) for row in rows(job, "memory_curve")] == [(name, 100)]
    assert [row["device"] for row in rows(job, "memory_events")] == [name]


@defect("plugin 7.1 GPU only", "without host calls: an average step of −2^64 us, and the page of operators dies")
def test_a_trace_of_device_work_alone_has_answers(tmp_path: Path) -> None:
    job = drawn.job(tmp_path, drawn.kernel("a", 100, 30, 1), drawn.kernel("b", 150, 50, 2))
    for each in ANALYSES:
        result = each(job)
        for column in each.schema:
            if column.unit == "ns" and column.name != "slope" and result.frame[column.name].dtype == pl.Int64:
                assert (result.frame[column.name].fill_null(0) >= 0).all(), (each.name, column.name)
    assert one(job, "temporal_breakdown")["window"] == 100


@defect("plugin 7.1 B200", "no step: 221 kernels, 6.5 of 10.9 ms, vanish; tensor cores 0 %")
def test_without_steps_every_kernel_stays_and_new_matrix_units_are_known() -> None:
    job = shared(B200)
    work = device_work(job.trace())
    found = ask(job, "kernels", group_by="launch", copies=True).frame
    assert (found["calls"].sum(), found["total"].sum()) == (len(work), work.duration.sum())
    assert ask(job, "device_utilization").frame["matrix_unit_share"][0] > 0.3


@defect(
    "plugin 7.1 graphs", "calls without an External id, as graph launches, all belong to the first node without one"
)
@defect("plugin 3 External id", "launches are joined to operators by External id, and None equals None")
def test_a_launch_without_an_external_id_belongs_where_it_stands(tmp_path: Path) -> None:
    module = drawn.python("nn.Module: First_0", 0, 10, **{"Python module id": 0})
    second = drawn.python("nn.Module: Second_0", 20, 40, **{"Python module id": 1})
    work = [drawn.kernel(f"k{n}", 100 + 10 * n, 9, 5, stream=7 + n % 2) for n in range(300)]
    job = drawn.job(tmp_path, module, second, drawn.launch(30, 5, 5, name="cudaGraphLaunch"), *work)
    found = {row["name"]: row["device_total"] for row in rows(job, "modules")}
    assert found == {"First_0": 0, "Second_0": 300 * 9}


@defect("plugin 7.1 MTIA", "no device at all, as `mtia_ccp_events` is not known")
def test_mtia_has_device_work() -> None:
    row = one(shared("mtia"), "temporal_breakdown")
    assert row["computation"] > 0
    assert row["exposed_memory"] > 0


# --- the plugin: how it builds its model


@defect("plugin 3 events without category", "one complete event without a category loses the whole worker")
def test_an_event_without_a_category_loses_nothing_else(tmp_path: Path) -> None:
    bare = {"ph": "X", "name": "x", "pid": 1, "tid": 1, "ts": 1, "dur": 1}
    job = drawn.job(tmp_path, bare, drawn.op("a", 0, 9), drawn.kernel("k", 20, 5, 1))
    assert one(job, "temporal_breakdown")["computation"] == 5


@defect("plugin 3 long recordings", "the mark of the window's end is thought wrong after 86 s, where a day is meant")
def test_a_recording_of_two_minutes_stays_as_long(tmp_path: Path) -> None:
    far = 120_000_000_000
    job = drawn.job(tmp_path, drawn.kernel("a", 0, 10, 1), drawn.kernel("a", far, 10, 2))
    assert one(job, "temporal_breakdown")["window"] == far + 10


@defect("plugin 3 crossing calls", "a call that ends after the one around it is dropped")
def test_calls_that_cross_both_count(tmp_path: Path) -> None:
    job = drawn.job(tmp_path, drawn.op("a", 0, 10), drawn.op("b", 5, 10))
    assert {row["name"]: row["host_total"] for row in rows(job, "operators")} == {"a": 10, "b": 10}


@defect("plugin 3 deep stacks", "recursion ends at the interpreter's limit")
def test_a_stack_of_thousands_of_calls_is_walked(tmp_path: Path) -> None:
    depth = 3000
    deep = [drawn.python(f"f{n}", n, 2 * (depth - n)) for n in range(depth)]
    call = drawn.launch(depth, 1, 1)
    job = drawn.job(tmp_path, *deep, drawn.op("aten::mm", depth, 2), call, drawn.kernel("k", 2 * depth, 5, 1))
    for name in ("operators", "flame", "operator_stacks", "kernel_sequences", "modules", "critical_path"):
        ask(job, name)
    assert len(rows(job, "operators", python=True)) == depth + 2


@defect("plugin 3 stale kernels", "a kernel without a known launch is counted once for each thread with a step")
def test_a_kernel_without_a_launch_is_counted_once(tmp_path: Path) -> None:
    steps = [drawn.annotation("ProfilerStep#1", 0, 90, tid=tid) for tid in (1, 2)]
    shadow = drawn.kernel("ProfilerStep#1", 0, 90, 0, category="gpu_user_annotation")
    job = drawn.job(tmp_path, *steps, shadow, drawn.kernel("k", 20, 5, 99))
    assert [(row["name"], row["calls"]) for row in rows(job, "kernels", group_by="launch")] == [("k", 1)]


@defect("plugin 3 overlapping streams", "device time of an operator is a sum: what runs at the same time counts twice")
def test_device_time_is_told_as_sum_and_as_busy_time(tmp_path: Path) -> None:
    calls = [drawn.launch(10, 5, 1), drawn.launch(20, 5, 2)]
    work = [drawn.kernel("k", 30, 10, 1), drawn.kernel("k", 35, 10, 2, stream=8)]
    row = rows(drawn.job(tmp_path, drawn.op("a", 0, 50), *calls, *work), "operators")[0]
    assert (row["device_total"], row["device_total_busy"]) == (20, 15)


@defect("plugin 3 runtime calls", "the time of runtime calls is in no operator")
def test_runtime_calls_have_rows_or_count_to_their_operator(tmp_path: Path) -> None:
    job = drawn.job(tmp_path, drawn.op("a", 0, 50), drawn.launch(10, 20, 1), drawn.kernel("k", 30, 10, 1))
    apart = {row["name"]: row["host_self"] for row in rows(job, "operators")}
    assert apart == {"a": 30, "cudaLaunchKernel": 20}
    assert {row["name"]: row["host_self"] for row in rows(job, "operators", runtime="include")} == {"a": 50}


# --- the plugin: its views


@defect("plugin 4.1 one step of host calls alone", "without marked steps device work outside host calls is in no step")
def test_without_marked_steps_the_window_has_all_device_work(tmp_path: Path) -> None:
    work = drawn.kernel("k", 100, 50, 1)
    [row] = rows(drawn.job(tmp_path, drawn.op("a", 0, 20), drawn.launch(5, 5, 1), work), "step_breakdown")
    assert (row["duration"], row["computation"]) == (150, 50)


@defect("plugin 4.1 steps dropped silently", "last steps with less than 80 % of the device work before are dropped")
def test_the_last_step_stays_however_little_it_does(tmp_path: Path) -> None:
    steps = [drawn.annotation(f"ProfilerStep#{n}", 100 * n, 100) for n in range(3)]
    busy = [
        drawn.launch(10, 5, 1),
        drawn.launch(110, 5, 2),
        drawn.kernel("k", 20, 50, 1),
        drawn.kernel("k", 120, 50, 2),
    ]
    assert [row["step"] for row in rows(drawn.job(tmp_path, *steps, *busy), "step_breakdown")] == [0, 1, 2]


@defect("plugin 4.1 kernels that no operator launched", "the share of tensor cores leaves them out: 8.2 and not 46.8 %")
def test_the_share_of_matrix_units_is_of_all_kernels() -> None:
    job = shared(OWLV2)
    frame = ask(job, "kernels").frame
    share = whole(frame.filter(pl.col("matrix_unit") == "yes")["total"]) / whole(frame["total"])
    assert share > 0.46
    assert one(job, "device_utilization")["matrix_unit_share"] == pytest.approx(share, abs=0.01)


@defect("plugin 4.1 names of matrix units", "nvjet, flash attention, fp8 and all of AMD are no tensor cores")
@pytest.mark.parametrize("name", ["nvjet_tst_128x64", "flash_fwd_kernel", "Cijk_Ailk_Bljk_HHS_BH_MT64x64_MI16x16x16"])
def test_newer_matrix_units_are_not_said_to_be_none(tmp_path: Path, name: str) -> None:
    assert one(drawn.job(tmp_path, drawn.kernel(name, 0, 9, 1)), "kernels")["matrix_unit"] == "yes"


@defect("plugin 4.1 copies of annotations", "those on streams count as host time")
def test_copies_of_annotations_on_streams_are_no_host_time(tmp_path: Path) -> None:
    step = drawn.annotation("ProfilerStep#1", 0, 100)
    shadow = drawn.kernel("DistributedDataParallel.forward", 20, 60, 0, category="gpu_user_annotation")
    row = one(drawn.job(tmp_path, step, shadow, drawn.op("a", 0, 10), drawn.kernel("k", 50, 10, 1)), "step_breakdown")
    assert (row["host"], row["other"]) == (10, 80)


@defect("plugin 4.3 missing is 0", "kernels without occupancy count as 0 in its mean")
def test_what_is_missing_is_not_0(tmp_path: Path) -> None:
    filled: dict[str, Any] = {"est. achieved occupancy %": 50}
    known = drawn.kernel("k", 0, 10, 1, **filled)
    row = one(drawn.job(tmp_path, known, drawn.kernel("k", 20, 10, 2)), "kernels")
    assert row["occupancy"] == 0.5


@defect("plugin 4.3 copies", "copies and sets are in no table of kernels")
def test_copies_can_be_listed(tmp_path: Path) -> None:
    job = drawn.job(tmp_path, drawn.kernel("Memcpy HtoD", 0, 10, 1, category="gpu_memcpy"))
    assert one(job, "kernels", copies=True)["kind"] == "memcpy"


@defect("plugin 4.3 unlaunched kernels", "the table by launch leaves out what no thread launched")
def test_the_table_by_launch_sums_to_that_by_name() -> None:
    job = shared(TEST)  # 614 of 15,632 pieces of work have no recorded launch
    assert ask(job, "kernels", group_by="launch").frame["total"].sum() == ask(job, "kernels").frame["total"].sum()


@defect("plugin 4.5 records without address", "files of 2021 have no curve of memory")
def test_records_without_an_address_make_a_curve() -> None:
    frame = ask(shared("resnet50_v100/num_workers_0/worker0.1623143089861.pt.trace.json.gz"), "memory_curve").frame
    assert set(frame["device"]) == {"cpu", "cuda:0"}
    assert max(frame["allocated"].to_list()) > 1 << 30


@defect("plugin 4.5 memory outside operators", "what annotations, optimizers and modules take themselves vanishes")
def test_memory_taken_in_no_operator_has_a_row(tmp_path: Path) -> None:
    step = drawn.annotation("Optimizer.step#SGD.step", 0, 50)
    job = drawn.job(tmp_path, step, drawn.memory(10, 100), drawn.memory(90, 7))
    found = {row["name"]: row["self_size_increase"] for row in rows(job, "memory_by_operator")}
    assert found == {"Optimizer.step#SGD.step": 100, "[memory]": 7}


@defect("plugin 4.5 who frees", "what is freed is charged to whatever runs then, and nothing pairs the two")
def test_a_block_is_that_of_the_operator_that_took_it(tmp_path: Path) -> None:
    taken, given = drawn.memory(10, 100), drawn.memory(60, -100)
    for each in (taken, given):
        each["args"]["Addr"] = 77
    row = one(drawn.job(tmp_path, drawn.op("a", 0, 20), drawn.op("b", 50, 20), taken, given), "memory_events")
    assert (row["operator"], row["size"], row["duration"]) == ("a", 100, 50)


@defect("plugin 4.6 self times of modules", "own host time is without, own device time with the operators called")
def test_self_times_of_modules_mean_the_same_on_host_and_device(tmp_path: Path) -> None:
    module = drawn.python("nn.Module: Net_0", 0, 100, **{"Python module id": 0})
    parts = [drawn.op("aten::mm", 10, 40), drawn.launch(20, 5, 1), drawn.kernel("k", 60, 30, 1)]
    row = one(drawn.job(tmp_path, module, *parts), "modules")
    assert (row["host_self"], row["device_self"]) == (100, 30)


@defect("plugin 1 forward-backward links", "flows called `fwdbwd` are not known: modules have no backward pass")
def test_the_backward_pass_belongs_to_its_module() -> None:
    frame = ask(shared("torch_2_13_cpu/mlp.pt.trace.json.gz"), "modules").frame
    assert (frame.filter(pl.col("name").str.starts_with("Linear"))["host_backward"] > 0).all()


@defect("plugin 4.7 Lightning", "its modules are a view of their own, and its ranges hide the operators")
def test_modules_of_lightning_are_modules(tmp_path: Path) -> None:
    outer = drawn.op("[pl][module]torch.nn.Sequential: net", 0, 90)
    inner = drawn.op("[pl][module]torch.nn.Linear: net.0", 10, 50)
    parts = [drawn.op("aten::mm", 20, 30), drawn.launch(30, 5, 1), drawn.kernel("k", 60, 30, 1)]
    job = drawn.job(tmp_path, outer, inner, *parts)
    assert [row["device_self"] for row in rows(job, "modules")] == [0, 30]
    assert {row["name"]: row["calls"] for row in rows(job, "operators")}["aten::mm"] == 1


@defect(
    "plugin 4.9 call stacks", "stacks are known only where the file spells them out: on no trace of a device at hand"
)
def test_call_stacks_are_those_of_the_python_calls_recorded() -> None:
    frame = ask(shared(OWLV2), "operator_stacks", operator="aten::addmm", exact=True).frame
    assert frame["call_stack"].null_count() == 0


# --- HTA: where it fails


@defect("hta fails on CPU-only traces", "IndexError, ValueError, AssertionError, KeyError")
@pytest.mark.parametrize("path", CPU_ONLY)
def test_traces_without_a_device_have_answers_or_notes(path: str) -> None:
    job = shared(path)
    for each in ANALYSES:
        result = each(job)
        assert len(result) or result.notes, each.name


@defect("hta fails where only counters were recorded", "IndexError and ValueError")
def test_a_trace_of_counter_ranges_has_answers() -> None:
    job = shared("cupti_counters")
    for each in ANALYSES:
        each(job)
    assert whole(ask(job, "hardware_counters").frame["calls"]) > 0


@defect("hta fails on MTIA", "the critical path finds no launch")
def test_mtia_has_a_critical_path() -> None:
    result = ask(shared("mtia"), "critical_path")
    assert len(result) or result.notes


@defect(
    "hta fails on short kernels",
    "sequences of kernels fail on all of 8 traces with decimals, temporal breakdown on one",
)
def test_traces_with_decimals_have_sequences_and_a_breakdown() -> None:
    for path in (A100, OWLV2):
        job = shared(path)
        assert len(ask(job, "kernel_sequences", operator="aten::linear"))
        assert one(job, "temporal_breakdown")["non_computation"] >= 0


@defect("hta fails on threads named by text", "TypeError on the files of 2021")
def test_threads_named_by_text_have_sequences() -> None:
    job = shared("resnet50_v100/num_workers_0/worker0.1623143089861.pt.trace.json.gz")
    assert len(ask(job, "kernel_sequences", operator="aten::conv2d"))
    assert len(ask(job, "critical_path")) == 6


@defect("hta fails on AMD", "delays of operators fail on 13 of 14 traces, and launch statistics have no row, silently")
def test_launches_of_rocm_count() -> None:
    for path in (MI250, MI300):
        job = shared(path)
        assert len(ask(job, "operator_launch_delay"))
        linked = (device_work(job.trace()).launch >= 0).sum()
        assert ask(job, "launches").frame["work"].sum() == linked


# --- HTA: its errors


@defect("hta 1", "rounding to microseconds loses up to 18 % of device time, and makes durations negative")
def test_short_kernels_keep_their_time(tmp_path: Path) -> None:
    job = drawn.job(tmp_path, *(drawn.kernel("k", 1000 * n + 300, 500, n + 1) for n in range(10)))
    assert one(job, "temporal_breakdown")["computation"] == 5000
    assert one(job, "kernels")["mean"] == 500


@defect("hta 2", "with more than ten names of kernels mean, minimum and maximum are those of the sum")
def test_means_are_of_calls_with_any_number_of_names() -> None:
    frame = ask(shared(CONTROL), "kernels").frame
    assert len(frame) > 10
    several = frame.filter(pl.col("calls") > 1)
    assert ((several["mean"] * several["calls"] - several["total"]).abs() <= several["calls"]).all()


@defect("hta 3a", "host operators with an argument `stream` (Triton) are device work")
def test_host_rows_with_a_stream_are_no_device_work(tmp_path: Path) -> None:
    triton = drawn.op("triton_poi_fused_add_0", 0, 94_000, stream=0, kernel_kwargs="")
    job = drawn.job(tmp_path, triton, drawn.launch(10, 5, 1, name="cuLaunchKernel"), drawn.kernel("t", 200, 1800, 1))
    row = one(job, "temporal_breakdown")
    assert (row["window"], row["computation"]) == (1800, 1800)


@defect("hta 3b", "recorded waits are device work: 16,464,339 us on one trace where 16,025,575 are")
def test_waits_on_streams_are_no_device_work() -> None:
    row = one(shared("critical_path/simple_add"), "temporal_breakdown")
    assert row["window"] == 16_025_575_000


@defect("hta 4", "all kernels of a graph have one launch, of which one is linked, and launches of graphs are not known")
def test_a_launch_of_a_graph_has_all_its_kernels(tmp_path: Path) -> None:
    work = [drawn.kernel(f"k{n}", 100 + 10 * n, 5, 5) for n in range(544)]
    call = drawn.launch(10, 20, 5, name="hipGraphLaunch")
    job = drawn.job(tmp_path, drawn.op("replay", 0, 50), call, *work)
    row = one(job, "launches")
    assert (row["work"], row["work_duration"], row["delay"]) == (544, 544 * 5, 70)
    assert one(job, "queue_length")["max"] == 1
    assert {row["name"]: row["device_self"] for row in rows(job, "operators")}["replay"] == 544 * 5


@defect("hta 5", "four lists of launches by name, which differ: Triton's on AMD are in none")
@pytest.mark.parametrize(
    "name", ["cuLaunchKernelEx", "hipModuleLaunchKernel", "hipExtModuleLaunchKernel", "unheard_of"]
)
def test_what_launched_is_told_by_correlation(tmp_path: Path, name: str) -> None:
    job = drawn.job(
        tmp_path, drawn.op("aten::mm", 0, 50), drawn.launch(10, 5, 1, name=name), drawn.kernel("k", 60, 7, 1)
    )
    assert [row["calls"] for row in rows(job, "launch_statistics")] == [1, 1]
    assert len(rows(job, "queue_length")) == len(rows(job, "operator_launch_delay")) == 1
    assert rows(job, "critical_path")[0]["computation"] == 7


@defect("hta 6", "ends are not aligned with starts: the last kernel of a call ends in the year 2022")
def test_times_are_from_the_first_event_on() -> None:
    job = shared(CONTROL)
    window = one(job, "temporal_breakdown")["window"]
    assert ask(job, "launches").frame["start"].max() < 2 * window


@defect("hta 7", "of the time that queues are full one stream of a rank is kept")
def test_each_stream_has_its_time_with_a_full_queue() -> None:
    full = {row["stream"]: row["full"] for row in rows(shared(CONTROL), "queue_length", full_at=5)}
    assert {stream for stream, time in full.items() if time} == {7, 20, 22}


@defect("hta 8", "forward-backward links are dead code")
def test_forward_backward_links_are_used(tmp_path: Path) -> None:
    module = drawn.python("nn.Module: Net_0", 0, 50, **{"Python module id": 0})
    forward = drawn.op("aten::mm", 10, 20, **{"Sequence number": 3})
    backward = drawn.op("MmBackward0", 100, 30, tid=2, **{"Sequence number": 3, "Fwd thread id": 1})
    flow = {"cat": "fwdbwd", "name": "fwdbwd", "id": 1, "pid": 1}
    flows = [{"ph": "s", "tid": 1, "ts": 0.010, **flow}, {"ph": "f", "bp": "e", "tid": 2, "ts": 0.100, **flow}]
    assert one(drawn.job(tmp_path, module, forward, backward, *flows), "modules")["host_backward"] == 30


@defect(
    "hta 9 names of collectives", "`ncclDevKernel…`, RCCL, NVSHMEM and custom all-reduces are computation, `hip…` not"
)
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "communication"),
        ("rccl_main_kernel", "communication"),
        ("multimem_all_reduce_kernel", "communication"),
        ("void vllm::cross_device_reduce_1stage<float>", "communication"),
        ("nvshmem_put", "communication"),
        ("hipblasLtMatmul", "computation"),
        ("cub::DeviceMemcpyKernel", "computation"),
        ("SyncBatchNorm_forward", "computation"),
        ("dma_like_gemm", "computation"),
    ],
)
def test_kinds_of_kernels_by_name(tmp_path: Path, name: str, kind: str) -> None:
    assert one(drawn.job(tmp_path, drawn.kernel(name, 0, 9, 1)), "kernels")["kind"] == kind


@defect("hta 11", "sequences of the shallowest calls only: 355 of 505, and of all names that contain the operator's")
def test_all_calls_of_an_operator_have_sequences() -> None:
    job = shared(CONTROL)
    trace = job.trace()
    calls = int(((trace.name == trace.strings.code("aten::linear")) & (trace.kind == EventKind.HOST_OP)).sum())
    frame = ask(job, "kernel_sequences", operator="aten::linear", min_length=0).frame
    assert frame["calls"].sum() == calls
    assert set(frame["operator"]) == {"aten::linear"}


@defect("hta 12", "delays of operators add up over ranks, and take operators of other threads")
def test_delays_are_of_the_launching_thread_of_one_rank(tmp_path: Path) -> None:
    other = drawn.op("aten::other", 5, 100, tid=2)
    job = drawn.job(tmp_path, drawn.op("aten::mm", 0, 50), other, drawn.launch(10, 5, 1), drawn.kernel("k", 30, 7, 1))
    assert one(job, "operator_launch_delay")["operator"] == "aten::mm"
    both = ask(shared(TWO_RANKS), "operator_launch_delay").frame
    first = ask(read(required(SHARED / TWO_RANKS / "sampled_rank-0.json.gz"), jobs=1), "operator_launch_delay").frame
    assert both.filter(pl.col("rank") == 0)["calls"].sum() == first["calls"].sum()


@defect("hta 14", "means are over points at which something changes: 51 GB/s where 300 are")
def test_means_are_over_time() -> None:
    job = shared(TEST)
    trace = job.trace()
    work = device_work(trace)
    [row] = [row for row in rows(job, "memory_bandwidth") if row["direction"] == "DtoD"]
    assert row["bandwidth"] == pytest.approx(row["bytes"] / (row["busy"] / 1e9))
    assert round(row["bandwidth"] / 1e9) == 300
    assert (work.kind == WorkKind.MEMCPY).sum() > row["calls"]


@defect("hta 15", "work on stream 0 of AMD has no step and no call stack")
def test_work_on_stream_0_has_a_step(tmp_path: Path) -> None:
    steps = [drawn.annotation(f"ProfilerStep#{n}", 100 * n, 100) for n in range(2)]
    call, work = drawn.launch(110, 5, 1, name="hipLaunchKernel"), drawn.kernel("k", 130, 9, 1, stream=0)
    job = drawn.job(tmp_path, *steps, drawn.op("aten::mm", 105, 40), call, work)
    assert [row["computation"] for row in rows(job, "step_breakdown")] == [0, 9]
    assert one(job, "kernels", group_by="launch")["operator"] == "aten::mm"


@defect("hta 16", "733 of 900 kernels under DDP's forward, with another version of pandas all of them")
def test_kernels_in_annotations_are_those_of_the_file() -> None:
    found = {row["name"]: row["work_self"] for row in rows(shared(A100), "annotations", by="stream")}
    assert found["DistributedDataParallel.forward"] >= 900


@defect("hta 17", "waits and calls without correlation multiply")
def test_events_without_correlation_do_not_multiply(tmp_path: Path) -> None:
    steps = [drawn.annotation(f"ProfilerStep#{n}", 1000 * n, 1000) for n in range(2)]
    waits = [drawn.event("cuda_sync", "Context Sync", 10 * n, 5, pid=0, tid=7) for n in range(50)]
    calls = [drawn.event("cuda_runtime", "cudaGetDevice", 10 * n, 5) for n in range(50)]
    job = drawn.job(tmp_path, *steps, *waits, *calls, drawn.launch(5, 2, 9), drawn.kernel("k", 20, 5, 9))
    assert {row["name"]: row["calls"] for row in rows(job, "operators")}["cudaGetDevice"] == 50
    assert one(job, "kernels")["calls"] == 1


@defect("hta 19", "idle time is negative where work overlaps on a stream")
@pytest.mark.parametrize("path", [A100, "mtia", TEST])
def test_idle_time_is_never_negative(path: str) -> None:
    for by in ("device", "stream"):
        frame = ask(shared(path), "idle_breakdown", by=by).frame
        assert (frame["time"] > 0).all()


@defect("hta 21", "a job whose only rank is 3 has no answer by default")
def test_a_single_rank_may_have_any_number() -> None:
    assert set(ask(shared(CONTROL), "idle_breakdown").frame["rank"]) == {3}


@defect("hta 23", "the path of calls alone: shorter than the step, and on the host where waits were not recorded")
def test_the_critical_path_is_as_long_as_the_step() -> None:
    job = shared(CONTROL)
    path, steps = ask(job, "critical_path").frame, ask(job, "step_breakdown").frame
    assert path["duration"].to_list() == steps["duration"].to_list()
    assert (path["computation"] > 0).all()


# --- nothing is forgotten


def test_each_defect_is_tested_or_has_a_reason() -> None:
    numbers = {name.removeprefix("hta ").split(" ")[0].rstrip("ab") for name in [*TESTED, *NOT_THIS] if "hta" in name}
    assert {str(n) for n in range(1, 24)} <= numbers
    assert not TESTED.keys() & NOT_THIS.keys()
