from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pytest

from kinetoscope import Selection, Trace, read, temporal_breakdown
from kinetoscope.algorithms.intervals import merge, union
from kinetoscope.model.device import device_work
from kinetoscope.model.kinds import EventKind, WorkKind
from tests import drawn
from tests.catalog.samples import GOLDEN, SHARED, required

# --- HTA's own answers

Counts = Literal["what we count", "linked work only", "waits on streams, too", "waits as computation, pe_exe not"]


class Golden(NamedTuple):
    """A golden value of HTA: where it and its trace lie, what HTA counts, how much of it is in question, the tolerance.

    `last__` values include the last step, which HTA leaves out by default; files in `ns_exact` are not rounded to
    microseconds, but a double holds them to about a nanosecond.
    """

    name: str
    trace: str
    counts: Counts = "what we count"
    concerned: tuple[int, int] = (0, 0)
    tolerance: int = 0


GOLDENS = [
    Golden("trace_diff__control", "trace_diff/control/control.json.gz"),
    Golden("trace_filter", "sampled_2rank"),
    Golden("execution_trace", "execution_trace/benchmark_simple_add_trace.json.gz"),
    Golden("ns_exact/nccl_parser_config", "ddp_nccl_a100", tolerance=1),
    Golden("ns_exact/amd_trace", "mi250_train", tolerance=1),
    # HTA leaves out work whose launch was not recorded, and says nothing: so many pieces, of so many.
    Golden("trace_diff__test", "trace_diff/test/test.json.gz", "linked work only", (614, 15_632)),
    Golden("trace_compare__base", "trace_compare/base/base.json.gz", "linked work only", (16, 18)),
    Golden("trace_compare__test", "trace_compare/test/test.json.gz", "linked work only", (16, 17)),
    Golden("negative_queue_length_values_check", "queue_length", "linked work only", (872, 7747)),
    # HTA takes waits that are recorded on a numbered stream for work: so many, of so many waits.
    Golden("critical_path__alexnet", "alexnet_a100", "waits on streams, too", (41, 41)),
    Golden("critical_path__simple_add", "critical_path/simple_add", "waits on streams, too", (41, 41)),
    Golden("critical_path__cuda_event_sync", "critical_path/cuda_event_sync", "waits on streams, too", (1, 4)),
    Golden(
        "critical_path__cuda_event_sync_multi_stream",
        "critical_path/cuda_event_sync_multi_stream",
        "waits on streams, too",
        (1, 5),
    ),
    # HTA takes event_wait and event_record for computation, and pe_exe, a processing element at work, for neither.
    Golden("ns_exact/mtia_inference_trace", "mtia", "waits as computation, pe_exe not", (339, 339), tolerance=1),
]
COLUMNS = {
    "kernel_time(us)": "window",
    "compute_time(us)": "computation",
    "non_compute_time(us)": "non_computation",
    "idle_time(us)": "idle",
}


def htas_answer(name: str) -> list[dict[str, float]]:
    results = json.loads(required(GOLDEN / "hta" / f"{name}.json").read_text())["results"]
    found = results.get("last__temporal_breakdown") or results["temporal_breakdown"]
    return [{ours: 1000 * row[its] for its, ours in COLUMNS.items()} for row in found["result"]]


def as_hta_counts(trace: Trace, counts: Counts) -> tuple[dict[str, int], tuple[int, int]]:
    """The breakdown of what HTA counts, and how many events that concerns."""
    work = trace.of(device_work)
    chosen = work.launch >= 0 if counts == "linked work only" else np.ones(len(work), np.bool_)
    computes = chosen & work.of(WorkKind.COMPUTATION)
    concerned = (int((~chosen).sum()), len(work))
    waits = trace.rows(EventKind.DEVICE_SYNC)
    counted = waits[:0]
    if counts in ("waits on streams, too", "waits as computation, pe_exe not"):
        counted = waits[trace.integers("stream", waits) >= 0]
        concerned = (len(counted), len(waits))
    wait = union(trace.start[counted], trace.end[counted])
    everything = merge(union(work.start[chosen], work.end[chosen]), wait)
    if counts == "waits as computation, pe_exe not":
        computes &= trace.name[work.rows] != trace.strings.code("pe_exe")
        computation = merge(union(work.start[computes], work.end[computes]), wait)
    else:
        computation = union(work.start[computes], work.end[computes])
    window = int(everything.end[-1] - everything.start[0])
    rest = {"non_computation": everything.length - computation.length, "idle": window - everything.length}
    return {"window": window, "computation": computation.length, **rest}, concerned


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: golden.name)
def test_it_equals_hta_or_differs_for_a_known_reason(golden: Golden) -> None:
    job = read(required(SHARED) / golden.trace, jobs=1)
    ours = temporal_breakdown(job).frame.select(COLUMNS.values()).to_dicts()
    theirs = htas_answer(golden.name)
    if golden.counts == "what we count":
        assert len(ours) == len(theirs)
        for mine, its in zip(ours, theirs, strict=True):
            assert mine == pytest.approx(its, rel=0, abs=golden.tolerance)
        return
    as_theirs, concerned = as_hta_counts(job.trace(), golden.counts)
    assert as_theirs == pytest.approx(theirs[0], rel=0, abs=golden.tolerance)
    assert concerned == golden.concerned
    assert ours != [as_theirs]  # else it belongs among those that are equal


@pytest.mark.parametrize("name", ["cpu_only", "hostile/rank_not_found.json.gz", "hostile/rank_non_gpu.json.gz"])
def test_without_device_work_hta_fails_and_we_have_no_row(name: str) -> None:
    result = temporal_breakdown(read(required(SHARED) / name, jobs=1))
    assert len(result) == 0
    assert result.notes == ("No device work was recorded: the trace holds host activity only.",)


# --- drawn


def breakdown(folder: Path, *events: drawn.Event, **selected: object) -> list[dict[str, Any]]:
    select = Selection(**selected)  # type: ignore[arg-type]
    return temporal_breakdown(drawn.job(folder, *events), select=select).frame.to_dicts()


def numbers(row: dict[str, Any]) -> tuple[float, ...]:
    names = ("device", "window", "computation", "exposed_communication", "exposed_memory", "idle", "non_computation")
    return tuple(row[name] for name in names)


WORK = [
    drawn.kernel("gemm", 10, 20, 1),
    drawn.kernel("ncclDevKernel_AllReduce", 20, 30, 2, stream=8),
    drawn.kernel("Memcpy DtoH", 40, 20, 3, stream=9, category="gpu_memcpy"),
    drawn.kernel("gemm", 90, 10, 4),
]


def test_each_instant_of_the_window_is_charged_once(tmp_path: Path) -> None:
    [row] = breakdown(tmp_path, *WORK)
    assert numbers(row) == (0, 90, 30, 20, 10, 30, 30)
    assert (row["computation_share"], row["idle_share"]) == (30 / 90, 30 / 90)


def test_each_device_has_its_own_window(tmp_path: Path) -> None:
    rows = breakdown(tmp_path, *WORK, drawn.kernel("gemm", 0, 5, 5, device=1), drawn.kernel("gemm", 7, 5, 6, device=1))
    assert [numbers(row) for row in rows] == [(0, 90, 30, 20, 10, 30, 30), (1, 12, 10, 0, 0, 2, 0)]


def test_waits_on_streams_and_shadows_of_annotations_are_no_work(tmp_path: Path) -> None:
    wait = drawn.kernel("Stream Wait Event", 0, 500, 8, category="cuda_sync")
    shadow = drawn.kernel("ProfilerStep#1", 0, 500, 9, category="gpu_user_annotation")
    assert breakdown(tmp_path, *WORK, wait, shadow) == breakdown(tmp_path, *WORK)


def test_work_of_no_duration_has_no_shares(tmp_path: Path) -> None:
    [row] = breakdown(tmp_path, drawn.kernel("gemm", 10, 0, 1))
    assert (row["window"], row["computation_share"], row["idle_share"]) == (0, None, None)


def test_a_range_of_time_clips(tmp_path: Path) -> None:
    assert [numbers(row) for row in breakdown(tmp_path, *WORK, time=(5, 85))] == [(0, 80, 20, 20, 10, 30, 30)]


def test_the_window_of_selected_steps_is_the_devices_time_in_them(tmp_path: Path) -> None:
    steps = [drawn.annotation(f"ProfilerStep#{number}", 100 * number, 100) for number in range(3)]
    launches = [drawn.launch(50, 5, 1), drawn.launch(160, 5, 2), drawn.launch(250, 5, 3)]
    work = [drawn.kernel("gemm", 60, 60, 1), drawn.kernel("gemm", 170, 50, 2), drawn.kernel("gemm", 260, 10, 3)]
    drawing = [*steps, *launches, *work]
    assert [numbers(row) for row in breakdown(tmp_path, *drawing, steps=(1,))] == [(0, 220 - 120, 50, 0, 0, 50, 0)]
    assert [numbers(row) for row in breakdown(tmp_path, *drawing, steps=(0, 2))] == [(0, 120 + 80, 70, 0, 0, 130, 0)]


def test_work_of_a_step_that_ran_in_the_step_before_is_outside_the_window(tmp_path: Path) -> None:
    steps = [drawn.annotation(f"ProfilerStep#{number}", 100 * number, 100) for number in range(2)]
    launches = [drawn.launch(50, 5, 1), drawn.launch(110, 5, 2), drawn.launch(160, 5, 3)]
    work = [
        drawn.kernel("gemm", 60, 90, 1),
        drawn.kernel("gemm", 120, 20, 2, stream=8),
        drawn.kernel("gemm", 170, 10, 3),
    ]
    assert [numbers(row) for row in breakdown(tmp_path, *steps, *launches, *work, steps=(1,))] == [
        (0, 200 - 150, 10, 0, 0, 40, 0)
    ]


def test_nothing_selected_is_not_nothing_recorded(tmp_path: Path) -> None:
    result = temporal_breakdown(drawn.job(tmp_path, *WORK), select=Selection(time=(70, 75)))
    assert len(result) == 0
    assert result.notes[-1] == "No device work was selected."
