"""Compilations and graph breaks, from the log beside a drawn trace and from the trace alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import kinetoscope
from kinetoscope.model.steps.selection import Selection
from tests.drawn import Event, annotation, job, op, python
from tests.model.compile.drawn_log import PRINT, artifact, graph_break, metrics, record, written_log
from tests.notes import codes

US = 1_000
TIMED = " (dynamo_timed)"


def compiler(start: int, compile_id: str | None = "0/0") -> list[Event]:
    """A compilation of 100 µs: 30 of Dynamo, 20 of AOTAutograd, 25 of Inductor, 15 of its code, 10 of the compiler."""
    outer = ("_compile.compile_inner", "OutputGraph.call_user_compiler", "compile_fx_inner")
    names = (*outer, "GraphLowering.compile_to_module", "async_compile.wait")
    begins, lasts = (0, 15, 25, 35, 40), (100, 70, 50, 25, 10)
    spans = [
        op(name + TIMED, start + begin * US, last * US) for name, begin, last in zip(names, begins, lasts, strict=True)
    ]
    mark = [annotation(f"build_guards_data: compile_id={compile_id}", start + 90 * US, US)] if compile_id else []
    return [*spans, *mark]


def broken(start: int, outer: str = "0/0", inner: str = "1/0", *, compiling: bool = False) -> list[Event]:
    """A call whose graph is broken: a graph from 10 to 40 µs, and from 90 µs on a region that goes on behind it."""
    return [
        op(f"Torch-Compiled Region: {outer}", start, 150 * US),
        op("CompiledFunction", start + 10 * US, 30 * US),
        annotation("## Call CompiledFxGraph fabc ##", start + 15 * US, 20 * US),
        *([op("_compile.compile_inner" + TIMED, start + 50 * US, 30 * US)] if compiling else []),
        op(f"Torch-Compiled Region: {inner}", start + 90 * US, 50 * US),
        op("CompiledFunction", start + 95 * US, 30 * US),
    ]


def row(frame: pl.DataFrame, *columns: str) -> tuple[Any, ...]:
    assert len(frame) == 1
    return frame.select(columns).row(0)


PHASES = ("tracing", "aot_autograd", "inductor", "code_generation", "kernel_compilation", "at_run_time")


def test_the_trace_alone_has_phases_and_calls(tmp_path: Path) -> None:
    region = op("Torch-Compiled Region: 0/0", 200 * US, 50 * US)
    helper = [op("compile_file" + TIMED, 0, 900 * US, tid=2), annotation("x_data: compile_id=None", 1, 1, tid=2)]
    later = [op("CachingAutotuner.benchmark_all_configs" + TIMED, 210 * US, 5 * US)]
    mark = [annotation("CachingAutotuner_data: compile_id=0/0", 211 * US, US)]
    result = kinetoscope.compilations(job(tmp_path, *compiler(0), region, *helper, *later, *mark))
    assert row(result.frame, "compile_id", "time", "in_trace") == ("0/0", 105 * US, 105 * US)
    assert row(result.frame, *PHASES) == (30 * US, 20 * US, 25 * US, 15 * US, 10 * US, 5 * US)
    assert row(result.frame, "calls", "run", "function", "cache_misses") == (1, 45 * US, None, None)
    assert "structured log is not there" in result.notes[0]


def test_spans_of_older_torch_have_no_compile_id(tmp_path: Path) -> None:
    result = kinetoscope.compilations(job(tmp_path, *compiler(0, None), op("Torch-Compiled Region", 200 * US, US)))
    assert row(result.frame, "compile_id", "time", "calls") == (None, 100 * US, 0)


def test_the_log_names_functions_and_reasons_before_the_recording_too(tmp_path: Path) -> None:
    written_log(
        tmp_path,
        metrics("0/0", "forward", 18, 1_000, 70, 40, inductor_fx_local_cache_miss_count=1),
        artifact("recompile_reasons", "0/0: tensor 'x' size mismatch at index 0. expected 8, actual 12", "0/1"),
        metrics("0/1", "forward", 18, 5_000, 110, 80),
        metrics("0/1", "other", 1, 5_000, 999, 80).replace('"attempt": 0', '"attempt": 0, "rank": 3'),
    )
    events = [op("aten::mm", 0, US), *compiler(4 * US, "0/1")]
    frame = kinetoscope.compilations(job(tmp_path, *events, baseTimeNanoseconds=4_996 * US)).frame
    assert frame["compile_id"].to_list() == ["0/0", "0/1"]
    assert frame["start"].to_list() == [-3_996 * US, 4 * US]
    assert frame["reason"].to_list() == [None, "0/0: tensor 'x' size mismatch at index 0. expected 8, actual 12"]
    assert frame["time"].to_list() == [70 * US, 110 * US]
    assert frame["in_trace"].to_list() == [0, 100 * US]
    assert frame["cache_misses"].to_list() == [1, 0]
    assert frame["file"].to_list() == ["/home/me/model.py"] * 2


def test_the_time_between_pieces_is_without_compiling(tmp_path: Path) -> None:
    written_log(tmp_path, graph_break(20, "0/0"), graph_break(44, "7/0"), metrics("0/0", "forward", 18, 0, 5))
    events = [*broken(0, compiling=True), *broken(1_000 * US), op("Torch-Compiled Region: 5/0", 2_000 * US, US)]
    frame = kinetoscope.graph_breaks(job(tmp_path, *events)).frame
    assert frame.select("line", "calls", "between", "longest").rows() == [
        (20, 2, (50 - 30 + 50) * US, 50 * US),
        (44, 0, 0, None),
    ]
    assert frame["compile_ids"].to_list() == ["0/0", "7/0"]


def test_two_compiled_functions_in_a_row_are_no_break(tmp_path: Path) -> None:
    events = [op(f"Torch-Compiled Region: {k}/0", k * 100 * US, 50 * US) for k in range(4)]
    result = kinetoscope.graph_breaks(job(tmp_path, *events))
    assert result.frame.is_empty()
    assert codes(result.notes) == ["NO_BREAKS"]


def test_without_a_log_the_resumed_function_says_where(tmp_path: Path) -> None:
    name = "/home/me/model.py(20): torch_dynamo_resume_in_forward_at_21"
    events = [*broken(0), python(name, 85 * US, 60 * US), *broken(1_000 * US)]
    frame = kinetoscope.graph_breaks(job(tmp_path, *events)).frame
    assert frame.select("file", "line", "function", "calls", "compile_ids").rows() == [
        ("/home/me/model.py", 21, "forward", 1, "0/0"),
        (None, None, None, 1, "0/0"),
    ]


def test_a_region_without_a_marked_graph_has_no_time(tmp_path: Path) -> None:
    events = [op("Torch-Compiled Region: 0/0", 0, 90 * US), op("Torch-Compiled Region: 1/0", 50 * US, 9 * US)]
    frame = kinetoscope.graph_breaks(job(tmp_path, *events)).frame
    assert row(frame, "calls", "between", "row") == (1, 0, 1)


def test_breaks_of_the_selected_steps_count(tmp_path: Path) -> None:
    steps = [annotation(f"ProfilerStep#{k}", k * 1_000 * US, 900 * US) for k in range(3)]
    events = [each for k in range(3) for each in broken(k * 1_000 * US)]
    frame = kinetoscope.graph_breaks(job(tmp_path, *steps, *events), select=Selection(steps=(1, 2))).frame
    assert row(frame, "calls", "between") == (2, 100 * US)


def test_nothing_compiled_is_said(tmp_path: Path) -> None:
    of_nothing = job(tmp_path, op("aten::mm", 0, 5))
    for result in (kinetoscope.compilations(of_nothing), kinetoscope.graph_breaks(of_nothing)):
        assert result.frame.is_empty()
        assert codes(result.notes) == ["NOTHING_COMPILED"]


@pytest.mark.parametrize("metadata", [{"co_name": 7, "start_time_us": "x"}, {"start_time_us": 1 << 80}])
def test_odd_values_are_unknown(metadata: dict[str, Any], tmp_path: Path) -> None:
    written_log(tmp_path, record("compilation_metrics", metadata))
    frame = kinetoscope.compilations(job(tmp_path, op("aten::mm", 0, 5))).frame
    assert row(frame, "function", "start", "time") == (None, None, 0)


RECORDED = Path(__file__).parents[1] / "traces" / "recompiled"
"""Real recordings on the CPU; the lines are those of `tests/traces/recompiled.py`."""


@pytest.mark.parametrize("version", ["torch-2.13", "torch-2.15"])
def test_planted_breaks_and_recompilations_of_a_recording_have_their_lines(version: str) -> None:
    recorded = kinetoscope.read(RECORDED / version)
    frame = kinetoscope.compilations(recorded).frame
    size = "tensor 'x' size mismatch at index 0. expected 8, actual 12"
    resumed = "torch_dynamo_resume_in_forward_at_35"
    assert frame.select("compile_id", "function", "line", "reason", "calls").rows() == [
        ("0/0", "forward", 32, None, 1),
        ("1/0", resumed, 35, None, 1),
        ("2/0", "measured", 15, None, 0),
        ("0/1", "forward", 32, f"0/0: {size}", 4),
        ("1/1", resumed, 35, f"1/0: {size}", 1),
        ("1/2", resumed, 35, f"1/1: self.scale == 1; 1/0: {size}", 3),
    ]
    assert frame["cache_misses"].to_list() == [3, 3, 0, 3, 3, 3]
    assert frame.select(pl.sum_horizontal(PHASES)).to_series().to_list() == frame["time"].to_list()
    again = frame.filter(pl.col("in_trace") > 0)  # the spans of the trace say the same as torch's metrics
    assert again["compile_id"].to_list() == ["0/1", "1/1", "1/2"]
    assert all(abs(row["in_trace"] / row["time"] - 1) < 0.01 for row in again.rows(named=True))
    breaks = kinetoscope.graph_breaks(recorded).frame
    assert breaks.select("line", "function", "code", "reason", "skipped", "compile_ids", "calls").rows() == [
        (35, "forward", 'print("a planted graph break")', PRINT, False, "0/0, 0/1", 5),
        (18, "measured", 'print("a planted break in a loop")', PRINT, True, "2/0", 0),
    ]
    assert breaks["between"][0] > 0


@pytest.mark.parametrize("version", ["torch-2.13", "torch-2.15"])
def test_phases_of_the_trace_alone_are_those_of_the_log(version: str) -> None:
    with_log = kinetoscope.compilations(kinetoscope.read(RECORDED / version)).frame
    alone = kinetoscope.compilations(kinetoscope.read(RECORDED / version, compile="off")).frame
    assert alone["file"].null_count() == len(alone)
    both = with_log.join(alone.filter(pl.col("time") > 0), on="compile_id", suffix="_alone")
    assert len(both) == 3
    for row_ in both.rows(named=True):
        for phase in PHASES:
            assert abs(row_[phase] - row_[f"{phase}_alone"]) < 0.02 * row_["time"]


def test_operators_that_run_while_torch_compiles_are_not_eager() -> None:
    frame = kinetoscope.compiled_kernels(kinetoscope.read(RECORDED / "torch-2.15")).frame
    eager = frame.filter(pl.col("origin") == "eager")
    assert 0 < eager["calls"].sum() < 500  # of 2,466 with those of the compiler
