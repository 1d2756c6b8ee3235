"""What was in use when the most memory was."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Literal

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s
from kinetoscope.algorithms.grouping import group, sum_by
from kinetoscope.errors import UsageError
from kinetoscope.model.job import Job, Partial
from kinetoscope.model.memory.allocator import (
    NO_ADDRESS,
    NONE_SELECTED,
    NOT_RECORDED,
    Instants,
    instants_in,
    memory_instants,
)
from kinetoscope.model.memory.blocks import block_keys, charged_calls, grouped, memory_blocks
from kinetoscope.model.memory.uses import USES, block_uses
from kinetoscope.model.steps.scope import Scope, origin_of_time, scope
from kinetoscope.model.steps.selection import ALL, Selection
from kinetoscope.model.trace import arguments, polars_columns
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Analysis, Bars, Column, Param, Result, Schema, ShareOf

GroupBy = Literal["call", "class", "shapes"]

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("device", pl.String, "Whose memory: cpu, or a device as torch names it, such as cuda:0."),
    Column(
        "time",
        pl.Int64,
        "The instant, from the first event of the trace on: the rows hold from then on.",
        "ns",
        instant=True,
    ),
    Column("name", pl.String, "What took the memory: an operator or annotation; in brackets what no call took."),
    Column(
        "kind",
        pl.String,
        "operator, annotation; memory: taken in no call; before: earlier; unpaired: see limits.",
    ),
    Column("module", pl.String, "Innermost nn.Module whose forward took it; null without Python stacks."),
    Column("blocks", pl.Int64, "How many blocks of memory; null where that is not known."),
    Column("size", pl.Int64, "Bytes in use; the rows of a device sum to what its allocator says.", "bytes"),
    Column("share", pl.Float64, "Size / sum over the device; null where parts are negative.", "fraction"),
    Column("use", pl.String, "activation, gradient, optimizer state, temporary or kept; null where it is unknown."),
    Column("input_shapes", pl.String, "By shapes: those of the inputs of the operator that took it; null if unknown."),
    Column("input_types", pl.String, "By shapes: the types of these inputs."),
    Column("modules", pl.Int64, "By class: how many modules of the class took it; else null."),
    across={"device": "device", "own": "time", "sum": "blocks size modules", ShareOf("size"): "share"},
)

_NAME_OF_EARLIER: Final = "[before the recording]"
_NAME_WITHOUT_ADDRESS: Final = "[without address]"
_COLUMNS: Final = RESULT.without("rank", "device", "time", "share").types
_NO_PLACE: Final = -1
_MAX_TIME_NS: Final = 1 << 62


def memory_peak(
    job: Job,
    *,
    select: Selection = ALL,
    at: Annotated[
        int | None, Param("Time to look at instead of the peak, from the beginning of the trace.", "ns")
    ] = None,
    group_by: Annotated[
        GroupBy,
        Param(
            "call: a row for each call and module; class: for each class of modules, else call; shapes: for each call,"
            " module, shapes and types of the inputs.",
            choices=("call", "class", "shapes"),
        ),
    ] = "call",
) -> Result:
    """What was in use when each device had the most memory in use?

    Method. The peak is the first instant with the most memory in use, of those selected and their beginning. In use are
    the blocks taken and not yet given back, paired by device and address, grouped by what took them: the innermost
    operator (of `aten::empty` and its like, the operator around it), else annotation, and the module. The allocator's
    own number less those blocks is the row `before`: taken before the recording. So the rows of a device sum to its
    peak exactly. The use follows from the passes that took and gave back a block: an activation is taken outside the
    backward pass and given back during it; a gradient is taken in the backward pass and not given back there; the
    optimizer's state likewise; kept was taken elsewhere and not given back; the rest is temporary.

    How to read it. Activations stand under operators such as `aten::addmm` with a module, gradients under those of the
    backward pass; weights and the optimizer's state are mostly `before`. With `at`, it is any other instant: the floor
    between two steps, say.

    Limits. Records without an address (old files) cannot be paired: their changes are one row, `unpaired`. If the file
    does not say how much was in use, it is counted from 0 at the beginning of the recording, and `before` is negative
    if more of what was there was given back. Reserved memory, and memory taken past torch's allocators, do not count.
    Streams choose nothing, and numbers of devices choose those whose memory it is.
    """
    return job.map(_of_trace, ANALYSIS, select, at=at, group_by=group_by)


ANALYSIS = Analysis("Memory at its peak", memory_peak, RESULT, chart=Bars("name", "size"), of_device_work=False)


def _of_trace(trace: Trace, select: Selection, *, at: int | None, group_by: GroupBy = "call") -> Partial:
    if at is not None and not 0 <= at < _MAX_TIME_NS:
        raise UsageError(f"at is {at} ns; give a time from the beginning of the trace on")
    view = scope(trace, select)
    instants, origin = memory_instants(trace), origin_of_time(trace)
    chosen = instants_in(view)
    frames, empty = [RESULT.per_rank.empty()], []
    for device in np.unique(instants.device[chosen]).tolist():
        if at is None:
            place = _peak(instants, chosen, device)
            first = view.clip[0] if view.clip else origin
            time = max(int(instants.time[place]) if place >= 0 else origin, first) - origin
        else:
            place, time = _last(instants, device, origin + at), at
        named = [pl.lit(instants.device_name(device)).alias("device"), pl.lit(time, pl.Int64).alias("time")]
        frame = _in_use(trace, device, place, group_by)
        frames.append(_shared(frame).select(*named, pl.all()).select(RESULT.names[1:]))
        if not len(frame):
            empty.append(f"Nothing was in use on {instants.device_name(device)}.")
    return Partial(pl.concat(frames), (*_notes(view, instants, bool(chosen.any())), *empty))


def _peak(instants: Instants, chosen: Bools, device: int) -> int:
    """Where most is in use on a device, of the places selected and those right before them; −1 is before all."""
    here = instants.of_device(device)
    after = instants.allocated[here]
    before = np.concatenate([[instants.before(int(here[0]))], after[:-1]])
    selected = np.flatnonzero(chosen[here])
    high, high_before = selected[after[selected].argmax()], selected[before[selected].argmax()]
    if before[high_before] > after[high]:
        return int(here[high_before - 1]) if high_before else _NO_PLACE
    return int(here[high])


def _last(instants: Instants, device: int, time: int) -> int:
    """The last place of a device up to a time, −1 for none."""
    here = instants.of_device(device)
    count = int(np.searchsorted(instants.time[here], time, side="right"))
    return int(here[count - 1]) if count else _NO_PLACE


def _in_use(trace: Trace, device: int, place: int, group_by: GroupBy) -> pl.DataFrame:
    """What was in use on a device after an instant: rows that sum to what its allocator says."""
    instants, blocks = memory_instants(trace), memory_blocks(trace)
    here = instants.of_device(device)
    total = int(instants.allocated[place]) if place >= 0 else instants.before(int(here[0]))
    alive = np.flatnonzero(blocks.alive_after(place) & (instants.device[blocks.shown_at] == device))
    calls, frame = grouped(trace, blocks.taken[alive])
    use = block_uses(trace)[alive]
    inputs = _inputs(trace, blocks.taken[alive], group_by)
    codes, first = group(calls, use, *inputs)
    shapes, types = (each[first] for each in inputs)
    size = sum_by(codes, len(first), blocks.size[alive])
    frame = frame[calls[first]].with_columns(
        modules=pl.lit(None, pl.Int64),
        input_shapes=polars_columns.json_texts(trace.strings, shapes),
        input_types=polars_columns.json_texts(trace.strings, types),
        use=pl.Series([USES[each] for each in use[first].tolist()], dtype=pl.String),
        blocks=pl.Series(np.bincount(codes, minlength=len(first)), dtype=pl.Int64),
        size=pl.Series(size, dtype=pl.Int64),
    )
    if group_by == "class":
        frame = _by_class(frame)
    past = here[here <= place]
    unpaired = instants.size[past[block_keys(trace)[past] < 0]]
    before = np.concatenate([[total], -size, -unpaired]).sum()
    rest = [(_NAME_WITHOUT_ADDRESS, "unpaired", int(unpaired.sum())), (_NAME_OF_EARLIER, "before", int(before))]
    rows = [{"name": name, "kind": kind, "size": size} for name, kind, size in rest if size]
    return pl.concat([frame.select(*_COLUMNS), pl.DataFrame(rows, schema=_COLUMNS)])


def _inputs(trace: Trace, taken: Int32s, group_by: GroupBy) -> tuple[Int64s, Int64s]:
    """Shapes and types of the inputs of the operators that took blocks, codes: int64 [blocks], −1 where not asked."""
    nothing = np.full(len(taken), -1, np.int64)
    if group_by != "shapes" or not len(trace):
        return nothing, nothing
    call = charged_calls(trace)[taken]
    shapes, types = (arguments.codes(trace, name, call) for name in ("input_dims", "input_types"))
    return np.where((call >= 0) & (taken >= 0), shapes, -1), np.where((call >= 0) & (taken >= 0), types, -1)


def _by_class(frame: pl.DataFrame) -> pl.DataFrame:
    """Rows of modules of one class, and of one use, in one; torch numbers those of a class: `Linear_0`, `Linear_1`."""
    of_class = pl.col("module").str.replace(r"_\d+$", "")
    named = frame.with_columns(
        name=pl.coalesce(of_class, "name"),
        kind=pl.when(pl.col("module").is_null()).then("kind").otherwise(pl.lit("module")),
        of=of_class,
    )
    sums = named.group_by("name", "kind", "of", "use", maintain_order=True).agg(
        pl.col("blocks", "size").sum(), modules=pl.col("module").drop_nulls().n_unique().cast(pl.Int64)
    )
    known = pl.when(pl.col("module").is_not_null()).then("modules")
    unknown = pl.lit(None, pl.String)
    return sums.rename({"of": "module"}).with_columns(modules=known, input_shapes=unknown, input_types=unknown)


def _shared(frame: pl.DataFrame) -> pl.DataFrame:
    """With the share of each row, the largest first."""
    size = pl.col("size").cast(pl.Float64)
    share = pl.when(size.min() > 0).then(size / size.sum())
    order = ["size", "name", "kind", "module", "use", "input_shapes", "input_types"]
    return frame.with_columns(share=share).sort(order, descending=[True, *[False] * 6], nulls_last=True)


def _notes(view: Scope, instants: Instants, any_chosen: bool) -> Iterator[str]:
    if view.select.steps is not None and view.steps.note:
        yield view.steps.note
    if not any_chosen:
        yield NONE_SELECTED if len(instants) else NOT_RECORDED
        return
    yield from instants.notes()
    blocks = memory_blocks(view.trace)
    if not len(blocks):
        yield NO_ADDRESS
    elif blocks.addressless:
        yield f"{blocks.addressless:,} of {len(instants):,} records of memory have no address and cannot be paired."
