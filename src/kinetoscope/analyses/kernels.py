"""Which kernels take the devices' time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Floats, Int32s, Int64s
from kinetoscope.algorithms.grouping import group, reduce_by, sum_by
from kinetoscope.charts import Bars
from kinetoscope.errors import UsageError
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.compile.kernels import compiled_calls, sources_of_groups
from kinetoscope.model.device.tensor_cores import ANSWERS, kernel_units
from kinetoscope.model.device.waves import waves
from kinetoscope.model.execution.device_work import DeviceWork, device_work
from kinetoscope.model.graphs.annotated import annotated_keys, argument_values
from kinetoscope.model.graphs.lost_work import no_device_work
from kinetoscope.model.operators.annotations import annotation_stacks, launch_stacks
from kinetoscope.model.operators.categories import labels, longest, work_categories
from kinetoscope.model.roofline.group_floors import group_floors
from kinetoscope.model.steps.scope import scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace import arguments, polars_columns
from kinetoscope.model.trace.event_kinds import WorkKind
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, KeyIf, MeanBy, Param, Schema, ShareOf

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("name", pl.String, "Name of the kernel."),
    Column("category", pl.String, "GEMM, attention, … (see `categories`): that of most of its time."),
    Column("kind", pl.String, "computation, communication, memcpy or memset."),
    Column("calls", pl.Int64, "How often it ran."),
    Column("total", pl.Int64, "Sum of the durations of all calls.", "ns"),
    Column("share", pl.Float64, "Total / durations of all device work, copies and sets included.", "fraction"),
    Column("mean", pl.Int64, "Mean duration of a call, rounded to the nanosecond.", "ns"),
    Column("max", pl.Int64, "Longest call.", "ns"),
    Column("occupancy", pl.Float64, "Estimated achieved occupancy, weighted by duration.", "fraction"),
    Column("blocks_per_sm", pl.Float64, "Blocks / multiprocessors of the device, weighted by duration."),
    Column("matrix_unit", pl.String, "Does it compute on tensor or matrix cores: yes, no, unknown (by its name)."),
    Column("median", pl.Int64, "Median duration of a call.", "ns"),
    Column("min", pl.Int64, "Shortest call.", "ns"),
    Column("p99", pl.Int64, "The least duration that 99 % of the calls do not exceed.", "ns"),
    Column("operator", pl.String, "Operator that launched it; null if several or unknown."),
    Column(
        "annotations", pl.String, "Annotations around its launch, outermost first; null unless grouped by annotation."
    ),
    Column("argument", pl.String, "Value of the argument that calls are grouped by; null without one."),
    Column("grid", pl.String, "Blocks in x, y and z; null if they differ between calls."),
    Column("block", pl.String, "Threads of a block in x, y and z; null if they differ."),
    Column("registers", pl.Int64, "Registers per thread; null if they differ."),
    Column("shared_memory", pl.Int64, "Shared memory per block; null if it differs.", "bytes"),
    Column("source", pl.String, "Lines of the program in a compiled kernel (see `compiled_kernels`); null for others."),
    Column("floor", pl.Int64, "Time of total at the device's peaks (see `roofline`); null if unknown.", "ns"),
    Column("efficiency", pl.Float64, "Floor / that of total that has one; above 1 in a cache.", "fraction"),
    Column("headroom", pl.Int64, "Of total, time above the floor.", "ns"),
    Column("waves", pl.Float64, "Blocks / those that the device runs at a time, weighted by duration."),
    across={
        "sum": "calls total floor headroom",
        ShareOf("total"): "share",
        MeanBy("calls"): "mean",
        "own": "median p99",
        "least": "min",
        "greatest": "max",
        MeanBy("total"): "blocks_per_sm occupancy efficiency waves",
        "agreed": "category matrix_unit",
        KeyIf("group_by", "annotation"): "annotations",
        KeyIf("group_by", "launch"): "operator grid block registers shared_memory",
    },
)

GroupBy = Literal["name", "launch", "annotation"]


def kernels(
    trace: Trace,
    select: Selection,
    *,
    group_by: Annotated[
        GroupBy,
        Param(
            "name: a row a name; launch: also by launch configuration and operator; annotation: also by the annotations"
            " around the launch."
        ),
    ] = "name",
    argument: Annotated[
        str | None,
        Param("Also by this argument of the kernels, such as `module_fqn` where kernels of graphs are annotated."),
    ] = None,
    copies: Annotated[bool, Param("List memory copies and sets, too.")] = False,
) -> Partial:
    """Which kernels take the devices' time, how often do they run, and how well do they fill the device?

    Method. Calls of one name are one row; with `group_by="launch"` only those that also agree in operator, grid, block,
    registers and shared memory, with `group_by="annotation"` those launched inside the same annotations. With
    `argument` they also agree in that argument: of a profiler, or of a program that annotated the nodes of a graph. A
    name that is both computation and communication has a row for each. The 99th percentile is a duration that did
    occur (nearest rank). Blocks per multiprocessor, occupancy and waves are means weighted by duration over the
    calls that have them; notes count those that do not. A wave is what runs at a time: so many blocks as the threads,
    registers and shared memory of the multiprocessors allow. Sorted by total, then by name.

    How to read it. Begin where the share is large. A mean far above the median: some calls are far longer, because of
    other shapes (group by launch), or of waiting inside a collective. Less than one block per multiprocessor leaves
    part of the device empty; so does the last of `waves` where these are a little more than a whole number.
    `matrix_unit` no in a model that should run in half precision is worth a question.

    Limits. Totals are sums: kernels that run at the same time count each in full. Matrix units are recognised by the
    names of vendors' libraries; generated kernels (Triton) are mostly unknown. ROCm records no blocks per
    multiprocessor, occupancy or registers. With a time range, totals are of the time inside it; calls and statistics of
    those that start in it.
    """
    view = scope(trace, select)
    work = view.device_work
    notes: list[Note] = []
    if argument is None and (annotated := annotated_keys(trace, work.rows)):
        notes.append(
            Note("ANNOTATED_KERNELS", f"Kernels are annotated: argument={' or '.join(annotated)} groups them by that.")
        )
    inside = view.clipped(work.start, work.end)
    begins, durations = view.begins(work.start), np.asarray(inside.end - inside.start)
    listed = (
        view.device_work_mask
        if copies
        else view.device_work_mask & work.of(WorkKind.COMPUTATION, WorkKind.COMMUNICATION)
    )
    chosen = np.flatnonzero(listed)
    if not len(chosen):
        return Partial(RESULT.per_rank.empty(), (*notes, _nothing(trace)))
    rows, kind, time = work.rows[chosen], work.kind[chosen], durations[chosen]
    fillings = {name: arguments.floats(trace, name, rows) for name in _FILLINGS}
    values, texts = argument_values(trace, argument or "", rows)
    if argument and not texts:
        known = ", ".join(annotated_keys(trace, rows)) or "none"
        raise UsageError(f"no kernel has the argument {argument!r}; of annotations there are: {known}")
    attributes = _attributes(trace, work, chosen, values, group_by)
    codes, first = group(trace.name[rows], kind, *attributes.keys(group_by))
    frame = pl.DataFrame(
        {
            "name": polars_columns.texts(trace.strings, trace.name[rows[first]]).cast(pl.String),
            "kind": polars_columns.labelled(kind[first], lambda code: WorkKind(code).name.lower()).cast(pl.String),
            "category": labels(longest(codes, len(first), work_categories(trace)[chosen], time)),
            **polars_columns.statistics(
                np.where(begins[chosen], codes, np.int32(-1)), len(first), work.duration[chosen], *_STATISTICS
            ),
            "total": sum_by(codes, len(first), time),
            "blocks_per_sm": _mean(codes, len(first), fillings["blocks_per_sm"], time),
            "waves": _mean(codes, len(first), waves(trace)[chosen], time),
            "occupancy": _mean(codes, len(first), fillings["occupancy"] / 100, time),
            "matrix_unit": polars_columns.labelled(kernel_units(trace)[chosen[first]], ANSWERS.__getitem__).cast(
                pl.String
            ),
            **_common(trace, attributes, codes, len(first)),
            "argument": polars_columns.labelled(values[first], texts.__getitem__).cast(pl.String),
            "source": _sources(trace, work, chosen, codes, len(first)),
            **group_floors(trace, codes, len(first), chosen, time),
        }
    )
    everything = int(durations[view.device_work_mask].sum())
    frame = frame.with_columns(share=pl.col("total") / everything if everything else pl.lit(None, pl.Float64))
    is_kernel = kind < WorkKind.MEMCPY
    notes += filter(None, [_missing(name, values[is_kernel], time[is_kernel]) for name, values in fillings.items()])
    order = [
        "total",
        "name",
        "operator",
        "annotations",
        "argument",
        "grid",
        "block",
        "registers",
        "shared_memory",
        "kind",
    ]
    frame = frame.sort(order, descending=[True] + [False] * (len(order) - 1), nulls_last=True)
    return Partial(frame, tuple(notes))


ANALYSIS = Analysis(
    "Kernels",
    kernels,
    RESULT,
    chart=Bars("name", "total"),
    of_operators=True,
    counts_warm_up=True,
    of_sums=("max", "median", "min", "p99"),
)

_STATISTICS: Final = ("calls", "mean", "median", "min", "max", "p99")
_FILLINGS: Final = {"blocks_per_sm": "blocks per multiprocessor", "occupancy": "occupancy"}
"""Arguments that tell how well a kernel fills the device, and their names for people."""


@dataclass(frozen=True)
class _Attributes:
    """What a launch is configured by: int64 [work] each; string codes, or numbers with −1 where not recorded."""

    operator: Int64s
    grid: Int64s
    block: Int64s
    registers: Int64s
    shared_memory: Int64s
    annotations: Int64s
    argument: Int64s

    def all(self) -> tuple[Int64s, ...]:
        return self.operator, self.grid, self.block, self.registers, self.shared_memory, self.annotations

    def keys(self, group_by: GroupBy) -> tuple[Int64s, ...]:
        """What the calls of a row have in common besides name and kind."""
        by = {"annotation": (self.annotations,), "launch": self.all()[:-1]}.get(group_by, ())
        return (self.argument, *by) if (self.argument >= 0).any() else by


def _attributes(trace: Trace, work: DeviceWork, chosen: Int64s, values: Int64s, group_by: GroupBy) -> _Attributes:
    rows, op = work.rows[chosen], work.op[chosen]
    return _Attributes(
        operator=np.where(op >= 0, trace.name[op], -1).astype(np.int64),
        grid=arguments.codes(trace, "grid", rows),
        block=arguments.codes(trace, "block", rows),
        registers=arguments.integers(trace, "registers", rows),
        shared_memory=arguments.integers(trace, "shared_memory", rows),
        annotations=(launch_stacks(trace)[chosen] if group_by == "annotation" else np.full(len(rows), -1)).astype(
            np.int64
        ),
        argument=values,
    )


def _sources(trace: Trace, work: DeviceWork, chosen: Int64s, codes: Int32s, groups: int) -> pl.Series:
    """The lines of compiled kernels; those that files beside the trace do not tell are null."""
    calls = compiled_calls(trace)
    caller = work.caller[chosen]
    call = np.where(caller >= 0, calls.call[caller], np.int32(-1))
    site = np.where(call >= 0, np.append(calls.site, np.int32(-1))[call], np.int32(-1))
    texts = sources_of_groups(calls, codes, groups, site)
    return pl.Series([text or None for text in texts], dtype=pl.String)


def _mean(codes: Int32s, groups: int, values: Floats, duration: Int64s) -> pl.Series:
    """Means weighted by duration over the calls that have a value; the plain mean where all of those took no time."""
    known = ~np.isnan(values)
    codes, values, weight = codes[known], values[known], duration[known].astype(np.float64)
    weight[np.bincount(codes, weight, groups)[codes] == 0] = 1.0
    total = np.bincount(codes, weight, groups)
    return polars_columns.numbers(np.bincount(codes, values * weight, groups) / np.where(total > 0, total, np.nan))


def _common(trace: Trace, attributes: _Attributes, codes: Int32s, groups: int) -> dict[str, pl.Series]:
    """Each attribute where all calls of a group agree, else null."""
    agreed = (reduce_by(codes, groups, values).common for values in attributes.all())
    operator, grid, block, registers, shared_memory, annotations = agreed
    stacks = annotation_stacks(trace).names if (annotations >= 0).any() else ()
    return {
        "operator": polars_columns.texts(trace.strings, operator).cast(pl.String),
        "grid": polars_columns.json_texts(trace.strings, grid),
        "block": polars_columns.json_texts(trace.strings, block),
        "registers": polars_columns.rows(registers),
        "shared_memory": polars_columns.rows(shared_memory),
        "annotations": polars_columns.labelled(annotations, lambda code: " > ".join(stacks[code])).cast(pl.String),
    }


def _nothing(trace: Trace) -> Note:
    if not len(device_work(trace)):
        return no_device_work(trace)
    return Note("NO_KERNELS_SELECTED", "No kernels in what was selected.")


def _missing(name: str, values: Floats, time: Int64s) -> Note | None:
    """What a mean leaves out, in one sentence; None if nothing."""
    missing = np.isnan(values)
    if not missing.any():
        return None
    if missing.all():
        return Note(
            "NO_KERNEL_HAS",
            f"No kernel has {_FILLINGS[name]}: this device or version of the profiler does not record it.",
        )
    share = time[missing].sum() / max(int(time.sum()), 1)
    count = f"{int(missing.sum()):,} of {len(values):,} kernels ({share:.1%} of their time)"
    return Note("KERNELS_WITHOUT", f"{count} have no {_FILLINGS[name]}; the means leave them out.")
