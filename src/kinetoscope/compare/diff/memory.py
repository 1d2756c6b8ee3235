"""Changes in the memory of a device between two runs: at their peaks, or when their snapshots were taken."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final, Literal, NamedTuple

import polars as pl

from kinetoscope.analyses import named
from kinetoscope.compare.diff.align import Pair, all_together, in_pairs
from kinetoscope.compare.diff.diff import signed
from kinetoscope.compare.diff.normalize_names import normalized_frame
from kinetoscope.errors import InputError
from kinetoscope.model.execution.frames import SEPARATOR
from kinetoscope.model.job import Job, Readable, part_of
from kinetoscope.model.steps.selection import ALL, Selection
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Result, Schema
from kinetoscope.views.numbers import shown
from kinetoscope.views.text import brief

MemoryInstant = Literal["peak", "end"]

ROWS = Schema(
    Column("use", pl.String, "What the memory is for, as in `memory_peak`; null where that is unknown."),
    Column("line", pl.String, "Line of the user's program that allocated it, as it is now; of what is gone as it was."),
    Column("name", pl.String, "What allocated it: an operator, or what `memory_peak` says instead."),
    Column("status", pl.String, "new, gone, more, less or same."),
    Column("base", pl.Int64, "Bytes in the first run.", "bytes"),
    Column("new", pl.Int64, "Bytes in the second run.", "bytes"),
    Column("change", pl.Int64, "The second less the first; all rows sum to the change of the whole.", "bytes"),
    Column("share", pl.Float64, "Change / all that was in use in the first run.", "fraction"),
    Column("base_blocks", pl.Int64, "Blocks in the first run; null where that is not known."),
    Column("new_blocks", pl.Int64, "Blocks in the second run."),
    Column("stack", pl.String, "Frames that allocated it, the outermost first, parted by semicolons; null if unknown."),
    Column("was_line", pl.String, "The line in the first run, where that was another one."),
    Column("was_use", pl.String, "What it was for in the first run, where that was something else."),
)
"""The rows of `memory_diff`, those that changed most first."""

_END: Final = 1 << 61
"""An instant after all events, ns from the beginning of a trace."""

_PARTS: Final = 3
"""Uses that the sentence names, those that changed most."""

_MIN_PART_SHARE: Final = 0.1
"""Share of the largest change of a use from which on the sentence names another one."""

_LINE_CELLS: Final = 40

_SAME_MEMORY_SHARE: Final = 0.001
"""Share of what is in use by which it may change and count as the same."""


class MemoryOwner(NamedTuple):
    """A row of `memory_peak`."""

    use: str | None
    line: str | None
    name: str
    stack: str | None
    size: int
    blocks: int | None


def memory_diff(
    base: Job | Readable,
    new: Job | Readable,
    *,
    select: Selection = ALL,
    base_select: Selection | None = None,
    at: MemoryInstant = "peak",
) -> Result:
    """What allocates more or less memory in one run than in another?

    Method. What was in use on a device at its peak in each run (`memory_peak` by stack), or when its snapshot was
    taken, is paired by use and stack; then what is left over by use and the functions of the stack, without lines and
    folders, then by these functions alone, then by use and line or name. A row is a pair. The rows sum to the change of
    the whole, exactly. Of each run the device counts on which most was in use, of all ranks, unless ranks or devices
    are chosen.

    How to read it. Two snapshots of one run, the later one second, show what piled up between them (`at="end"`). Two
    ranks of a job show what makes one of them run out of memory first.

    Limits. Without a snapshot the sizes are those of the profiler's events, and what was allocated before the recording
    is one row. Peaks are instants: two runs may reach them in different places of the step.

    Args:
        base: the first run.
        new: the second run.
        select: what is looked at in both.
        base_select: what is looked at in the first run, where that is something else.
        at: peak, or end: when the snapshot was taken or the recording ended.

    Raises:
        InputError: a run cannot be read, or has nothing about memory.
        UsageError: a run does not have what was selected.
    """
    base, of_base = part_of(base, select if base_select is None else base_select)
    new, of_new = part_of(new, select)
    sides = [_side(base, of_base, at), _side(new, of_new, at)]
    (before, was_on, _), (after, on, _) = sides
    pairs = in_pairs(before, after, _PASSES)
    total = sum(each.size for each in before)
    frame = ROWS.frame([_row(pair, total) for pair in pairs])
    frame = frame.sort(pl.col("change").abs(), "new", "stack", "name", descending=[True, True, False, False])
    where = f"{was_on} of {base.path} and {on} of {new.path}"
    notes = (Note("COMPARED", f"Compared are {where}."), *dict.fromkeys(sides[0][2] + sides[1][2]))
    params = {"base": base.path, "new": new.path, "at": at}
    return Result(frame, ROWS, notes, "memory_diff", params, sentence=_sentence(frame, at))


def _side(run: Job, select: Selection, at: MemoryInstant) -> tuple[list[MemoryOwner], str, tuple[Note, ...]]:
    """Memory in use on the fullest device of a run; that device, and notes."""
    answer = named("memory_peak")(run, select=select, group_by="stack", at=_END if at == "end" else None)
    frame = answer.frame
    on_devices = frame.filter(pl.col("device") != "cpu")
    frame = on_devices if on_devices.height else frame
    if not frame.height:
        reasons = " ".join(answer.notes)
        raise InputError(f"{run.path} has no memory in use to compare. {reasons}".strip())
    place = ["rank", "device"]
    sums = frame.group_by(place).agg(pl.col("size").sum()).sort("size", *place, descending=[True, False, False])
    rank, device, _ = sums.row(0)
    chosen = frame.filter((pl.col("rank") == rank) & (pl.col("device") == device))
    owners = [MemoryOwner(*row) for row in chosen.select(MemoryOwner._fields).iter_rows()]
    return owners, f"{device} (rank {rank})", answer.notes


# --- pairs


def _functions(owner: MemoryOwner) -> str | None:
    if owner.stack is None:
        return None
    return SEPARATOR.join(map(normalized_frame, owner.stack.split(SEPARATOR)))


def _with_use(owner: MemoryOwner) -> Hashable:
    functions = _functions(owner)
    return None if functions is None else (owner.use, functions)


_PASSES: Final = (
    (lambda owner: owner.stack and (owner.use, owner.stack), all_together),
    (_with_use, all_together),
    (_functions, all_together),
    (lambda owner: (owner.use, owner.line or owner.name), all_together),
)


def _row(pair: Pair[MemoryOwner], total: int) -> tuple[Any, ...]:
    one, other = (pair.new or pair.base)[0], (pair.base or pair.new)[0]
    before, after = (sum(each.size for each in side) for side in (pair.base, pair.new))
    status = "same" if before == after else "more" if after > before else "less"
    status = "new" if not pair.base else "gone" if not pair.new else status
    return (
        *(one.use, one.line, one.name, status, before, after, after - before),
        (after - before) / total if total else None,
        *(_blocks(side) for side in (pair.base, pair.new)),
        one.stack,
        other.line if other.line != one.line else None,
        other.use if other.use != one.use else None,
    )


def _blocks(side: Sequence[MemoryOwner]) -> int | None:
    counts = [each.blocks for each in side if each.blocks is not None]
    return sum(counts) if len(counts) == len(side) else None


def _sentence(frame: pl.DataFrame, at: MemoryInstant) -> str:
    """`The peak is 1.20 GB higher: 10.0 GB → 11.2 GB; activation +1.00 GB (most at model.py:40), …`."""
    before, after = (int(frame[name].sum()) for name in ("base", "new"))
    what = "The peak" if at == "peak" else "What is in use at the end"
    from_to = f"{shown(before, 'bytes')} → {shown(after, 'bytes')}"
    if abs(after - before) <= _SAME_MEMORY_SHARE * before:
        return f"{what} is as high as before: {from_to}."
    uses = frame.group_by(pl.col("use").fill_null("unknown"), maintain_order=True).agg(
        pl.col("change").sum(),
        line=pl.coalesce("line", "name").sort_by(pl.col("change").abs(), descending=True).first(),
    )
    uses = uses.filter(pl.col("change") != 0).sort(pl.col("change").abs(), "use", descending=[True, False])
    least = _MIN_PART_SHARE * float(uses["change"].abs().max() or 0)  # type: ignore[arg-type]
    words = [
        f"{use} {signed(change, 'bytes')}{f' (most at {brief(line, _LINE_CELLS)})' if line else ''}"
        for use, change, line in uses.head(_PARTS).iter_rows()
        if abs(change) >= least
    ]
    more = "higher" if after > before else "lower"
    return f"{what} is {shown(abs(after - before), 'bytes')} {more}: {from_to}; {', '.join(words)}."
