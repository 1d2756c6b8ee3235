"""A memory snapshot in a few sentences, for the summary: why memory ran out, whose the peak is, whether it grows."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from kinetoscope.analyses import named
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import Selection
from kinetoscope.pages.parts.allocator import PEAK, devices_of, peak_sentence
from kinetoscope.views.numbers import grouped, shown


@dataclass(frozen=True, slots=True)
class SnapshotWords:
    """What is said of the snapshots of a job.

    Attributes:
        facts: devices, events and time of the histories.
        sentences: what matters first comes first.
        categories: bytes of each category of the fullest device at its peak, the most first.
    """

    facts: tuple[str, ...]
    sentences: tuple[str, ...]
    categories: tuple[tuple[str, int], ...]


def snapshot_words(job: Job, *, select: Selection) -> SnapshotWords | None:
    """The words; None where no rank has a snapshot. Of several devices and ranks the one that peaks highest."""
    facts = devices_of(job, select)
    if not facts.height:
        return None
    failed, growth = named("memory_oom")(job, select=select), named("memory_growth")(job, select=select)
    peaks = facts.filter(kind="moment", label=PEAK).sort("size", descending=True)
    rank, device = peaks.select("rank", "device").row(0)
    here = facts.filter(rank=rank, device=device)
    requests = failed.frame.filter(pl.col("kind") == "request").height
    of_rank = f"Rank {rank}: " if facts.get_column("rank").n_unique() > 1 else ""
    sentences = [*failed.notes[:1]] if requests else []
    sentences.append(f"{of_rank}{peak_sentence(here, device)}")
    sentences += _grows(growth.frame.filter(rank=rank, device=f"cuda:{device}"))
    named_categories = here.filter(kind="category").sort("size", descending=True).select("label", "size").rows()
    categories = tuple((str(label), int(size)) for label, size in named_categories if size > 0)
    return SnapshotWords(tuple(_facts(facts)), tuple(sentences), categories)


def _grows(growth: pl.DataFrame) -> list[str]:
    """Growth from step to step, where there is any."""
    leaks = growth.filter((pl.col("kind") == "device") & (pl.col("verdict") == "leak"))
    return [f"It grows by {shown(each, 'bytes')} a step: a leak." for each in leaks.get_column("per_step").head(1)]


def _facts(facts: pl.DataFrame) -> list[str]:
    """`2 devices`, `12,345 events of the allocator in 4.5 s`."""
    ends = facts.filter(kind="history")
    devices = ends.select("rank", "device").n_unique()
    events = ends.group_by("rank", "device").agg(pl.col("event").max()).get_column("event").sum()
    times = ends.group_by("rank", "device").agg(span=pl.col("time").max() - pl.col("time").min()).get_column("span")
    longest = times.drop_nulls().max()
    span = f" in {shown(longest, 'ns')}" if isinstance(longest, int) and longest else ""
    return [f"{devices} device{'s' * (devices != 1)}", f"{grouped(int(events))} events of the allocator{span}"]
