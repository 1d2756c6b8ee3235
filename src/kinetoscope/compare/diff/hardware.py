"""Two runs on different devices, operator by operator: what the peaks of the devices explain, and what they do not."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int32s
from kinetoscope.algorithms.grouping import group, sum_by
from kinetoscope.algorithms.trees.tree import ancestor, outermost
from kinetoscope.model.answer import Partial
from kinetoscope.model.device.peaks import known_peaks
from kinetoscope.model.execution.call_tree import call_tree
from kinetoscope.model.execution.calls import call_name, call_names
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.roofline.floors import floors, shortest_kernels
from kinetoscope.model.steps.scope import scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind, WorkKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Column, Schema
from kinetoscope.views.numbers import shown

OF_RANK = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("products", pl.String, "Products that its devices are; null if one of them is unknown."),
    Column("name", pl.String, "Operator as the program calls it; null for device work of none."),
    Column("input_shapes", pl.String, "Shapes of its tensors; null if they were not recorded."),
    Column("key", pl.String, "The same without what differs between backends: order, and small tensors."),
    Column("calls", pl.Int64, "Calls that launched device work in the selected steps."),
    Column("time", pl.Int64, "Durations of that work.", "ns"),
    Column("covered", pl.Int64, "Of it, that of work with a floor.", "ns"),
    Column("floor", pl.Float64, "Floors of the work that has one.", "ns"),
    Column("limit", pl.Float64, "The same, of each call at least what one kernel needs to begin and end.", "ns"),
)
"""Rows of `limits_of_rank`."""

ACROSS = Schema(
    Column("name", pl.String, "Operator as the program calls it: what a backend does inside belongs to it."),
    Column("input_shapes", pl.String, "Shapes of its tensors; null for those that one run only has, or unrecorded."),
    Column("base_time", pl.Int64, "Device time in a mean step of the first run.", "ns"),
    Column("new_time", pl.Int64, "Device time in a mean step of the second run.", "ns"),
    Column("expected_time", pl.Int64, "Base time × expected ratio: as efficient as in the first run.", "ns"),
    Column("unexplained", pl.Int64, "New less expected time: slower than the hardware explains.", "ns"),
    Column("base_efficiency", pl.Float64, "Floor / time of the work that has one, in the first run.", "fraction"),
    Column("new_efficiency", pl.Float64, "The same in the second run.", "fraction"),
    Column("ratio", pl.Float64, "New time / base time."),
    Column("expected_ratio", pl.Float64, "What the peaks of both devices suggest: new limits / base limits."),
    Column("base_calls", pl.Float64, "Calls in a mean step of the first run."),
    Column("new_calls", pl.Float64, "Calls in a mean step of the second run."),
)
"""Rows of `Diff.hardware`, those that the hardware explains least first."""

_MIN_COVERED_SHARE: Final = 0.9
"""Share of an operator's time that must have a floor in both runs, so that floors stand for it."""

_MIN_COMPARED_SHARE: Final = 0.5
"""Share of the time below which what can be compared says little of the whole."""

_NEARLY_ALL: Final = 0.995
"""Share of the time from which on nothing need be said of the rest."""

_UNMEASURED_LATENCY_NS: Final = 1_000
"""What a kernel needs where times are whole microseconds, so that the shortest have none."""

_KEY_TENSORS: Final = 4
"""Tensors that tell calls of an operator apart; in a backward pass of attention what follows differs by backend."""

_NODES: Final = ("autograd::", "torch::autograd::")
"""How names of autograd's nodes begin that hold a double colon, as those of operators do."""

_BACKEND: Final = re.compile(
    r"(?<=::)_?(?:cudnn|miopen|mkldnn|native)_|(?<=_product)_(?:flash|efficient|cudnn|fused)(?=_att)"
)
"""What the names of an operator have of the library that computes it: autograd calls some by that name."""

_KEYS: Final = ["name", "key"]


def limits_of_rank(trace: Trace, select: Selection) -> Partial:
    """Device time and limits of each operator and shape that the program calls, in the selected steps.

    The operator is the outermost one around the launch that is no node of autograd's, without the name of a library in
    it: `aten::conv2d`, `aten::convolution_backward`, whether cuDNN or MIOpen computes it. A limit is the floor, but no
    less than the device's shortest kernels. Collectives are left out, since their time includes waiting for other
    ranks.
    """
    work = device_work(trace)
    if not len(work):
        return Partial(OF_RANK.per_rank.empty())
    every = floors(trace)
    chosen = every.among(scope(trace, select).device_work_mask & ~work.of(WorkKind.COMMUNICATION))
    units = np.flatnonzero(chosen)
    op = _called(trace)[every.row[units]]
    is_op = op >= 0
    name = np.where(is_op, call_names(trace)[op], -1).astype(np.int64)
    shapes = np.where(is_op, arguments.codes(trace, "input_dims", np.maximum(op, 0)), -1)
    code, first = group(name, shapes)
    count = len(first)
    known = every.is_covered[units]
    floor = np.where(known, every.floor[units], 0.0)
    latency = shortest_kernels(trace)[every.longest[units]]
    limit = np.where(known, np.maximum(floor, np.where(latency > 0, latency, _UNMEASURED_LATENCY_NS)), 0.0)
    calls = np.unique(np.stack([code.astype(np.int64), np.where(is_op, op, -1 - units)]), axis=1)[0]
    tensors = {each: _tensors(trace.strings.nested(each)) for each in np.unique(shapes[first]).tolist() if each >= 0}
    of_row = [tensors.get(each) for each in shapes[first].tolist()]
    frame = pl.DataFrame(
        {
            "products": pl.Series([_products(trace)] * count, dtype=pl.String),
            "name": pl.Series([_name(trace, each) for each in name[first].tolist()], dtype=pl.String),
            "input_shapes": pl.Series([None if each is None else json.dumps(each) for each in of_row], dtype=pl.String),
            "key": pl.Series([None if each is None else _key(each) for each in of_row], dtype=pl.String),
            "calls": np.bincount(calls, minlength=count),
            "time": sum_by(code, count, every.time[units]),
            "covered": sum_by(code, count, np.where(known, every.time[units], 0)),
            "floor": np.bincount(code, floor, count),
            "limit": np.bincount(code, limit, count),
        }
    )
    return Partial(OF_RANK.per_rank.conform(frame))


@derived
def _called(trace: Trace) -> Int32s:
    """The outermost operator around each event that the program calls, or itself: int32 [events], −1 for none."""
    calls = call_tree(trace)
    named = rows_named(trace, lambda name: "::" in name and not name.startswith(_NODES), EventKind.HOST_OP)
    return ancestor(calls.parent, outermost(calls.parent, named & calls.member))


def _name(trace: Trace, code: int) -> str | None:
    if code < 0:
        return None
    return _BACKEND.sub("", call_name(trace.strings.label(code), EventKind.HOST_OP)).replace("::_", "::")


def _tensors(dims: Any) -> list[Any]:
    """The shapes of the arguments that are tensors; how many others there are differs between releases of torch."""
    return [each for each in dims if isinstance(each, list) and each] if isinstance(dims, list) else []


def _key(tensors: list[Any]) -> str:
    """The first shapes of two dimensions or more, sorted; of all if there are none."""
    large = [json.dumps(each) for each in tensors if len(each) > 1][:_KEY_TENSORS]
    return ";".join(sorted(large or map(json.dumps, tensors)))


def _products(trace: Trace) -> str | None:
    """The products that the used devices are; None where one of them is unknown."""
    peaks = [known_peaks(trace, number).peak for number in np.unique(device_work(trace).device).tolist()]
    names = sorted({peak.product for peak in peaks if peak is not None})
    return ", ".join(names) if names and None not in peaks else None


def products_of(limits: pl.DataFrame) -> str:
    """The devices of a run of all ranks; "" where one of them is unknown."""
    names = limits.get_column("products").unique().sort()
    return ", ".join(names.to_list()) if len(names) and names.null_count() == 0 else ""


def across_hardware(base: pl.DataFrame, new: pl.DataFrame, steps: tuple[int, int]) -> pl.DataFrame:
    """The rows of `ACROSS`: of `limits_of_rank` of all ranks of two runs, each of so many steps.

    Calls of shapes that only one of the runs has are one row for each operator: limits stand for their sizes.
    """
    common = base.select(_KEYS).unique().join(new.select(_KEYS).unique(), on=_KEYS, nulls_equal=True)
    sides = [
        _side(_joined(frame, common), count, side)
        for frame, count, side in zip((base, new), steps, ("base", "new"), strict=True)
    ]
    both = sides[0].join(sides[1], on=_KEYS, how="full", coalesce=True, nulls_equal=True)
    is_known = pl.min_horizontal("base_known", "new_known") & (pl.col("base_limit") > 0)
    expected = pl.when(is_known).then(pl.col("new_limit") / pl.col("base_limit"))
    both = both.with_columns(
        input_shapes=pl.when(pl.col("key").is_not_null()).then(pl.coalesce("new_shapes", "base_shapes")),
        ratio=pl.when(pl.col("base_time") > 0).then(pl.col("new_time") / pl.col("base_time")),
        expected_ratio=expected,
        expected_time=pl.col("base_time") * expected,
        unexplained=pl.col("new_time") - pl.col("base_time") * expected,
    )
    times = [name for name in ACROSS.names if ACROSS[name].dtype == pl.Int64]
    order = pl.col("unexplained").abs(), pl.max_horizontal("base_time", "new_time"), *map(pl.col, _KEYS)
    both = both.sort(*order, descending=[True, True, False, False], nulls_last=True)
    return ACROSS.conform(both.with_columns(pl.col(times).round().cast(pl.Int64)).select(ACROSS.names))


def _joined(frame: pl.DataFrame, common: pl.DataFrame) -> pl.DataFrame:
    """The rows, those that are not among the common ones without their key."""
    marked = frame.join(common.with_columns(is_common=True), on=_KEYS, how="left", nulls_equal=True)
    return marked.with_columns(key=pl.when("is_common").then("key"))


def _side(frame: pl.DataFrame, steps: int, side: str) -> pl.DataFrame:
    amounts = pl.col("calls", "time", "covered", "floor", "limit").sum()
    sums = frame.sort("time", descending=True).group_by(_KEYS).agg(amounts, pl.col("input_shapes").first())
    covered = pl.col("covered")
    return sums.select(
        *_KEYS,
        pl.col("input_shapes").alias(f"{side}_shapes"),
        (pl.col("calls") / steps).alias(f"{side}_calls"),
        (pl.col("time") / steps).alias(f"{side}_time"),
        (pl.col("limit") / steps).alias(f"{side}_limit"),
        pl.when(covered > 0).then(pl.col("floor") / covered).alias(f"{side}_efficiency"),
        (pl.col("name").is_not_null() & (covered >= _MIN_COVERED_SHARE * pl.col("time"))).alias(f"{side}_known"),
    )


def sentence(rows: pl.DataFrame, base: str, new: str) -> str:
    """`MI300X instead of H100: device work takes 293 ms a step instead of 567 ms; their peaks suggest 369 ms: …`."""
    known = rows.filter(pl.col("unexplained").is_not_null())
    before, now = (int(rows[name].sum()) for name in ("base_time", "new_time"))
    start = f"{new} instead of {base}: device work takes {shown(now, 'ns')} a step instead of {shown(before, 'ns')}"
    if not len(known):
        return f"{start}; no operator with a floor is in both runs."
    compared = int(known["base_time"].sum()) / before if before else 1.0
    if compared < _MIN_COMPARED_SHARE:
        return f"{start}; only {shown(compared, 'fraction')} of it is of operators that can be compared."
    expected, beyond = int(known["expected_time"].sum()), int(known["unexplained"].sum())
    part = "" if compared > _NEARLY_ALL else f" for the {shown(compared, 'fraction')} of it that can be compared"
    largest = known.filter(pl.col("unexplained").sign() == (1 if beyond >= 0 else -1)).head(1)
    most = f", most in {largest['name'][0]}" if len(largest) else ""
    word = "slower" if beyond >= 0 else "faster"
    suggested = f"their peaks suggest {shown(expected, 'ns')}{part}"
    return f"{start}; {suggested}: {shown(abs(beyond), 'ns')} {word} than the hardware explains{most}."
