"""How near to the device's limits its work ran, and where the rest of the time went."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Bools, Floats, Int8s, Int32s, Int64s, marked
from kinetoscope.algorithms.grouping import group, reduce_by, sum_by
from kinetoscope.algorithms.intervals.intervals import Intervals
from kinetoscope.charts import Roofline
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.counters.sampled_use import dram_traffic
from kinetoscope.model.device.busy import no_work_note
from kinetoscope.model.device.peaks import PRECISIONS, known_peaks
from kinetoscope.model.device.waves import waves
from kinetoscope.model.execution.calls import call_names, names_of_calls
from kinetoscope.model.operators.categories import labels, longest
from kinetoscope.model.operators.modules import modules
from kinetoscope.model.roofline.calls import Uncovered
from kinetoscope.model.roofline.charged_work import ChargedWork, charged_categories, charged_work, has_host_floors
from kinetoscope.model.roofline.floors import BOUNDS, LINKS, Floors, floors
from kinetoscope.model.roofline.formulas.registry import entry_of
from kinetoscope.model.roofline.group_floors import MAX_FLOOR_NS
from kinetoscope.model.roofline.headroom import PARTS, parts
from kinetoscope.model.steps.scope import Scope, scope, unclipped
from kinetoscope.model.steps.selection import ALL, Selection
from kinetoscope.model.steps.steps import step_of_work
from kinetoscope.model.trace import arguments, polars_columns
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.recording import not_recorded, shapes_not_recorded
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, MeanBy, Param, RatioOf, Schema, ShareOf
from kinetoscope.views.text import brief

By = Literal["op", "kernel", "module", "category", "step"]

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("step", pl.Int64, "Number of the step, as in ProfilerStep#N; null unless there is a row a step."),
    Column("name", pl.String, "Operator, kernel, path of the module, or category; null for work of none, for steps."),
    Column("input_shapes", pl.String, "Shape of each input; null unless there is a row an operator."),
    Column("calls", pl.Int64, "Calls that launched device work, and copies; with a row a kernel, runs of it."),
    Column("device_time", pl.Int64, "Durations of the device work.", "ns"),
    Column(
        "floor", pl.Int64, "Time that its arithmetic and traffic take at the device's peaks, each call by itself.", "ns"
    ),
    Column("efficiency", pl.Float64, "Floor / time of the work that has one; above 1 where caches help.", "fraction"),
    Column(
        "headroom",
        pl.Int64,
        "Time of its calls above their floors, each call by itself: nothing is fused; without those that have none.",
        "ns",
    ),
    Column("bound", pl.String, "What most of its time is bound by: compute, memory, link, latency."),
    Column("category", pl.String, "GEMM, attention, … (see `categories`): that of most of its time; null for steps."),
    Column("dtype", pl.String, "Type of the elements; null unless there is a row an operator."),
    Column("precision", pl.String, "What products were computed in; null if nothing tells, or if several."),
    Column("device_share", pl.Float64, "Device_time / that of all rows.", "fraction"),
    Column("certainty", pl.String, "exact; range: the floor may be higher; or not covered, and why: there is none."),
    Column("flop", pl.Float64, "Floating-point operations of products, as in `flops`.", "flop"),
    Column("vector_flop", pl.Float64, "All other operations on elements.", "flop"),
    Column("bytes", pl.Float64, "Bytes that must pass the memory, or the link: each input and output once.", "bytes"),
    Column("intensity", pl.Float64, "Operations per byte: those of products, else the others."),
    Column("rate", pl.Float64, "The same operations / time of the work that has a floor.", "flop/s"),
    Column("bandwidth", pl.Float64, "Bytes / time of the work that has a floor.", "bytes/s"),
    Column("peak", pl.Float64, "Peak of those operations; null if unknown, or if several.", "flop/s"),
    Column("peak_bandwidth", pl.Float64, "Peak of the memory or link; null if unknown, or if several.", "bytes/s"),
    Column(
        "in_l2", pl.Boolean, "True if the data may be served from L2, so that a call can beat its floor; see the text."
    ),
    Column("waves", pl.Float64, "Waves of blocks of its longest kernels (see `kernels`), weighted by time."),
    Column("covered_time", pl.Int64, "Of device_time, that of work with a floor.", "ns"),
    Column(
        "formula_time", pl.Int64, "Of device_time, that of work with a formula; without a peak it has no floor.", "ns"
    ),
    Column(
        "sampled_bandwidth",
        pl.Float64,
        "Traffic of the device's memory, as counters sampled it while its work ran; null without such.",
        "bytes/s",
    ),
    Column("at_limit", pl.Int64, "Of device_time, what remains at the peaks if neighbours are fused.", "ns"),
    Column("fusable", pl.Int64, "Of device_time, traffic of intermediate results that fusion removes.", "ns"),
    Column(
        "unfused_attention", pl.Int64, "Of device_time, work between the two products of an attention, unfused.", "ns"
    ),
    Column("small_kernels", pl.Int64, "Of device_time, what kernels too short for their work take longer.", "ns"),
    Column("unfilled", pl.Int64, "Of device_time, products on multiprocessors that have no block of them.", "ns"),
    Column("below_peak", pl.Int64, "Of device_time, arithmetic below the peak for other reasons.", "ns"),
    Column("below_bandwidth", pl.Int64, "Of device_time, traffic below the bandwidth of the memory.", "ns"),
    Column("links", pl.Int64, "Of device_time, copies and collectives below the peak of their link.", "ns"),
    Column("uncovered", pl.Int64, "Of device_time, work without a floor. These nine sum to device_time.", "ns"),
    across={
        "key": "step",
        "agreed": "category precision bound certainty peak peak_bandwidth",
        "sum": "calls device_time floor headroom flop vector_flop bytes covered_time formula_time "
        "at_limit fusable "
        "unfused_attention small_kernels unfilled below_peak below_bandwidth links uncovered",
        ShareOf("device_time"): "device_share",
        RatioOf("floor", "covered_time"): "efficiency",
        MeanBy("covered_time"): "rate bandwidth",
        MeanBy("device_time"): "waves sampled_bandwidth",
        MeanBy("bytes"): "intensity",
    },
)

Values = dict[str, Any]

_SCHEMA: Final = RESULT.per_rank.types
_NAMED_SHARE: Final = 0.001
"""Share of the device time from which an operator without a formula is named in a note."""

_NAMED_OPERATORS: Final = 4
_NAME_CELLS: Final = 50

_CERTAINTIES: Final = (
    "exact",
    "range",
    "not covered: no operator",
    "not covered: no formula",
    "not covered: shapes not recorded",
    "not covered: arguments do not tell",
    "not covered: peak unknown",
)
"""How sure a floor is; from the third on in the order of `Uncovered`."""


def roofline(
    trace: Trace,
    select: Selection,
    *,
    by: Annotated[By, Param("A row for each operator and its shapes, each kernel, module, category, or step.")] = "op",
) -> Partial:
    """How near to the limits of the device did its work run, and what would bring it nearer?

    Method. The floor of a call is the longest of: FLOPs of its products / peak in their precision; its other operations
    / peak of plain arithmetic; bytes / bandwidth. Bytes are compulsory traffic: each distinct element of an input read
    once, each of an output written once; of copies over links and collectives, what passes the link. Device work
    counts to the innermost operator around its launch whose formula is known. `efficiency` is floor / time, `headroom`
    time − floor. A call is bound by compute, memory or link, whichever takes longest; by latency, if its floor is
    shorter than as many of the device's shortest kernels (1st percentile, at most 3 µs) as it launched. With a row a
    kernel, calls share their floors among their kernels by time. The last nine columns charge each nanosecond of
    device time once, and sum to it.

    How to read it. Sort by `headroom`: that is what there is to gain. `fusable`: compile, or use a fused operator or
    optimizer. `small_kernels`: larger batches, graphs, fewer calls. `unfilled`: products with fewer blocks than the
    device has multiprocessors, or a last round of blocks that is nearly empty. `below_peak`: shapes, layouts and
    precisions that the matrix units do not like. `below_bandwidth`: strided access, or kernels that read twice.
    `sampled_bandwidth` above `bandwidth`: more was moved than must be; `counters` says how coarse the samples are.

    Limits. A floor is not a promise: libraries reach 70 to 90 % of the peaks (`kinetoscope calibrate` measures that).
    What lies in a cache can be faster than its floor (`in_l2`: the bytes fit into it, or those beyond its size would
    have fitted into the time). Peaks are those of the highest clock. Kernels that run at the same time share the
    device, and each counts its whole duration. Notes name what has no formula. With a time range, calls count whose
    longest device work begins in it, whole. A step has what was launched in it; work from before the recording is in
    none. A module has what it calls itself, not what modules inside it call.
    """
    view = scope(trace, select)
    charged = _charged(view)
    limits = floors(trace, on_host=charged.on_host)
    chosen = np.flatnonzero(limits.among(charged.selected(unclipped(view)) & view.begins(charged.work.start)))
    notes: list[Note] = []
    if not len(chosen):
        return Partial(RESULT.per_rank.empty(), (no_work_note(view), *notes))
    frame = _ROWS[by](view, limits, chosen)
    shown = chosen[_steps(view, limits, chosen) >= 0] if by == "step" else chosen
    return Partial(frame, (*_coverage(view, limits, shown), *_notes(view, limits, chosen, by), *notes))


ANALYSIS = Analysis(
    "Roofline",
    roofline,
    RESULT,
    chart=Roofline(parts=PARTS),
    of_operators=True,
    counts_warm_up=True,
    of_sums=PARTS,
)


def _charged(view: Scope) -> ChargedWork:
    return charged_work(view.trace, on_host=has_host_floors(view.trace))


def _categories(view: Scope) -> Int8s:
    return charged_categories(view.trace, on_host=has_host_floors(view.trace))


# --- rows


def _by_op(view: Scope, limits: Floors, chosen: Int64s) -> pl.DataFrame:
    trace, row, call = view.trace, limits.row[chosen], limits.call[chosen]
    types = [each.type.name if each.type is not None else None for each in limits.calls.variants]
    names = {name: number for number, name in enumerate(dict.fromkeys([None, *types]))}
    of_call = np.append(np.array([names[each] for each in types], np.int64), 0)
    dtype = of_call[np.append(limits.calls.variant, -1)[call]]
    link = limits.link[chosen].astype(np.int64)
    shapes = np.where(trace.kind[row] == EventKind.HOST_OP, arguments.codes(trace, "input_dims", row), -1)
    why = _certainty(limits)[chosen]
    codes, first = group(call_names(trace)[row], trace.kind[row], shapes, dtype, limits.precision[chosen], why, link)
    spelled = {code: json.dumps(trace.strings.nested(code)) for code in np.unique(shapes[shapes >= 0]).tolist()}
    types_of = list(names)
    name = names_of_calls(trace, row[first]).to_list()
    for place in np.flatnonzero(link[first] > LINKS.index("host")).tolist():
        name[place] = limits.calls.variants[limits.calls.variant[call[first[place]]]].name
    given = {
        "name": name,
        "input_shapes": [spelled.get(code) for code in shapes[first].tolist()],
        "dtype": [types_of[code] for code in dtype[first].tolist()],
    }
    return _frame(view, limits, chosen, codes, given)


def _by_kernel(view: Scope, limits: Floors, chosen: Int64s) -> pl.DataFrame:
    """One row per kernel; a call's floor is split among its kernels by their time."""
    work = _charged(view).work
    is_chosen = marked(len(limits), chosen)
    pieces = np.flatnonzero(is_chosen[limits.unit])
    codes, first = group(view.trace.name[work.rows[pieces]])
    names = polars_columns.texts(view.trace.strings, view.trace.name[work.rows[pieces[first]]]).cast(pl.String)
    return _frame(view, limits, limits.unit[pieces].astype(np.int64), codes, {"name": names}, pieces=pieces)


def _by_module(view: Scope, limits: Floors, chosen: Int64s) -> pl.DataFrame:
    tree = modules(view.trace)
    node = tree.node[_caller(view, limits, chosen)]
    codes, first = group(node)
    paths = tree.paths
    return _frame(view, limits, chosen, codes, {"name": [paths[each] if each >= 0 else None for each in node[first]]})


def _by_category(view: Scope, limits: Floors, chosen: Int64s) -> pl.DataFrame:
    category = _categories(view)[limits.longest[chosen]]
    codes, first = group(category)
    return _frame(view, limits, chosen, codes, {"name": labels(category[first])})


def _by_step(view: Scope, limits: Floors, chosen: Int64s) -> pl.DataFrame:
    step = _steps(view, limits, chosen)
    given = {"step": view.steps.number, "category": [None] * len(view.steps)}
    frame = _frame(view, limits, chosen, step.astype(np.int32), given, groups=len(view.steps))
    return frame.sort("step")


_ROWS: Final = {
    "op": _by_op, "kernel": _by_kernel, "module": _by_module, "category": _by_category, "step": _by_step,
}  # fmt: skip


def _caller(view: Scope, limits: Floors, chosen: Int64s) -> Int32s:
    """The call that launched the longest piece of each unit: its row, −1 if unknown."""
    return _charged(view).work.caller[limits.longest[chosen]]


def _steps(view: Scope, limits: Floors, chosen: Int64s) -> Int64s:
    """Place of the step of each unit, that of its longest piece (`step_of_work`), −1 for none: int64 [chosen]."""
    return step_of_work(view.trace, _charged(view).work, view.steps)[limits.longest[chosen]]


def _certainty(limits: Floors) -> Int64s:
    """Place of the certainty of each unit in `_CERTAINTIES`: int64 [units]."""
    return np.where(limits.uncovered == Uncovered.NOT, limits.at_least, 1 + limits.uncovered).astype(np.int64)


def _frame(
    view: Scope,
    limits: Floors,
    unit: Int64s,
    codes: Int32s,
    given: Values,
    *,
    groups: int | None = None,
    pieces: Int64s | None = None,
) -> pl.DataFrame:
    """The rows of units in groups; negative codes count nowhere. `pieces` of work are parts of units."""
    charged = _charged(view)
    work = charged.work
    count = (int(codes.max(initial=-1)) + 1) if groups is None else groups
    kept = codes >= 0
    codes, unit = codes[kept], unit[kept]
    place = limits.longest[unit] if pieces is None else pieces[kept]
    time = limits.time[unit] if pieces is None else work.duration[place]
    share = np.ones(len(unit)) if pieces is None else limits.share[place]

    def total(values: Floats) -> Floats:
        return np.bincount(codes, np.nan_to_num(values[unit]) * share, count).astype(np.float64)

    def common(values: Int64s) -> Int64s:
        return reduce_by(codes, count, values).common

    is_covered = limits.is_covered[unit]
    covered = sum_by(np.where(is_covered, codes, -1).astype(np.int32), count, time)
    has_floor = np.bincount(codes[is_covered], minlength=count) > 0
    cached = np.bincount(codes[limits.in_cache[unit]], minlength=count)
    unexplained = np.bincount(codes[limits.is_too_fast[unit]], minlength=count)
    device_time = sum_by(codes, count, time)
    flop, vector_flop, moved = (total(values) for values in (limits.flop, limits.vector_flop, limits.bytes))
    floor, operations = total(limits.floor), np.where(flop > 0, flop, vector_flop)
    of_time = _positive(covered)
    every = parts(view.trace, on_host=charged.on_host)
    certainty, precision = common(_certainty(limits)[unit]), common(limits.precision[unit].astype(np.int64))
    values = {
        "category": labels(longest(codes, count, _categories(view)[place], time)),
        "precision": [PRECISIONS[code] if code >= 0 else None for code in precision.tolist()],
        "calls": np.bincount(codes, minlength=count),
        "device_time": device_time,
        "device_share": polars_columns.numbers(device_time / _positive(device_time.sum())),
        "floor": _whole(floor, has_floor),
        "efficiency": polars_columns.numbers(np.where(has_floor, floor / of_time, np.nan)),
        "headroom": _whole(total(limits.headroom), has_floor),
        "bound": _bound(codes, count, limits.bound[unit], time),
        "certainty": [_CERTAINTIES[code] if code >= 0 else None for code in certainty.tolist()],
        "flop": polars_columns.column(flop, has_floor),
        "vector_flop": polars_columns.column(vector_flop, has_floor),
        "bytes": polars_columns.column(moved, has_floor),
        "intensity": polars_columns.numbers(np.where(has_floor, operations / _positive(moved), np.nan)),
        "rate": polars_columns.numbers(np.where(has_floor, operations / of_time * 1e9, np.nan)),
        "bandwidth": polars_columns.numbers(np.where(has_floor, moved / of_time * 1e9, np.nan)),
        "peak": _common_rate(codes, count, limits.peak[unit]),
        "peak_bandwidth": _common_rate(codes, count, limits.bandwidth[unit]),
        "in_l2": polars_columns.column((cached > 0) & (unexplained == 0), has_floor),
        "waves": _mean_by_time(codes, count, charged.of_devices(waves(view.trace))[place], time),
        "covered_time": covered,
        "formula_time": sum_by(np.where(_has_formula(limits)[unit], codes, -1).astype(np.int32), count, time),
        "sampled_bandwidth": _sampled_bandwidth(view, limits, unit, codes, count, pieces is None, place),
        **_exact(device_time, np.stack([total(every[:, part]) for part in range(len(PARTS))], axis=1)),
    }
    frame = pl.DataFrame({name: given.get(name, values.get(name, [None] * count)) for name in _SCHEMA}, schema=_SCHEMA)
    order = ["device_time", "name", "input_shapes", "dtype", "precision", "certainty", "category"]
    return frame.sort(order, descending=[True, *[False] * 6], nulls_last=True)


def _sampled_bandwidth(
    view: Scope, limits: Floors, unit: Int64s, codes: Int32s, count: int, whole: bool, place: Int32s | Int64s
) -> pl.Series:
    """The traffic that counters sampled while the work of each group ran."""
    charged = _charged(view)
    work = charged.work
    of = np.full(len(work), -1, np.int32)
    if whole:
        of_unit = np.full(len(limits) + 1, -1, np.int32)
        of_unit[unit] = codes
        of = of_unit[limits.unit]
    else:
        of[place] = codes
    if charged.on_host:
        of[:] = -1
    return polars_columns.numbers(dram_traffic(view.trace, work.device, Intervals(work.start, work.end), of, count))


def _has_formula(limits: Floors) -> Bools:
    """Units whose cost is known, also where no peak is: bool [units]."""
    return np.asarray(limits.is_covered | (limits.uncovered == Uncovered.NO_PEAK))


def _positive(values: Any) -> Floats:
    """As divisors: NaN where there is nothing to divide by."""
    return np.where(values > 0, values, np.nan)


def _whole(time: Floats, valid: Bools) -> pl.Series:
    return polars_columns.column(np.rint(np.minimum(time, MAX_FLOOR_NS)).astype(np.int64), valid)


def _exact(whole: Int64s, shares: Floats) -> dict[str, Int64s]:
    """Parts as whole nanoseconds that sum to the whole: the rounding error of each goes into the next."""
    edges = np.rint(np.cumsum(shares, axis=1)).astype(np.int64)
    edges[:, -1] = whole
    return dict(zip(PARTS, np.diff(np.minimum(edges, whole[:, None]), axis=1, prepend=0).T, strict=True))


def _bound(codes: Int32s, groups: int, bound: Int8s, time: Int64s) -> list[str | None]:
    """The bound of most of the time of each group."""
    known = bound >= 0
    keys = codes[known].astype(np.int64) * len(BOUNDS) + bound[known]
    spent = np.bincount(keys, time[known] + 1, groups * len(BOUNDS)).reshape(groups, len(BOUNDS))
    return [BOUNDS[int(each.argmax())] if each.any() else None for each in spent]


def _mean_by_time(codes: Int32s, groups: int, values: Floats, time: Int64s) -> pl.Series:
    known = ~np.isnan(values)
    spent = np.bincount(codes[known], time[known], groups)
    return polars_columns.numbers(np.bincount(codes[known], (values * time)[known], groups) / _positive(spent))


def _common_rate(codes: Int32s, groups: int, rate: Floats) -> pl.Series:
    """The peak of each group whose rows agree in it."""
    same = reduce_by(codes, groups, np.nan_to_num(rate, nan=-1.0).astype(np.int64)).common
    return polars_columns.numbers(np.where(same > 0, same.astype(np.float64), np.nan))


# --- notes


def _coverage(view: Scope, limits: Floors, chosen: Int64s) -> Iterator[Note]:
    """The share of device time whose cost is known, and what of the rest takes most."""
    whole = max(int(limits.time[chosen].sum()), 1)
    lost = chosen[~_has_formula(limits)[chosen]]
    covered = 1 - int(limits.time[lost].sum()) / whole
    by_name: Counter[str] = Counter()
    names = names_of_calls(view.trace, limits.row[lost]).to_list()
    for name, spent in zip(names, limits.time[lost].tolist(), strict=True):
        by_name[name or "(no name)"] += spent
    most = [(name, spent / whole) for name, spent in by_name.most_common(_NAMED_OPERATORS)]
    named = ", ".join(
        f"{brief(name, _NAME_CELLS)} {share:.1%}{_no_formula(name)}" for name, share in most if share >= _NAMED_SHARE
    )
    rest = f"; not covered: {named}" if named else ""
    what = "time of the operators" if _charged(view).on_host else "device time"
    where = " of the whole recording" if view.select == ALL else ""
    yield Note("COVERAGE", f"Formulas cover {covered:.1%} of the {what}{where}{rest}.")


def _no_formula(name: str) -> str:
    """Why the cost of an operator does not follow from its arguments."""
    entry = entry_of(name)
    return f" ({entry.no_formula})" if entry is not None and entry.no_formula else ""


def _notes(view: Scope, limits: Floors, chosen: Int64s, by: By) -> Iterator[Note]:
    trace, device = view.trace, _charged(view).work.device[limits.longest[chosen]]
    known = [known_peaks(trace, number) for number in np.unique(device).tolist()]
    yield from dict.fromkeys(lookup.note for lookup in known)
    if not arguments.has(trace, "input_dims").any():
        yield shapes_not_recorded(trace, "operators have no floors")
    if by == "module" and not len(modules(trace)):
        yield not_recorded("modules")
    if by == "step" and (outside := _steps(view, limits, chosen) < 0).any():
        share = int(limits.time[chosen[outside]].sum()) / max(int(limits.time[chosen].sum()), 1)
        yield Note(
            "TIME_OUTSIDE_STEPS",
            f"{share:.1%} of the device time is in no row: launched outside of all steps, or before the recording.",
        )
    fast = chosen[limits.is_too_fast[chosen]]
    if len(fast):
        share = int(limits.time[fast].sum()) / max(int(limits.time[chosen].sum()), 1)
        why = "the peaks are not those of this device, or the shapes not those that ran"
        if any(lookup.peak is not None and lookup.peak is lookup.attainable for lookup in known):
            why = "they are faster than what `kinetoscope calibrate` measured"
        yield Note(
            "FASTER_THAN_FLOORS",
            f"{len(fast):,} calls ({share:.1%} of the device time) were faster than their floors, and no cache "
            f"explains it: {why}.",
        )
