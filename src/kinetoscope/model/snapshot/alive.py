"""What is in use after an event of a snapshot's history, by owner: category, module, line, operator or stack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, Literal

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int8s, Int32s
from kinetoscope.algorithms.grouping import group, sum_by
from kinetoscope.model.memory.allocator import names_of_modules
from kinetoscope.model.memory.blocks import charged_modules
from kinetoscope.model.snapshot.joined import joined_instants
from kinetoscope.model.snapshot.owners import CATEGORIES, EVIDENCE, GRADIENT, TEMPORARY, owners
from kinetoscope.model.snapshot.replay import history
from kinetoscope.model.snapshot.sites import BACKWARD, StackSites, stack_sites
from kinetoscope.model.snapshot.snapshot import NONE
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.trace import Trace

OwnerKind = Literal["call", "module", "line", "stack", "use"]
"""What makes a row: the operator with its line and module, the module, the line, the stack, or the category alone."""

BEFORE_NAME: Final = "[before the history]"
BACKWARD_NAME: Final = "[backward pass]"
NO_STACK_NAME: Final = "[no stack]"

COLUMNS: Final = pl.Schema(
    {
        **dict.fromkeys(("name", "kind", "module", "line", "stack", "use", "evidence"), pl.String()),
        **dict.fromkeys(("blocks", "repeats", "size"), pl.Int64()),
    }
)

_COMMON_SHARE: Final = 0.8
"""Share of an owner's bytes that a line must lead to, to be said of all."""


def alive_by_owner(trace: Trace, device: int, event: int, by: OwnerKind) -> pl.DataFrame:
    """What is in use after an event (−1: before the first), the most first: COLUMNS, bytes as asked for.

    Blocks that a trace of the same run has too are of the module that it names. The line of an owner is the innermost
    of its largest stack that four fifths of its bytes were taken through. Its repeats are how many
    blocks of one stack and size there are where most of its bytes are: the number of layers, as a rule.
    """
    past, owned, sites = history(trace, device), owners(trace, device), stack_sites(trace)
    if past is None or owned is None or sites is None:
        return pl.DataFrame(schema=COLUMNS)
    rows = np.flatnonzero(past.alive_after(event))
    instants = joined_instants(trace, device)[rows]
    called = np.where(instants >= 0, charged_modules(trace)[instants], NONE) if (instants >= 0).any() else instants
    module = np.where(called >= 0, trace.name[called], NONE) if len(trace) else called
    stack, category, taken = past.stack[rows], owned.category[rows], past.taken[rows]
    forward = np.where(taken >= 0, past.events.forward_stack[taken], NONE) if len(past.events) else taken
    forward = np.where(sites.user[stack] == NONE, forward, NONE)
    where = np.where(stack != NONE, np.where(sites.marks[stack] & BACKWARD, 1, 0), np.where(taken == NONE, 2, 0))
    where[(stack == NONE) & (taken != NONE) & np.isin(category, (GRADIENT, TEMPORARY))] = 1
    codes, first = group(stack, category, owned.evidence[rows], module, forward, where, past.requested[rows])
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
            "nothing": _texts(where[first], (NO_STACK_NAME, BACKWARD_NAME, BEFORE_NAME).__getitem__),
        }
    )
    folded = pl.lit(_texts(stack[first], sites.folded) if by == "stack" else None, pl.String)
    sums = sums.with_columns(folded=folded, line=pl.coalesce("line", "forward"), module=pl.coalesce("module", "caller"))
    return _by(sums, sites, by)


def _by(sums: pl.DataFrame, sites: StackSites, by: OwnerKind) -> pl.DataFrame:
    """One row for each owner, of the sums of each stack, category and module."""
    names = {
        "call": ("operator", "line"),
        "module": ("module", "line", "operator"),
        "line": ("line", "operator"),
        "stack": ("line", "operator"),
        "use": ("use",),
    }[by]
    kind = pl.when(pl.col("nothing") == BEFORE_NAME).then(pl.lit("before")).otherwise(pl.lit("memory"))
    for name in reversed(names):
        kind = pl.when(pl.col(name).is_not_null()).then(pl.lit(name)).otherwise(kind)
    keys = ["name", "kind", "use", *{"call": ("module", "line"), "stack": ("folded",)}.get(by, ())]
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
    of_each = list(zip(*(owned.get_column(name).to_list() for name in ("stacks", "sizes", "counts")), strict=True))
    found = {"repeats": pl.Series([_repeats(*each) for each in of_each], dtype=pl.Int64)}
    if by != "call":
        found["line"] = pl.Series([_line(sites, stacks, sizes) for stacks, sizes, _ in of_each], dtype=pl.String)
        found["module"] = pl.Series([None] * len(owned), dtype=pl.String)
    stacks_of = pl.col("folded") if by == "stack" else pl.lit(None)
    return (
        owned.with_columns(**found, stack=stacks_of)
        .sort(["size", "name", "use"], descending=[True, False, False], nulls_last=True)
        .select(pl.col(name).cast(kind) for name, kind in COLUMNS.items())
    )


def _texts(codes: Int32s | Int8s, label: Callable[[int], str]) -> pl.Series:
    """The label of each code, null for negative codes and where it is empty."""
    return polars_columns.labelled(codes, label).cast(pl.String).replace("", None)


def _line(sites: StackSites, stacks: Sequence[int], sizes: Sequence[int]) -> str | None:
    """The innermost line of the first stack, the largest, that most of the bytes were taken through."""
    bytes_of = Counter[int]()
    for stack, size in zip(stacks, sizes, strict=True):
        bytes_of.update(dict.fromkeys(sites.user_frames(stack).tolist(), size))
    least = _COMMON_SHARE * sum(sizes)
    common = (frame for frame in sites.user_frames(stacks[0]).tolist() if bytes_of[frame] >= least)
    return sites.line_of(next(common, NONE)) or None


def _repeats(stacks: Sequence[int], sizes: Sequence[int], counts: Sequence[int]) -> int | None:
    """The number of blocks of one stack and size that most bytes are of; None for 1, and without stacks."""
    bytes_of = Counter[int]()
    for stack, size, count in zip(stacks, sizes, counts, strict=True):
        bytes_of[count if stack != NONE else 1] += size
    number = bytes_of.most_common(1)[0][0]
    return number if number > 1 else None
