"""What torch.compile compiled, why, and how long each phase took."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.algorithms.grouping import sum_by
from kinetoscope.charts import StackedBars
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.compile.compilations import Compilation
from kinetoscope.model.compile.compilations import compilations as logged
from kinetoscope.model.compile.log import NOTHING_COMPILED, no_log
from kinetoscope.model.compile.regions import (
    PHASES,
    compiled_regions,
    compiler_spans,
    is_compiler,
    is_region,
    time_by_phase,
)
from kinetoscope.model.execution.call_tree import owned_times
from kinetoscope.model.steps.scope import Scope, origin_of_time, scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("compile_id", pl.String, "The frame and which compilation of it, as torch counts: 1/2; null if unknown."),
    Column(
        "function", pl.String, "The compiled function; torch_dynamo_resume_in_f_at_20 goes on behind a graph break."
    ),
    Column("file", pl.String, "File of the function."),
    Column("line", pl.Int64, "First line of the function."),
    Column("reason", pl.String, "What did not fit the compilation before it; null for the first of a frame."),
    Column("time", pl.Int64, "Time of compiling: the sum of the six phases, that of the backward pass included.", "ns"),
    Column("tracing", pl.Int64, "Dynamo: tracing Python, building guards.", "ns"),
    Column(
        "aot_autograd", pl.Int64, "AOTAutograd: joint graph of forward and backward, its passes and partition.", "ns"
    ),
    Column("inductor", pl.Int64, "Inductor: passes over the graph, lowering.", "ns"),
    Column("code_generation", pl.Int64, "Inductor: scheduling, fusion, writing and loading code.", "ns"),
    Column("kernel_compilation", pl.Int64, "Waiting for Triton's or the C++ compiler.", "ns"),
    Column("at_run_time", pl.Int64, "Autotuning of kernels, recording of CUDA graphs: in the first calls.", "ns"),
    Column("backward", pl.Int64, "Of the time, what compiling the backward pass apart took.", "ns"),
    Column("in_trace", pl.Int64, "Time of its spans in the selection of this trace.", "ns"),
    Column("start", pl.Int64, "When it began, from the first event of the trace on.", "ns", instant=True),
    Column("cache_hits", pl.Int64, "Lookups of a graph that the caches of AOTAutograd and Inductor had."),
    Column("cache_misses", pl.Int64, "Lookups of a graph that they did not have."),
    Column("operators", pl.Int64, "Calls in the graph that Dynamo traced."),
    Column("guards", pl.Int64, "Conditions that are checked before each call."),
    Column("attempts", pl.Int64, "How often tracing was begun: anew after each graph break in a called function."),
    Column("calls", pl.Int64, "Calls of the compiled region that begin in the selection."),
    Column("run", pl.Int64, "Time of the host in them, without compiling and without regions inside.", "ns"),
    Column("failure", pl.String, "Why no code came of it."),
    across={
        "key": "compile_id function file line",
        "agreed": "reason operators guards failure",
        "sum": "time tracing aot_autograd inductor code_generation kernel_compilation at_run_time backward in_trace "
        "cache_hits cache_misses calls run",
        "greatest": "attempts",
        "own": "start",
    },
)


def compilations(trace: Trace, select: Selection) -> Partial:
    """What did torch.compile compile, how often and why, and what did each phase take?

    Method. A row for each compile id. What torch's structured log says of it comes first: the function, why the earlier
    compilations did not fit (the guard that failed last is given first), phases, caches. The log is there if
    `kinetoscope record` or `kinetoscope.profile` made the trace, or with `--compile FOLDER` (`TORCH_TRACE=FOLDER`).
    Without it the phases are those of the compiler's spans in the trace, `… (dynamo_timed)`: each has the time inside
    its spans and inside none of the next phase. Phases add up to the time exactly.

    How to read it. Ids that end in /0 are first compilations, all others recompilations; `reason` says what changed. A
    size that changes: `torch._dynamo.mark_dynamic`, `dynamic=True`, or pad to few sizes. Many misses at each start of
    the job: keep `TORCHINDUCTOR_CACHE_DIR` on a disk that lasts.

    Limits. Times of the log are of whole compilations, before the recording too; `in_trace` is what lies in the
    selection. Where a backward pass is compiled together with the forward pass, `backward` is 0. `run` is the host's
    time: a region only launches kernels.
    """
    view = scope(trace, select)
    spans, regions = compiler_spans(trace), compiled_regions(trace)
    chosen = view.host_mask[spans.rows]
    time = time_by_phase(trace, view.clip, chosen)
    calls, run = _called(view)
    log = {each.compile_id: each for each in logged(trace)}
    ids = [*log, *sorted({*spans.compile_ids, *regions.compile_ids} - log.keys(), key=_natural)]
    of_span = dict(zip(spans.compile_ids, range(len(spans.compile_ids)), strict=True))
    of_region = dict(zip(regions.compile_ids, range(len(regions.compile_ids)), strict=True))
    rows = []
    for compile_id in [*ids, None]:
        mine = np.flatnonzero(spans.compile_id == (-1 if compile_id is None else of_span.get(compile_id, -2)))
        if compile_id is None and not chosen[mine].any():
            continue
        region = of_region.get(compile_id or "", -1)
        facts = log.get(compile_id or "", Compilation(compile_id or ""))
        in_trace = time[mine].sum(axis=0).tolist()
        phases = facts.phases if facts.is_measured else in_trace
        is_known = facts.is_measured or len(mine) > 0
        start = facts.start - trace.base if facts.start is not None else _least(trace.start[spans.rows[mine]])
        rows.append(
            {
                "compile_id": compile_id,
                "function": facts.function or None,
                "file": facts.file or None,
                "line": facts.line,
                "reason": "; ".join(facts.reasons) or None,
                "time": sum(phases) if is_known else None,
                **{name: took if is_known else None for name, took in zip(PHASES, phases, strict=True)},
                "backward": facts.backward if facts.is_measured else None,
                "in_trace": sum(in_trace),
                "start": None if start is None else start - origin_of_time(trace),
                "cache_hits": facts.cache_hits if facts.is_measured else None,
                "cache_misses": facts.cache_misses if facts.is_measured else None,
                "operators": facts.operators,
                "guards": facts.guards,
                "attempts": facts.attempts if facts.is_measured else None,
                "calls": int(calls[region]) if region >= 0 else 0,
                "run": int(run[region]) if region >= 0 else 0,
                "failure": facts.failure or None,
            }
        )
    frame = RESULT.per_rank.frame(rows)
    frame = frame.sort("start", "compile_id", nulls_last=True)
    return Partial(frame, tuple(_notes(rows, bool(log))))


ANALYSIS = Analysis("Compilations", compilations, RESULT, chart=StackedBars("compile_id", PHASES), of_device_work=False)


def _called(view: Scope) -> tuple[Int64s, Int64s]:
    """How often each compiled region is called in the selection, and the host's time in it: int64 [compile ids]."""
    regions, trace = compiled_regions(view.trace), view.trace
    own = owned_times(trace, is_region(trace) | is_compiler(trace), view.clip)[regions.rows]
    begun, counted = view.host_mask[regions.rows], view.host_mask_untimed[regions.rows]
    count = len(regions.compile_ids)
    return sum_by(regions.compile_id, count, begun.astype(np.int64)), sum_by(
        regions.compile_id, count, np.where(counted, own, 0)
    )


def _least(times: Int64s) -> int | None:
    return int(times.min()) if len(times) else None


def _natural(compile_id: str) -> tuple[int, ...]:
    return tuple(int(part) for part in compile_id.lstrip("!").split("/"))


def _notes(rows: list[dict[str, Any]], has_log: bool) -> Iterator[Note]:
    if not rows:
        yield NOTHING_COMPILED
    elif not has_log:
        yield no_log("functions, reasons and caches are not known")
