"""Memory in use after an event of a snapshot's history, by owner: category, module, line, operator or stack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int8s, Int32s
from kinetoscope.algorithms.grouping import group, sum_by
from kinetoscope.model.execution.calls import call_names, names_of_calls
from kinetoscope.model.execution.frames import user_source
from kinetoscope.model.memory.allocator import names_of_modules
from kinetoscope.model.memory.blocks import charged_calls, charged_modules
from kinetoscope.model.memory.categories import CATEGORIES, GRADIENT, TEMPORARY
from kinetoscope.model.memory.record import GroupBy
from kinetoscope.model.operators.call_stacks import call_stacks
from kinetoscope.model.snapshot.joined import joined_instants
from kinetoscope.model.snapshot.owners import EVIDENCE, owners
from kinetoscope.model.snapshot.replay import history
from kinetoscope.model.snapshot.sites import BACKWARD, StackSites, stack_sites
from kinetoscope.model.snapshot.snapshot import NONE
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.trace import Trace

BEFORE_NAME: Final = "[before the history]"
BACKWARD_NAME: Final = "[backward pass]"
NO_STACK_NAME: Final = "[no stack]"

COLUMNS: Final = pl.Schema(
    {
        **dict.fromkeys(("name", "kind", "module", "line", "stack", "use", "evidence"), pl.String()),
        **dict.fromkeys(("blocks", "repeats", "each", "size"), pl.Int64()),
    }
)

_OF_CALL: Final = ("module", "line")

_COMMON_SHARE: Final = 0.8
"""Share of an owner's bytes that a line must lead to, to be said of all."""

_LAYERED_SHARE: Final = 0.95
"""The same share for blocks of layers: a line inside of them may have most of it, and is not the layer."""

_LEAST_LAYERS: Final = 0.5
"""Share of the layers that have a block of one stack and size, from which on it counts as a part of each: not every
layer is alike in all, and the backward pass has begun in some."""

_SMALLER_NUMBER_SHARE: Final = 0.1
"""Bytes of a number of blocks that another is a multiple of / bytes of that, from which on it is the number of layers.
"""


def active_by_owner(trace: Trace, device: int, event: int, by: GroupBy) -> pl.DataFrame:
    """Memory in use after an event (−1: before the first), the most first: COLUMNS, bytes as requested.

    Blocks that a trace of the same run has too are of the module that it names; without a stack of their own, of its
    operator and line. Repeats are how many blocks of one stack and size there are, where most of an owner's bytes are:
    the number of layers, as a rule. `each` is what a layer allocates: the bytes of the stacks and sizes of which half
    as many blocks are there, or more, allocated through `line` / repeats; and `line` is the innermost of the largest
    stack that 95 % of them were allocated through. Without repeats it is the one that four fifths of all were allocated
    through.
    """
    past, owned, sites = history(trace, device), owners(trace, device), stack_sites(trace)
    rows = np.flatnonzero(past.active_after(event))
    instants = joined_instants(trace, device)[rows]
    called = np.where(instants >= 0, charged_modules(trace)[instants], NONE) if (instants >= 0).any() else instants
    module = np.where(called >= 0, trace.name[called], NONE) if len(trace) else called
    call = np.where(instants >= 0, charged_calls(trace)[instants], NONE) if (instants >= 0).any() else instants
    call = np.where(sites.operator[past.stack[rows]] == NONE, call, NONE)
    stack, category, allocated_at = past.stack[rows], owned.category[rows], past.allocated_at[rows]
    request = past.events.forward_stack[allocated_at] if len(past.events) else allocated_at
    forward = np.where(allocated_at >= 0, request, NONE)
    forward = np.where(sites.user[stack] == NONE, forward, NONE)
    source = (
        np.where((sites.user[stack] == NONE) & (call >= 0), _stack_codes(trace)[call], NONE) if len(trace) else call
    )
    operation = np.where(call >= 0, call_names(trace)[call], NONE) if len(trace) else call
    where = np.where(stack != NONE, np.where(sites.marks[stack] & BACKWARD, 1, 0), np.where(allocated_at == NONE, 2, 0))
    where[(stack == NONE) & (allocated_at != NONE) & np.isin(category, (GRADIENT, TEMPORARY))] = 1
    codes, first = group(
        stack, category, owned.evidence[rows], module, forward, where, source, operation, past.requested[rows]
    )
    sums = pl.DataFrame(
        {
            "stack": stack[first],
            "size": sum_by(codes, len(first), past.requested[rows]),
            "blocks": np.bincount(codes, minlength=len(first)).astype(np.int64),
            "use": _texts(category[first], CATEGORIES.__getitem__),
            "evidence": _texts(owned.evidence[rows][first], EVIDENCE.__getitem__),
            "module": names_of_modules(trace, called[first]).cast(pl.String),
            "line": _texts(sites.user[stack[first]], sites.line_of),
            "forward": _texts(forward[first], sites.forward_line),
            "caller": _texts(sites.module[stack[first]], sites.line_of),
            "operator": _texts(sites.operator[stack[first]], sites.operator_of),
            "operation": names_of_calls(trace, call[first].astype(np.int32)).cast(pl.String),
            "source": _texts(source[first], lambda code: _line_of_text(call_stacks(trace, True, True).texts[code])),
            "nothing": _texts(where[first], (NO_STACK_NAME, BACKWARD_NAME, BEFORE_NAME).__getitem__),
        }
    )
    folded = pl.lit(_texts(stack[first], sites.folded) if by == "stack" else None, pl.String)
    sums = sums.with_columns(
        folded=folded,
        line=pl.coalesce("line", "forward", "source"),
        module=pl.coalesce("module", "caller"),
        operator=pl.coalesce("operator", "operation"),
    )
    return _by(sums, sites, by)


def _by(sums: pl.DataFrame, sites: StackSites, by: GroupBy) -> pl.DataFrame:
    """One row for each owner, of the sums of each stack, category and module.

    Stacks tell no classes of modules and no shapes: those are the modules and the calls.
    """
    names = {
        "call": ("operator", "line"),
        "shapes": ("operator", "line"),
        "class": ("module", "line", "operator"),
        "module": ("module", "line", "operator"),
        "line": ("line", "operator"),
        "stack": ("line", "operator"),
        "use": ("use",),
    }[by]
    kind = pl.when(pl.col("nothing") == BEFORE_NAME).then(pl.lit("before")).otherwise(pl.lit("memory"))
    for name in reversed(names):
        kind = pl.when(pl.col(name).is_not_null()).then(pl.lit(name)).otherwise(kind)
    keys = ["name", "kind", "use", *{"call": _OF_CALL, "shapes": _OF_CALL, "stack": ("folded",)}.get(by, ())]
    named = sums.with_columns(name=pl.coalesce(*names, "nothing"), kind=kind).sort(
        "size", descending=True, maintain_order=True
    )
    owned = named.group_by(keys, maintain_order=True).agg(
        pl.col("size", "blocks").sum(),
        evidence=pl.col("evidence").drop_nulls().unique(maintain_order=True).str.join(", ").replace("", None),
        stacks="stack",
        sizes="size",
        counts="blocks",
    )
    columns = (owned.get_column(name).to_list() for name in ("stacks", "sizes", "counts"))
    of_layers = [_of_layers(sites, *each) for each in zip(*columns, strict=True)]
    new = {
        "repeats": pl.Series([each.repeats for each in of_layers], dtype=pl.Int64),
        "each": pl.Series([each.size for each in of_layers], dtype=pl.Int64),
    }
    if by not in ("call", "shapes"):
        new["line"] = pl.Series([each.line for each in of_layers], dtype=pl.String)
        if by == "line":
            new["line"] = owned.select(pl.when(pl.col("kind") == "line").then("name")).to_series()
        new["module"] = pl.Series([None] * len(owned), dtype=pl.String)
    stacks_of = pl.col("folded") if by == "stack" else pl.lit(None)
    return (
        owned.with_columns(**new, stack=stacks_of)
        .sort(["size", "name", "use"], descending=[True, False, False], nulls_last=True)
        .select(pl.col(name).cast(kind) for name, kind in COLUMNS.items())
    )


def _texts(codes: Int32s | Int8s, label: Callable[[int], str]) -> pl.Series:
    """The label of each code, null for negative codes and where it is empty."""
    return polars_columns.labelled(codes, label).cast(pl.String).replace("", None)


class _OfLayers(NamedTuple):
    """The blocks of an owner that layers alike have, as many of one stack and size as there are layers.

    Attributes:
        repeats: how many layers; None for 1, and without stacks.
        size: bytes of one layer; None without repeats.
        line: the line of the program that allocated them, and nothing else of `size`; of all blocks without repeats.
    """

    repeats: int | None
    size: int | None
    line: str | None


def _of_layers(sites: StackSites, stacks: Sequence[int], sizes: Sequence[int], counts: Sequence[int]) -> _OfLayers:
    number_of, bytes_of = Counter[tuple[int, int]](), Counter[int]()
    for stack, size, count in zip(stacks, sizes, counts, strict=True):
        number_of[stack, size // count] += count
        bytes_of[stack] += size
    repeats = _repeats(number_of)
    if repeats == 1:
        return _OfLayers(None, None, sites.line_of(_line(sites, bytes_of, _COMMON_SHARE)) or None)
    layered = Counter[int]()
    for (stack, each), count in number_of.items():
        if stack != NONE and _LEAST_LAYERS * repeats <= count:
            layered[stack] += each * count
    line = _line(sites, layered, _LAYERED_SHARE)
    through = sum(size for stack, size in layered.items() if line == NONE or line in sites.user_frames(stack))
    return _OfLayers(repeats, through // repeats, sites.line_of(line) or None)


def _repeats(number_of: Counter[tuple[int, int]]) -> int:
    """The number of blocks of one stack and size that has most of the bytes.

    A layer may allocate several alike from one line: a smaller number that it is a multiple of, with a tenth as many
    bytes, is the number of layers.
    """
    by_number = Counter[int]()
    for (stack, each), count in number_of.items():
        by_number[count if stack != NONE else 1] += each * count
    most, size = by_number.most_common(1)[0]
    parts = (number for number, part in by_number.items() if number > 1 and part >= _SMALLER_NUMBER_SHARE * size)
    return min((number for number in parts if most % number == 0), default=most)


def _line(sites: StackSites, bytes_of: Counter[int], share: float) -> int:
    """The frame of the program's innermost line of the largest stack that allocated so much of the bytes."""
    if not bytes_of:
        return NONE
    through = Counter[int]()
    for stack, size in bytes_of.items():
        for frame in set(sites.user_frames(stack).tolist()):
            through[frame] += size
    least, largest = share * bytes_of.total(), bytes_of.most_common(1)[0][0]
    common = (frame for frame in sites.user_frames(largest).tolist() if through[frame] >= least)
    return next(common, NONE)


def _stack_codes(trace: Trace) -> Int32s:
    return call_stacks(trace, True, True).code


def _line_of_text(stack: str) -> str:
    file, line, _ = user_source(stack)
    return f"{PurePosixPath(file).name}:{line}" if file else ""
