"""What a memory snapshot says, in sentences: why memory ran out, the peak and its owners, fragmentation, growth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import polars as pl

from kinetoscope.analyses import named
from kinetoscope.analyses.memory_what_if import GROWING_SEGMENTS, what_if_sentences
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import Selection
from kinetoscope.views.numbers import shown
from kinetoscope.views.text import brief, printable

_NAMED_OWNERS: Final = 3
"""Categories that are named, those that have most at the peak."""

_NAME_CELLS: Final = 60

_UNUSED_SHARE: Final = 0.1
"""Share of what is reserved that is free at the peak, from which on the history is replayed with growing segments."""


def memory_sentences(job: Job, select: Selection, device: str = "", *, replays: bool = True) -> tuple[str, ...]:
    """The sentences about a device, what matters most first; of the fullest of all ranks where none is named.

    Empty where nothing is known of the device's memory. Without `replays` nothing is said of other settings.
    """
    peak = named("memory_peak")(job, select=select, group_by="use").frame
    peak = fullest(peak.filter(device=device) if device else peak)
    if not peak.height:
        return ()
    return tuple(_sentences(job, select, peak, replays))


def fullest(peak: pl.DataFrame) -> pl.DataFrame:
    """The rows of `memory_peak` about the device that has most in use at its peak, the first of several."""
    if not peak.height:
        return peak
    totals = peak.group_by("rank", "device", maintain_order=True).agg(pl.col("size").sum())
    rank, device = totals.sort("size", descending=True, maintain_order=True).select("rank", "device").row(0)
    return peak.filter(rank=rank, device=device)


def growth_sentence(growth: pl.DataFrame, device: str) -> str:
    """Whether memory of a device grows from step to step; "" where that was not asked of it."""
    rows = growth.filter((pl.col("device") == device) & (pl.col("kind") == "device"))
    if not rows.height:
        return ""
    verdict, per_step = rows.select("verdict", "per_step").row(0)
    sentences = {
        "leak": f"It grows by {shown(per_step, 'bytes')} a step: a leak.",
        "no growth": "It does not grow from step to step.",
        "unclear": "Whether it grows from step to step is not clear.",
    }
    return sentences.get(verdict, "There are too few steps to tell whether it grows.")


def _sentences(job: Job, select: Selection, peak: pl.DataFrame, replays: bool) -> Iterator[str]:
    rank, device, time = peak.select("rank", "device", "time").row(0)
    failed = named("memory_oom")(job, select=select)
    if failed.frame.filter(rank=rank, device=device).height:
        notes = [note for note in failed.notes if device in note]
        yield from (note.partition(". ")[0].rstrip(".") + "." for note in notes[:1])
    owners = peak.sort("size", descending=True, maintain_order=True).head(_NAMED_OWNERS).iter_rows(named=True)
    words = ", ".join(map(_owner, owners))
    when = ""
    if time is not None:
        when = f", {shown(abs(time), 'ns')} {'into the recording' if time >= 0 else 'before the trace begins'}"
    of_rank = f" of rank {rank}" if len(job.ranks) > 1 else ""
    yield f"Memory of {device}{of_rank} peaks at {shown(int(peak.get_column('size').sum()), 'bytes')}{when}: {words}."
    if time is not None and time >= 0:
        pools = named("memory_fragmentation")(job, select=select, at=time).frame.filter(rank=rank, device=device)
        yield from _fragmentation(pools)
        if replays and (failed.frame.height or _unused_share(pools) >= _UNUSED_SHARE):
            others = named("memory_what_if")(job, select=select, conf=GROWING_SEGMENTS).frame
            yield from what_if_sentences(device, others.filter(rank=rank, device=device).to_dicts())
    growth = named("memory_growth")(job, select=select).frame.filter(rank=rank)
    yield from filter(None, [growth_sentence(growth, device)])
    stacks = growth.filter((pl.col("device") == device) & (pl.col("kind") == "stack") & (pl.col("per_step") > 0))
    if stacks.height and growth.filter(device=device, kind="device", verdict="leak").height:
        name, per_step = stacks.sort("per_step", descending=True, maintain_order=True).select("name", "per_step").row(0)
        yield f"`{brief(printable(name), _NAME_CELLS)}` keeps {shown(per_step, 'bytes')} of it a step."


def _unused_share(pools: pl.DataFrame) -> float:
    """Share of what is reserved that lies free between blocks in use, or in segments without any."""
    if not pools.height or pools.get_column("reserved").null_count():
        return 0.0
    reserved, *unused = pools.select(pl.col("reserved", "inactive_split", "releasable").sum()).row(0)
    return float(sum(unused) / max(reserved, 1))


def _owner(row: Mapping[str, Any]) -> str:
    """`activation 34.0 GB (24 × 1.30 GB, `model.py:88`)`."""
    words = f"{printable(row['name'])} {shown(row['size'], 'bytes')}"
    if row["name"] != "activation" or not row["repeats"]:
        return words
    line = f", `{brief(printable(row['line']), _NAME_CELLS)}`" if row["line"] else ""
    return f"{words} ({row['repeats']:,} × {shown(row['each'], 'bytes')}{line})"


def _fragmentation(pools: pl.DataFrame) -> Iterator[str]:
    columns = ("reserved", "internal_loss", "pending", "inactive_split", "releasable", "private")
    if not pools.height or pools.get_column("reserved").null_count():
        return
    of = pools.select(pl.col(columns).sum()).row(0, named=True)
    parts = {
        "inactive_split": "are free between blocks in use",
        "releasable": "are cached in unused segments",
        "private": "are free in pools of CUDA graphs",
        "pending": "wait to be returned",
    }
    words = [f"{shown(of[name], 'bytes')} {text}" for name, text in parts.items() if of[name]]
    yield f"At the peak {shown(of['reserved'], 'bytes')} are reserved" + (f": {', '.join(words)}." if words else ".")
