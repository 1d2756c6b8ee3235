"""What was in use when the most memory was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Annotated, Final, Literal, cast

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s
from kinetoscope.algorithms.grouping import group, sum_by
from kinetoscope.charts import Bars
from kinetoscope.errors import UsageError
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.execution.frames import user_source
from kinetoscope.model.health.snapshots import contradictions
from kinetoscope.model.job import Job, Partial
from kinetoscope.model.memory.allocator import (
    CUDA,
    NO_ADDRESS,
    NONE_SELECTED,
    NOT_RECORDED,
    Instants,
    device_name,
    innermost_calls,
    instants_in,
    memory_instants,
)
from kinetoscope.model.memory.blocks import block_keys, charged_calls, grouped, memory_blocks
from kinetoscope.model.memory.uses import USES, block_uses
from kinetoscope.model.operators.call_stacks import call_stacks
from kinetoscope.model.snapshot.active import OwnerKind, active_by_owner
from kinetoscope.model.snapshot.of_trace import events_in, memory_scope, snapshot_of, time_beside
from kinetoscope.model.snapshot.replay import history, level
from kinetoscope.model.snapshot.snapshot import NONE
from kinetoscope.model.steps.scope import Scope, origin_of_time
from kinetoscope.model.steps.selection import ALL, Selection
from kinetoscope.model.trace import arguments, polars_columns
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Column, Param, Result, Schema, ShareOf

GroupBy = Literal["call", "class", "shapes", "use", "module", "line", "stack"]

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
    Column("name", pl.String, "What allocated: an operator or annotation; in brackets what no call allocated."),
    Column(
        "kind",
        pl.String,
        "operator, annotation; memory: allocated in no call; before: earlier; unpaired: see limits.",
    ),
    Column("module", pl.String, "Innermost nn.Module whose forward allocated it; null without Python stacks."),
    Column("blocks", pl.Int64, "How many blocks of memory; null where that is not known."),
    Column("size", pl.Int64, "Bytes in use; the rows of a device sum to what its allocator says.", "bytes"),
    Column("share", pl.Float64, "Size / sum over the device; null where parts are negative.", "fraction"),
    Column(
        "use",
        pl.String,
        "activation, gradient, optimizer state, temporary or kept, null where it is unknown; from a snapshot one of its"
        " categories, such as parameter or workspace, or unknown.",
    ),
    Column("input_shapes", pl.String, "By shapes: those of the inputs of the operator; null if unknown."),
    Column("input_types", pl.String, "By shapes: the types of these inputs."),
    Column("modules", pl.Int64, "By class: how many modules of the class allocated it; else null."),
    Column(
        "line", pl.String, "Line of the user's program that allocated it; of several the one that most bytes share."
    ),
    Column("stack", pl.String, "By stack: the frames that allocated it, the outermost first, parted by semicolons."),
    Column(
        "repeats", pl.Int64, "From a snapshot: number of equal blocks from the same stack, mostly the number of layers."
    ),
    Column(
        "each", pl.Int64, "Bytes per repetition: of the blocks that repeat, those allocated through `line`.", "bytes"
    ),
    Column("evidence", pl.String, "From a snapshot: how the use is known, the most bytes first; see limits."),
    Column("source", pl.String, "snapshot: the allocator's own record; trace: the profiler's events."),
    across={"device": "device", "own": "time repeats each", "sum": "blocks size modules", ShareOf("size"): "share"},
)

APART: Final = "The memory snapshot is of another time than the trace, or of another run: it has no instants here."

_NAME_OF_EARLIER: Final = "[before the recording]"
_NAME_WITHOUT_ADDRESS: Final = "[without address]"
_OWNERS: Final = ("use", "module", "line", "stack")
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
            " module, shapes and types of the inputs; use, module, line, stack: for each of these and use.",
            choices=("call", "class", "shapes", "use", "module", "line", "stack"),
        ),
    ] = "call",
) -> Result:
    """What was in use when each device had the most memory in use?

    Method. The peak is the first instant with the most memory in use, of those selected and their beginning. In use are
    the blocks allocated and not yet freed, paired by device and address, grouped by what allocated them: the innermost
    operator (of `aten::empty` and its like, the operator around it), else annotation, and the module. The allocator's
    own number less those blocks is the row `before`: allocated before the recording. So the rows of a device sum to its
    peak exactly. The use follows from the passes that allocated and freed a block: an activation is allocated outside
    the backward pass and freed during it; a gradient is allocated in the backward pass and not freed there; the
    optimizer's state likewise; kept was allocated elsewhere and not freed; the rest is temporary.

    Where the rank has a memory snapshot, it answers for its devices: sizes are bytes as requested, the peak is the most
    of them, and what was there before its history is known too, block by block. What allocated a block is the outermost
    operator of its stack, else the line of the user's program; a module is named by the line that calls it, or by the
    trace of the same run, where that recorded the same block. The use is a category, known by the stack (of optimizers,
    constructors, collectives, workspaces), by an annotation, by the pool (of a CUDA graph), or by the lifetime: a
    gradient outlives the backward pass that allocated it; an activation lives until a backward pass; anything else is
    temporary.
    Of what was there before the history, as many blocks as there are gradients of their size are parameters, further
    ones the optimizer's state (size). `line` is the innermost line of
    user code on the stack of at least 80 % of the bytes.

    How to read it. Activations stand under operators such as `aten::addmm` with a module, gradients under those of the
    backward pass; weights and the optimizer's state are mostly `before`. With `at`, it is any other instant: the floor
    between two steps, say. By use, `repeats` × `each` reads as layers × bytes of each: `repeats` is the number of equal
    blocks from the same stack, usually the number of layers; `each` counts the stacks and sizes that half as many
    blocks have, or more, and `line` is then on the stack of 95 % of these bytes. By stack, the rows are those of a
    flame graph.

    Limits. Records without an address (old files) cannot be paired: their changes are one row, `unpaired`. If the file
    does not say how much was in use, it is counted from 0 at the beginning of the recording, and `before` is negative
    if more of what was there was freed. Reserved memory, and memory allocated past torch's allocators, do not count.
    Streams choose nothing, and numbers of devices choose those whose memory it is. A snapshot's stacks have neither
    classes nor shapes: by class is by module there, by shapes by call. Blocks of which neither stack nor lifetime nor
    size tells what they are for are `unknown`.
    """
    return job.map(_of_trace, ANALYSIS, select, at=at, group_by=group_by)


ANALYSIS = Analysis("Memory at its peak", memory_peak, RESULT, chart=Bars("name", "size"), of_device_work=False)


def _of_trace(trace: Trace, select: Selection, *, at: int | None, group_by: GroupBy = "call") -> Partial:
    if at is not None and not 0 <= at < _MAX_TIME_NS:
        raise UsageError(f"at is {at} ns; give a time from the beginning of the trace on")
    view = memory_scope(trace, select)
    instants, origin = memory_instants(trace), origin_of_time(trace)
    chosen = instants_in(view)
    frames, notes = _of_snapshot(trace, view, select, at, group_by)
    recorded = {str(frame.get_column("device")[0]) for frame in frames if len(frame)}
    chosen &= np.array([instants.device_name(each) not in recorded for each in range(len(instants.devices))], np.bool_)[
        instants.device
    ]
    for device in np.unique(instants.device[chosen]).tolist():
        name = instants.device_name(device)
        if at is None:
            place = _peak(instants, chosen, device)
            first = view.clip[0] if view.clip else origin
            time = max(int(instants.time[place]) if place >= 0 else origin, first) - origin
        else:
            place, time = _last(instants, device, origin + at), at
        frames.append(_placed(_in_use(trace, device, place, group_by), name, time, "trace"))
        if not len(frames[-1]):
            notes.append(f"Nothing was in use on {name}.")
    if chosen.any() or not frames:
        notes = [*_notes(view, instants, bool(chosen.any())), *notes]
    return Partial(pl.concat([RESULT.per_rank.empty(), *frames]), tuple(notes))


def _placed(frame: pl.DataFrame, device: str, time: int | None, source: str) -> pl.DataFrame:
    """With the device, the instant, the shares and the source, in the order of the result."""
    facts = {"device": pl.lit(device), "time": pl.lit(time), "source": pl.lit(source)}
    facts |= {name: pl.lit(None) for name in RESULT.names[1:] if name not in frame.columns and name not in facts}
    placed = frame.with_columns(**facts)
    return _shared(placed).select(pl.col(column.name).cast(column.dtype) for column in RESULT.per_rank)


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


def _of_snapshot(
    trace: Trace, view: Scope, select: Selection, at: int | None, group_by: GroupBy
) -> tuple[list[pl.DataFrame], list[str]]:
    """The frame of each device of the rank's snapshot, and notes."""
    snapshot, origin = snapshot_of(trace), origin_of_time(trace)
    frames: list[pl.DataFrame] = []
    if snapshot is None:
        return frames, []
    notes = list(snapshot.notes)
    if time_beside(trace):
        notes.append(APART)
    for device in snapshot.devices:
        past = history(trace, device)
        if past is None or (select.devices is not None and device not in select.devices):
            continue
        time = past.events.time - trace.base
        height, name = level(trace, device, "requested"), device_name(CUDA, device)
        if at is not None:
            event = int(np.searchsorted(np.maximum.accumulate(time), origin + at, side="right")) - 1
        else:
            is_chosen = events_in(view, time)
            touched = np.append(is_chosen, False) | np.concatenate([[False], is_chosen])
            touched |= not len(is_chosen)
            if not touched.any():
                notes.append(f"The history of {name} has nothing in what is selected.")
                continue
            event = int(np.where(touched, height, -1).argmax()) - 1
        when: int | None = at if at is not None else max(int(time[max(event, 0)]) - origin, 0) if len(time) else 0
        if len(time) and past.events.time[max(event, 0)] == NONE:  # torch wrote no times before 2.2
            when = None
        kinds: dict[GroupBy, OwnerKind] = {"class": "module", "shapes": "call"}
        owned = active_by_owner(trace, device, event, kinds.get(group_by, cast("OwnerKind", group_by)))
        frames.append(_placed(owned, name, when, "snapshot"))
        notes += [message for message, _ in contradictions(trace, past)]
        if past.is_truncated:
            notes.append(f"The history of {name} is truncated: its ring of {len(past.events):,} entries was full.")
    return frames, notes


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
    alive = np.flatnonzero(blocks.active_after(place) & (instants.device[blocks.shown_at] == device))
    calls, frame = grouped(trace, blocks.allocated_at[alive])
    use = block_uses(trace)[alive]
    inputs = _inputs(trace, blocks.allocated_at[alive], group_by)
    place_of, texts = _places(trace, blocks.allocated_at[alive], group_by)
    codes, first = group(calls, use, *inputs, place_of)
    shapes, types = (each[first] for each in inputs)
    size = sum_by(codes, len(first), blocks.size[alive])
    frame = frame[calls[first]].with_columns(
        modules=pl.lit(None, pl.Int64),
        input_shapes=polars_columns.json_texts(trace.strings, shapes),
        input_types=polars_columns.json_texts(trace.strings, types),
        place=polars_columns.labelled(place_of[first], texts.__getitem__).cast(pl.String).replace("", None),
        use=pl.Series([USES[each] for each in use[first].tolist()], dtype=pl.String),
        blocks=pl.Series(np.bincount(codes, minlength=len(first)), dtype=pl.Int64),
        size=pl.Series(size, dtype=pl.Int64),
    )
    if group_by == "class":
        frame = _by_class(frame)
    elif group_by in _OWNERS:
        frame = _by_owner(frame, group_by)
    else:
        frame = frame.drop("place")
    past = here[here <= place]
    unpaired = instants.size[past[block_keys(trace)[past] < 0]]
    before = np.concatenate([[total], -size, -unpaired]).sum()
    rest = [(_NAME_WITHOUT_ADDRESS, "unpaired", int(unpaired.sum())), (_NAME_OF_EARLIER, "before", int(before))]
    rows = [{"name": name, "kind": kind, "size": size} for name, kind, size in rest if size]
    columns = {"name": pl.String, "kind": pl.String, "size": pl.Int64}
    return pl.concat([frame, pl.DataFrame(rows, schema=columns)], how="diagonal")


def _inputs(trace: Trace, place: Int32s, group_by: GroupBy) -> tuple[Int64s, Int64s]:
    """Shapes and types of the inputs of operators that allocated, codes: int64 [blocks], −1 where not asked for."""
    nothing = np.full(len(place), -1, np.int64)
    if group_by != "shapes" or not len(trace):
        return nothing, nothing
    call = charged_calls(trace)[place]
    shapes, types = (arguments.codes(trace, name, call) for name in ("input_dims", "input_types"))
    known = (call >= 0) & (place >= 0)
    return np.where(known, shapes, -1), np.where(known, types, -1)


def _places(trace: Trace, allocated_at: Int32s, group_by: GroupBy) -> tuple[Int32s, Sequence[str]]:
    """The line or stack that allocated each block, −1 where it was not asked for or recorded, and their texts."""
    if group_by not in ("line", "stack"):
        return np.full(len(allocated_at), -1, np.int32), ()
    call = innermost_calls(trace)[allocated_at] if len(trace) else allocated_at
    stacks = call_stacks(trace, python=True, in_forward=True)
    code = np.where((allocated_at >= 0) & (call >= 0), stacks.code[call], np.int32(-1)) if len(trace) else allocated_at
    if group_by == "stack":
        return code, stacks.texts
    lines = [f"{PurePosixPath(file).name}:{line}" if file else "" for file, line, _ in map(user_source, stacks.texts)]
    numbers = {text: number for number, text in enumerate(dict.fromkeys(lines))}
    of_stack = np.array([*(numbers[text] for text in lines), -1], np.int32)
    return of_stack[code], list(numbers)


def _by_owner(frame: pl.DataFrame, owner: GroupBy) -> pl.DataFrame:
    """Rows of one use, and of one module, line or stack, in one; what has none stands under its call."""
    of = pl.col("place" if owner in ("line", "stack") else owner)
    name, kind = pl.coalesce(of, "name"), pl.when(of.is_null()).then("kind").otherwise(pl.lit(owner))
    if owner == "stack":
        name, kind = pl.col("name"), pl.col("kind")
    sums = frame.with_columns(name=name, kind=kind, **({owner: of} if owner in ("line", "stack") else {}))
    keys = dict.fromkeys(("name", "kind", "use", owner))
    return sums.group_by(*keys, maintain_order=True).agg(pl.col("blocks", "size").sum())


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
