"""Where the time of each step goes."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Annotated, Final, Literal

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Bools, any_of
from kinetoscope.algorithms.intervals.intervals import Intervals, exclusive, merge, union
from kinetoscope.charts import StackedBars
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.execution.activities import RUNTIME_ACTIVITIES, HostActivity, host_activities
from kinetoscope.model.execution.marks import RANGE_KINDS, is_mark
from kinetoscope.model.graphs.lost_work import ends_before_device_work, launches_of_lost_devices, no_device_work
from kinetoscope.model.steps.data_loading import step_gaps
from kinetoscope.model.steps.scope import Scope, origin_of_time, scope, steady_places
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.steps.steps import Steps
from kinetoscope.model.trace.event_kinds import WorkKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.model.trace.text import listed
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Param, Schema

Order = Literal["default", "plugin"]

CATEGORIES: Final = (
    "computation",
    "communication",
    "memcpy",
    "memset",
    "runtime",
    "data_loading",
    "host",
    "other",
)
"""In order of priority: each instant belongs to the first of them that happens."""

_PLUGIN_COLLECTIVE: Final = re.compile("(?:nccl|gloo):(?:broadcast|reduce|all_reduce|all_gather|reduce_scatter)")
"""The host's spans that the plugin knows as communication; it takes all others for operators."""

_PLUGIN_PRIORITY: Final = (*CATEGORIES[:1], *CATEGORIES[2:4], *CATEGORIES[1:2], *CATEGORIES[4:])
"""The same, with communication after copies and sets."""

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("step", pl.Int64, "Number of the step, as in ProfilerStep#N."),
    Column("start", pl.Int64, "Start of the device step, from the first event of the trace on.", "ns", instant=True),
    Column("duration", pl.Int64, "Length of the device step; the eight categories sum to it.", "ns"),
    Column("computation", pl.Int64, "A computation kernel runs.", "ns"),
    Column("communication", pl.Int64, "A collective runs, and nothing above.", "ns"),
    Column("memcpy", pl.Int64, "A copy to, from or on a device runs, and nothing above.", "ns"),
    Column("memset", pl.Int64, "A memset runs on a device, and nothing above.", "ns"),
    Column("runtime", pl.Int64, "The host is in a call of the device's runtime or driver, and nothing above.", "ns"),
    Column(
        "data_loading", pl.Int64, "The host is in a data loader (see Numbers and definitions), and nothing above.", "ns"
    ),
    Column("host", pl.Int64, "The host is in another operator, and nothing above.", "ns"),
    Column("other", pl.Int64, "None of these: Python between operators, waiting, or what was not recorded.", "ns"),
    Column("host_duration", pl.Int64, "Length of the host's step.", "ns"),
    Column("step_gap", pl.Int64, "Device idle between the last op of the step before and the forward pass.", "ns"),
    Column("step_gap_cause", pl.String, "data wait, if there is evidence of data loading in the gap; else host gap."),
    Column("steady", pl.Boolean, "It is neither a step of the warm-up nor an empty last one: averages are over these."),
    across={
        "key": "step",
        "own": "start",
        "sum": "duration computation communication memcpy memset runtime data_loading host other host_duration "
        "step_gap",
        "agreed": "step_gap_cause",
    },
)


def step_breakdown(
    trace: Trace,
    select: Selection,
    *,
    order: Annotated[Order, Param("Priority of the categories; plugin: as the TensorBoard plugin.")] = "default",
) -> Partial:
    """Where does the time of each step go?

    Method. A step is the device step (see Numbers and definitions). Each instant of it is charged to one category: the
    first in the order of the columns that happens at that instant on any thread, stream or device of the rank. So the
    categories sum to the step exactly. Communication is device work of a collective library, and gloo's spans on the
    host. `step_gap` stands beside the sum: device-idle time on the main thread between the last op of the step before
    and the first op of this forward pass (a module's call, an op with a backward pass, the launch of a graph), less
    waiting for a device. Evidence of data loading in it are a loader's spans and frames, a queue's `get`, and a copy of
    64 KiB or more to the device. With `order="plugin"`: copies and sets before communication, the host's spans of
    collectives as communication, annotations as host, as the TensorBoard plugin has it.

    How to read it. Computation is what you pay the device for. The rest is what computation does not hide: exposed
    communication, exposed copies, and a host that does not keep the device busy (runtime, data_loading, host, other).

    Limits. Loaders that are not torch's leave no span: look at step_gap. Without device work, all work of the operators
    is `host`. Selected steps are rows of the whole table: a row does not depend on the others.
    """
    chosen = scope(trace, select)
    steps = chosen.steps
    # Steps choose rows. What happens in a step does not depend on which others are asked for.
    view = chosen if select.steps is None else scope(trace, replace(select, steps=None))
    windows = view.clipped(steps.device.start, steps.device.end)
    classes = _classes(view, order)
    priority = CATEGORIES if order == "default" else _PLUGIN_PRIORITY
    charged = exclusive(windows, [classes[name] for name in priority[:-1]])
    gap, cause = step_gaps(trace, select.steps_by)
    frame = pl.DataFrame(
        {
            "step": steps.number,
            "start": windows.start - origin_of_time(trace),
            "duration": windows.end - windows.start,
            **{name: charged[:, place] for place, name in enumerate(priority)},
            "host_duration": steps.host.end - steps.host.start,
            "step_gap": pl.Series([gap[place] for place in chosen.places], dtype=pl.Int64),
            "step_gap_cause": pl.Series([cause[place] for place in chosen.places], dtype=pl.String),
            "steady": np.isin(chosen.places, steady_places(trace, select.steps_by)),
        }
    )
    return Partial(frame, tuple(_notes(view, steps)))


ANALYSIS = Analysis(
    "Step breakdown",
    step_breakdown,
    RESULT,
    chart=StackedBars("step", CATEGORIES),
    selection_notes="always",
    counts_warm_up=True,
)


def _classes(view: Scope, order: Order) -> dict[str, Intervals]:
    """The union of each category's intervals."""
    trace, work = view.trace, view.device_work

    def device(*kinds: WorkKind) -> Intervals:
        rows = view.device_work_mask & work.of(*kinds)
        return union(work.start[rows], work.end[rows])

    def host(rows: Bools) -> Intervals:
        rows = rows & view.host_mask_untimed
        return union(trace.start[rows], trace.end[rows])

    activity = host_activities(trace)
    loading = activity == HostActivity.DATA_LOADING
    collective, ops = activity == HostActivity.COMMUNICATION, activity == HostActivity.OPERATOR
    if order == "plugin":
        collective = rows_named(trace, _is_collective_of_plugin, *RANGE_KINDS)
        ops = np.isin(trace.kind, RANGE_KINDS) & ~collective & ~loading & ~is_mark(trace)
    return {
        "computation": device(WorkKind.COMPUTATION),
        "communication": merge(device(WorkKind.COMMUNICATION), host(collective)),
        "memcpy": device(WorkKind.MEMCPY),
        "memset": device(WorkKind.MEMSET),
        "runtime": host(any_of(activity, RUNTIME_ACTIVITIES)),
        "data_loading": host(loading),
        "host": host(ops),
    }


def _is_collective_of_plugin(name: str) -> bool:
    return _PLUGIN_COLLECTIVE.fullmatch(name) is not None


def _notes(view: Scope, steps: Steps) -> list[Note]:
    notes: list[Note] = []
    work = view.device_work
    if not len(work):
        is_lost = ends_before_device_work(view.trace) or launches_of_lost_devices(view.trace)
        whose = "when devices worked is not known" if is_lost else "the work of the operators is the host's"
        notes.append(no_device_work(view.trace, whose))
    unlinked = int((work.launch[view.device_work_mask] < 0).sum())
    if unlinked:
        notes.append(
            Note(
                "UNLINKED_IN_STEPS",
                f"{unlinked} of {len(work)} pieces of device work have no recorded launch: they count where they run, "
                "but no step waits for their end.",
            )
        )
    empty = steps.number[steps.device.end == steps.device.start]
    if len(empty):
        notes.append(
            Note(
                "EMPTY_STEPS",
                f"Empty steps ({listed(empty.tolist())}): when they ended, the device was still in an earlier one.",
            )
        )
    return notes
