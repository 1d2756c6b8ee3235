"""What the length of each step follows from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Literal

import numpy as np
import polars as pl

from kinetoscope.algorithms.grouping import sum_by
from kinetoscope.charts import StackedBars
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.critical_path.graph import DependencyKind, critical_graph
from kinetoscope.model.critical_path.path import CAUSES, OF_WHOLE_RANK, CriticalPath, PathCause, run_path
from kinetoscope.model.critical_path.path import critical_path as find_paths
from kinetoscope.model.critical_path.what_if import WhatIf, parse_rules
from kinetoscope.model.critical_path.what_if import what_if as scaled
from kinetoscope.model.graphs.lost_work import no_device_work
from kinetoscope.model.steps.scope import Scope, origin_of_time, scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.steps.steps import Steps
from kinetoscope.model.steps.steps import steps as find_steps
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.text import number_of
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, MeanBy, Param, Schema

PathOf = Literal["step", "run"]

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("step", pl.Int64, "Number of the step, as in ProfilerStep#N."),
    Column("start", pl.Int64, "Start of the device step, from the first event of the trace on.", "ns", instant=True),
    Column(
        "duration", pl.Int64, "Length of the path, which is that of the device step; the eight causes sum to it.", "ns"
    ),
    Column("host", pl.Int64, "The path is on a host thread: operators, Python, or nothing recorded.", "ns"),
    Column("data_loading", pl.Int64, "The path is in a data loader, on a host thread.", "ns"),
    Column("launch", pl.Int64, "In calls that launch device work, and until the work starts, 30 µs at most.", "ns"),
    Column("computation", pl.Int64, "In computation kernels.", "ns"),
    Column("communication", pl.Int64, "In kernels of collectives; waiting for other ranks is inside them.", "ns"),
    Column("copies", pl.Int64, "In copies and sets on the device.", "ns"),
    Column("gaps", pl.Int64, "Between device work and the next, which was launched and had to wait for it.", "ns"),
    Column("other", pl.Int64, "Not explained: before work that was launched long before, or nobody knows when.", "ns"),
    Column(
        "inferred_share", pl.Float64, "How much of the path may be elsewhere if inferred waits are wrong.", "fraction"
    ),
    Column(
        "what_if", pl.Int64, "Length of the step if things took what the parameter says; null if it says nothing.", "ns"
    ),
    Column("gain", pl.Int64, "Duration less what_if; negative where the step before ends so much sooner.", "ns"),
    across={
        "key": "step",
        "own": "start",
        "sum": "duration host data_loading launch computation communication copies gaps other what_if gain",
        MeanBy("duration"): "inferred_share",
    },
)

_LONG_WAIT_NS: Final = 1_000_000
"""Gaps from which on something is missing, ns; the usual one is some microseconds."""

_SAID: Final = 0.005
"""Share of the path from which on it is said what rests on inferred waits."""


def critical_path(
    trace: Trace,
    select: Selection,
    *,
    path: Annotated[
        PathOf, Param("step: the path to the end of each step; run: one path to the end of the last.")
    ] = "step",
    what_if: Annotated[
        str,
        Param(
            "What takes another share of its time: name, /pattern/ or cause, as gemm=0.5; launch=0.", check=parse_rules
        ),
    ] = "",
) -> Partial:
    """What does the length of each step follow from, and what would speed it up?

    Method. Everything that happens waits for something: a call for the one before on its thread, a kernel for its
    launch and for the work before it on its stream (or on another, by an event), a synchronising call for device work,
    the thread that calls backward for the thread that runs it. From the end of the device step (see `step_breakdown`)
    the path goes back to what was waited for last, and from there again, until the step begins. So its pieces follow
    one upon the other without a gap, and their causes sum to the step exactly. With `what_if` the whole schedule is
    computed anew: what is named takes another share of its time, everything else its own, and each still waits for all
    that it waited for. A name means device work, or calls with all that happens inside them and that they launched; a
    cause is a column here. A launch takes 30 µs from the end of its call at most; if its work starts later and what it
    waited for is unknown, the rest is `other`. Of a copy that the host waits for it is the call's, `host`.

    How to read it. Only what is on the path makes the step shorter if it gets faster. Mostly host or launch: the device
    waits for the host. Mostly computation: make kernels faster. `critical_path_events` names the calls and kernels. The
    gain is less than what is on the path where another path is nearly as long; only `what_if` tells. A host that is
    always late, yet ends each step before the device does, has steps that end on the device, which no faster kernel
    shortens: `path="run"` shows it, and so does `what_if`, whose gain in one step may be lost again in the next. What
    all steps gain together stands in the notes; it is never more than what the path of the run has of it.

    Limits. Waits are rarely recorded (cuda_sync); else they are inferred from times: a synchronising call waited for
    the work that ended last while it ran, if all that was launched before on that stream was over then; work that was
    launched long before waited for work of another stream if it started within 20 µs of its end. On the four traces
    with recorded waits that it was tried on, the path is the same without them. The backward thread is taken to begin
    when the thread that calls it falls silent. Not known are locks, other threads that are waited for, a full launch
    queue, what other ranks do, and dependencies inside graphs. What if supposes that nothing else changes: kernels that
    overlap do not get faster.

    Only steps and a range of time are selected: the path is through the whole rank. A range cuts the path of the whole
    step, and then there is no `what_if`.
    """
    view = scope(trace, select)
    pieces = (find_paths if path == "step" else run_path)(trace, select.steps_by)
    start, end = view.clipped(pieces.start, pieces.end)
    count = len(CAUSES)
    steps = int(max(view.places.max(initial=-1), pieces.step.max(initial=-1))) + 1
    time = sum_by(pieces.step * np.int32(count) + pieces.cause, steps * count, end - start).reshape(steps, count)
    windows = view.clipped(*view.steps.device)
    duration = windows.end - windows.start
    inferred = pieces.inferred(windows)
    scaling = parse_rules(what_if)
    new = scaled(trace, scaling, select.steps_by) if scaling and view.clip is None else None
    length = None if new is None else new.duration[view.places]
    none = pl.Series([None] * len(duration), dtype=pl.Int64)
    frame = pl.DataFrame(
        {
            "step": view.steps.number,
            "start": windows.start - origin_of_time(trace),
            "duration": duration,
            **{name: time[view.places, cause] for cause, name in enumerate(CAUSES)},
            "inferred_share": pl.Series(inferred / np.maximum(duration, 1), dtype=pl.Float64),
            "what_if": none if length is None else length,
            "gain": none if length is None else duration - length,
        }
    )
    notes = list(_notes(view, pieces))
    if new is not None:
        notes += _what_if_notes(new, find_steps(trace, select.steps_by))
    elif scaling:
        notes.append(Note("WHAT_IF_OF_STEPS", "What if is of whole steps: with a range of time its columns are empty."))
    return Partial(frame, tuple(notes))


ANALYSIS = Analysis(
    "Critical path", critical_path, RESULT, chart=StackedBars("step", CAUSES), of_calls=False, selection_notes="always"
)


def _what_if_notes(new: WhatIf, every: Steps) -> Iterator[Note]:
    for text, count in new.events:
        if not count:
            yield Note("WHAT_IF_NAMES_NOTHING", f"No event of this trace is named by {text!r}.")
        elif count > 0:
            yield Note("WHAT_IF_NAMES", f"{text!r} names {number_of(count, 'event')}.")
    now = int(every.device.end[-1] - every.device.start[0]) if len(every) else 0
    if now:
        rules, less = "; ".join(text for text, _ in new.events), 1 - new.whole / now
        yield Note(
            "WHAT_IF_TIME", f"With {rules} all steps together take {abs(less):.1%} {'less' if less >= 0 else 'more'}."
        )


def _notes(view: Scope, path: CriticalPath) -> Iterator[Note]:
    trace, work = view.trace, view.device_work
    select = view.select
    if select.devices is not None or select.streams is not None or select.is_within_steps:
        yield OF_WHOLE_RANK
    if not len(work):
        yield no_device_work(trace, "the path is the host's")
        return
    unlinked = int((work.launch < 0).sum())
    if unlinked:
        yield Note(
            "UNLINKED_ON_PATH",
            f"{unlinked:,} of {len(work):,} pieces of device work have no recorded launch: time before them is other.",
        )
    graph = critical_graph(trace, select.steps_by)
    if graph.early:
        yield Note(
            "EARLY_ON_PATH",
            f"{graph.early:,} of {len(work):,} pieces of device work start before their launch: clocks disagree.",
        )
    chosen = np.isin(path.step, view.places)
    rest = path.inferred(view.steps.device).sum() / max(int((view.steps.device.end - view.steps.device.start).sum()), 1)
    if rest >= _SAID and not (trace.kind == EventKind.DEVICE_SYNC).any():
        yield Note(
            "PATH_INFERRED",
            f"Waits are inferred from times, and up to {rest:.0%} of the path rests on that; record them with "
            "experimental_config=torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True).",
        )
    waited = (path.cause == PathCause.GAPS) & np.isin(path.dependency, (DependencyKind.STREAM, DependencyKind.EVENT))
    waited |= (path.cause == PathCause.OTHER) & (path.row >= 0) & (path.dependency < 0)
    long = chosen & waited & (path.end - path.start > _LONG_WAIT_NS)
    if long.any():
        share = int((path.end - path.start)[long].sum()) / max(int((path.end - path.start)[chosen].sum()), 1)
        yield Note(
            "LONG_GAPS",
            f"{number_of(int(long.sum()), 'gap is', 'gaps are')} longer than 1 ms ({share:.0%} of the path): what was "
            "launched waited for something that was not recorded.",
        )
