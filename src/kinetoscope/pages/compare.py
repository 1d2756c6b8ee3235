"""Compare: how much faster a run is than another, and where the difference lies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import polars as pl

from kinetoscope.analyses import named
from kinetoscope.model.job import Job
from kinetoscope.model.selection import Selection
from kinetoscope.pages.blocks import Bar, Bars, Block, Head, Page, Rows
from kinetoscope.pages.digest import LABELS, average_step
from kinetoscope.pages.pictures import waterfall
from kinetoscope.schema import Result
from kinetoscope.views.numbers import shown

_SAME: Final = 0.005
"""Relative changes below this are called none."""


def page(job: Job, select: Selection, params: Mapping[str, str], *, base: Job | None = None) -> Page:
    """What changed from `base` to `job`."""
    del params
    if base is None:
        return Page("compare", "Compare", "Choose a run to compare with, at the top.")
    steps = [named("step_breakdown")(each, select=select) for each in (base, job)]
    before, after = (_average(result) for result in steps)
    if before is None or after is None:
        return Page("compare", "Compare", "One of the runs has no step to compare.", cannot=_notes(*steps))
    return Page(
        "compare",
        "Compare",
        _sentence(sum(before.values()), sum(after.values())),
        (f"from {base.path}", f"to {job.path}"),
        tuple(_blocks(job, base, select, before, after)),
        _notes(*steps),
    )


def _notes(*results: Result) -> tuple[str, ...]:
    return tuple(dict.fromkeys(note for result in results for note in result.notes))


def _average(steps: Result) -> dict[str, float] | None:
    """Nanoseconds of the average step by kind of time, which sum to it."""
    return {part.kind: part.time for part in average_step(steps)} if steps.frame.height else None


def _sentence(before: float, after: float) -> str:
    from_to = f"{shown(before, 'ns')} to {shown(after, 'ns')}"
    if not before or abs(after - before) < _SAME * before:
        return f"A step takes as long as before: {from_to}."
    change = shown(abs(after - before) / before, "fraction")
    return f"A step takes {change} {'less' if after < before else 'more'} time: from {from_to}."


def _blocks(
    job: Job, base: Job, select: Selection, before: Mapping[str, float], after: Mapping[str, float]
) -> Iterator[Block]:
    kinds = [kind for kind in before if before[kind] or after.get(kind)]
    changes = [(LABELS.get(kind, kind).capitalize(), after.get(kind, 0.0) - before[kind]) for kind in kinds]
    note = "Each bar is the change of one kind of time in the average step; together they are the whole change."
    begin = ("Step before", sum(before.values()))
    yield waterfall("From the one step to the other", begin, changes, "Step now", unit="ns", note=note)
    longest = max((*before.values(), *after.values()), default=0.0)
    yield Bars("Before", _bars(kinds, before), cumulative=False, full=longest, width="wide")
    yield Bars("Now", _bars(kinds, after), cumulative=False, full=longest, width="narrow")
    yield _differences("Operators", "operators", "device_self", "host_self", (base, job), select)
    yield _differences("Kernels and copies", "kernels", "total", "total", (base, job), select, copies=True)


def _bars(kinds: Sequence[str], times: Mapping[str, float]) -> list[Bar]:
    total = sum(times.values()) or 1
    return [Bar(LABELS.get(kind, kind).capitalize(), kind, times[kind], times[kind] / total) for kind in kinds]


def _differences(
    title: str, analysis: str, time: str, otherwise: str, jobs: tuple[Job, Job], select: Selection, **params: Any
) -> Rows:
    """Time and calls of each name, a step, in both runs; those that changed most first."""
    results = [named(analysis)(each, select=select, **params) for each in jobs]
    if not any(result.frame.get_column(time).sum() for result in results):
        time = otherwise
    steps = [max(named("step_breakdown")(each, select=select).frame.height, 1) for each in jobs]
    sums = [
        result.frame.filter(~pl.col("name").str.starts_with("ProfilerStep"))
        .group_by("name")
        .agg(pl.col(time).sum() / count, pl.col("calls").sum() / count)
        for result, count in zip(results, steps, strict=True)
    ]
    both = sums[0].join(sums[1], on="name", how="full", coalesce=True, suffix="_now")
    both = both.with_columns(change=pl.col(f"{time}_now").fill_null(0) - pl.col(time).fill_null(0))
    both = both.filter((pl.col(time).fill_null(0) > 0) | (pl.col(f"{time}_now").fill_null(0) > 0))
    both = both.with_columns(size=pl.col("change").abs()).sort(["size", "name"], descending=[True, False])
    meaning = results[0].schema[time].doc
    heads = (
        Head("name", "String", doc="Name of the operator or kernel."),
        Head("before", "Float64", "ns", f"A step, before. {meaning}"),
        Head("now", "Float64", "ns", f"A step, now. {meaning}"),
        Head("change", "Float64", "ns", "Now less before."),
        Head("calls_before", "Float64", doc="Calls a step, before."),
        Head("calls_now", "Float64", doc="Calls a step, now."),
    )
    rows = both.select("name", time, f"{time}_now", "change", "calls", "calls_now").rows()
    return Rows(f"{title} by change", heads, rows, note="What one of the runs does not have is missing in its columns.")
