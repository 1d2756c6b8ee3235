"""Compare: how much longer a step of this run takes than one of another, and which calls account for all of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import polars as pl

from kinetoscope.compare.diff.diff import ROWS, Diff, between
from kinetoscope.compare.diff.memory import memory_diff
from kinetoscope.compare.diff.programs import differing
from kinetoscope.compare.diff.run_profile import run_profile
from kinetoscope.compare.diff.waterfall import LABELS
from kinetoscope.compare.ledger.ledger import distinct_names
from kinetoscope.compare.statistics.whole_series import is_of_history
from kinetoscope.errors import InputError
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import ALL, Selection, default_to_steady
from kinetoscope.pages.blocks import (
    Bar,
    BarsBlock,
    Block,
    ChartBlock,
    Control,
    ControlsBlock,
    IcicleBlock,
    NoteBlock,
    Page,
    RowsBlock,
    TimelinesBlock,
    chosen_value,
)
from kinetoscope.pages.pictures import difference as drawn
from kinetoscope.pages.pictures.charts import waterfall
from kinetoscope.pages.sections.tables import table
from kinetoscope.schema import Column, Result, Schema
from kinetoscope.views.charts.palette import kind_of
from kinetoscope.views.charts.scales import scales
from kinetoscope.views.sentences import Sentence, join, note_of, say

_MAX_BARS: Final = 2000
"""Rows of the table; further ones hardly changed, and stand in what `kinetoscope diff --format csv` writes."""

_CALL_COLUMNS: Final = (
    "name",
    "category",
    "status",
    "base",
    "new",
    "change",
    "base_calls",
    "new_calls",
    "verdict",
    "was_name",
    "path",
    "input_shapes",
    "was_path",
    "was_shapes",
)


def page(job: Job, select: Selection, params: Mapping[str, str], *, base: Job | None = None) -> Page:
    """The page of what changed from `base` to `job`."""
    if base is None:
        return Page("compare", "Compare", "Choose a run to compare with, at the top.")
    if all(source.reader == "snapshot" for source in (*base.sources, *job.sources)):
        return _of_snapshots(base, job, select)
    if is_of_history(base) and is_of_history(job):
        return _of_histories(base, job)
    select = default_to_steady(select)
    try:
        before, now = drawn.Side(base, run_profile(base, select)), drawn.Side(job, run_profile(job, select))
        difference = between(before.profile, now.profile)
    except InputError as error:
        return Page("compare", "Compare", "One of the runs has no step to compare.", cannot=(str(error),))
    names = distinct_names([base.path, job.path])
    facts = (f"from {names[0]}", f"to {names[1]}")
    icicle = _call_by_call(before, now, difference, select, params)
    blocks = tuple(_blocks(difference, icicle, differing(base, job, difference.rows), job.ranks[0], base.ranks[0]))
    if all(any(source.files("snapshot") for source in run.sources) for run in (base, job)):
        blocks += tuple(_memory(memory_diff(base, job, select=select)))
    return Page("compare", "Compare", difference.sentence, facts, blocks, difference.notes)


def _of_histories(base: Job, job: Job) -> Page:
    """The page about two whole runs, of which nothing is known but the parts of their steps."""
    difference = between(run_profile(base, ALL), run_profile(job, ALL))
    names = distinct_names([base.path, job.path])
    facts = (f"from {names[0]}", f"to {names[1]}")
    return Page("compare", "Compare", difference.sentence, facts, tuple(_change_of_parts(difference)), difference.notes)


def _of_snapshots(base: Job, job: Job, select: Selection) -> Page:
    """The page about two memory snapshots."""
    try:
        difference = memory_diff(base, job, select=select)
    except InputError as error:
        return Page("compare", "Compare", "One of the snapshots has nothing to compare.", cannot=(str(error),))
    names = distinct_names([base.path, job.path])
    facts = (f"from {names[0]}", f"to {names[1]}")
    said = say("{change}", change=note_of(difference, difference.sentence))
    return Page(
        "compare",
        "Compare",
        said,
        facts,
        tuple(_memory(difference)),
        tuple(note for note in difference.notes if note.code != "COMPARED"),
    )


def _memory(difference: Result) -> Iterator[Block]:
    """The change of what was in use at the peak: by what it is for, and by what took it."""
    frame = difference.frame
    use = pl.col("use").fill_null("unknown")
    by_use = frame.group_by(use, maintain_order=True).agg(pl.col("base", "new", "change").sum())
    changes = [(str(row["use"]).capitalize(), float(row["change"])) for row in by_use.to_dicts() if row["change"]]
    note = "Each bar is the change of what one use of memory has; together they are the whole change, exactly."
    begin = ("Peak before", float(frame["base"].sum()))
    yield waterfall("From the one peak to the other", begin, changes, "Peak now", unit="bytes", note=note)
    compared = next(note for note in difference.notes if note.code == "COMPARED")
    note = (
        f"{compared} The changes of all rows sum to the change of the peak. What one line allocated for one"
        " use is one row; kinetoscope diff has each stack."
    )
    yield table("Memory by change", _MEMORY_ROWS, _by_place(frame).head(_MAX_BARS), note)


_MEMORY_ROWS: Final = Schema(
    Column("use", pl.String, "What the memory is for, as in `memory_peak`; null where that is unknown."),
    Column("where", pl.String, "The line of the user's program that allocated it, as it is now; else what did."),
    Column("status", pl.String, "new, gone, more or less."),
    Column("before", pl.Int64, "Bytes in the first run.", "bytes"),
    Column("now", pl.Int64, "Bytes in the second run.", "bytes"),
    Column("change", pl.Int64, "The second less the first.", "bytes"),
    Column("share", pl.Float64, "Change / all that was in use in the first run.", "fraction"),
    Column("blocks_before", pl.Int64, "Blocks in the first run; null where that is not known."),
    Column("blocks_now", pl.Int64, "Blocks in the second run."),
    Column("stacks", pl.Int64, "How many stacks of the program lead there, of the same use."),
    Column("was_line", pl.String, "The line in the first run, where that was another one."),
)
_SMALLER: Final = "[smaller changes]"
_LEAST_SHOWN_NUMBER: Final = 0.001
"""Least number of a unit that is shown; what is less is in one row."""


def _by_place(frame: pl.DataFrame) -> pl.DataFrame:
    """A row for each use and line of what changed, the rows of `memory_diff` about it together; small ones in one."""
    sums = {"before": pl.sum("base"), "now": pl.sum("new"), "change": pl.sum("change"), "share": pl.sum("share")}
    blocks = {
        f"blocks_{side}": pl.when(pl.col(name).null_count() == 0).then(pl.sum(name))
        for side, name in (("before", "base_blocks"), ("now", "new_blocks"))
    }
    rows = (
        frame.filter(pl.col("change") != 0)
        .group_by("use", pl.coalesce("line", "name").alias("where"), "was_line", maintain_order=True)
        .agg(**sums, **blocks, stacks=pl.len().cast(pl.Int64))
        .filter(pl.col("change") != 0)
    )
    status = pl.when(pl.col("before") == 0).then(pl.lit("new")).when(pl.col("now") == 0).then(pl.lit("gone"))
    rows = rows.with_columns(status=status.when(pl.col("change") > 0).then(pl.lit("more")).otherwise(pl.lit("less")))
    rows = rows.sort(pl.col("change").abs(), descending=True, maintain_order=True).select(_MEMORY_ROWS.names)
    if not rows.height:
        return rows
    least = _LEAST_SHOWN_NUMBER * scales(rows, _MEMORY_ROWS)["change"].divisor
    small = rows.filter(pl.col("change").abs() < least)
    if small.height < 2:
        return rows
    numbers = [column.name for column in _MEMORY_ROWS if column.dtype.is_numeric()]
    joined = small.select(pl.col(numbers).sum()).with_columns(where=pl.lit(_SMALLER))
    return pl.concat([rows.filter(pl.col("change").abs() >= least), joined], how="diagonal")


def _blocks(
    difference: Diff, icicle: Sequence[Block], warnings: Sequence[Sentence], rank: int, other_rank: int
) -> Iterator[Block]:
    if warnings:
        yield NoteBlock(join(warnings, "\n"), "These runs differ in more than speed", alert=True)
    yield from _change_of_parts(difference)
    yield TimelinesBlock("Both timelines", rank, other_rank)
    yield from icicle
    if modules := drawn.by_module(difference):
        yield modules
    yield _parts(difference)
    yield _calls(difference)
    if difference.hardware is not None:
        yield _across_devices(difference.hardware)


def _change_of_parts(difference: Diff) -> Iterator[Block]:
    fall = difference.waterfall.frame
    categories = fall.filter(pl.col("part").is_null()).to_dicts()
    yield _fall(difference, categories)
    order = list(LABELS)  # in which instants are charged
    in_order = sorted(categories, key=lambda row: order.index(str(row["category"])))
    yield BarsBlock("Before and now", [_bar(row, difference.new) for row in in_order], cumulative=False)


_TIME_CHOICES: Final = (("step", "step"), ("device", "device"), ("host", "host"))
_WIDTH_CHOICES: Final[tuple[tuple[drawn.Width, str], ...]] = (("now", "now"), ("before", "before"))
_FRAME_CHOICES: Final = (("all", "all calls"), ("modules", "modules alone"))


def _call_by_call(
    before: drawn.Side, now: drawn.Side, difference: Diff, select: Selection, params: Mapping[str, str]
) -> tuple[ControlsBlock, IcicleBlock]:
    """The tree of calls by what changed, and what its reader chooses of it."""
    time, frames = (
        chosen_value(params, name, [value for value, _ in choices], choices[0][0])
        for name, choices in (("time", _TIME_CHOICES), ("frames", _FRAME_CHOICES))
    )
    width: drawn.Width = "before" if chosen_value(params, "width", ["now", "before"], "now") == "before" else "now"
    controls = ControlsBlock(
        (
            Control("time", "Time of", time, _TIME_CHOICES, doc="The step as it passes, or all of device or host."),
            Control("width", "As wide as", width, _WIDTH_CHOICES),
            Control("frames", "Calls", frames, _FRAME_CHOICES),
        )
    )
    if time == "step":
        return controls, drawn.of_step(difference, frames=frames, width=width)
    return controls, drawn.of_calls(before, now, select, weight=time, frames=frames, width=width)


def _fall(difference: Diff, categories: list[dict[str, Any]]) -> ChartBlock:
    changes = [(_label(str(row["category"])), float(row["change"])) for row in categories]
    note = "Each bar is the change of one kind of time in the mean step; together they are the whole change, exactly."
    begin = ("Step before", float(difference.base))
    return waterfall("From the one step to the other", begin, changes, "Step now", unit="ns", note=note)


def _bar(row: Mapping[str, Any], step: int) -> Bar:
    kind = kind_of(row["category"]) or "idle"
    share = row["new"] / step if step else 0.0
    return Bar(_label(row["category"]), kind, row["new"], share, before=row["base"])


def _label(category: str) -> str:
    return LABELS[category].capitalize()


def _parts(difference: Diff) -> RowsBlock:
    """The largest changes in each kind of time, by name."""
    frame = difference.waterfall.frame
    divided = frame.filter(pl.col("part").is_not_null()).get_column("category").unique().to_list()
    shown = frame.filter(pl.col("part").is_not_null() | ~pl.col("category").is_in(divided))
    named = shown.select(
        pl.col("category").map_elements(_label, pl.String),
        pl.col("part").fill_null("all of it"),
        before="base",
        now="new",
        change="change",
        share="share",
    )
    return table("What changed in each kind of time", _PARTS, named)


def _calls(difference: Diff) -> RowsBlock:
    """Every call, kernel and copy whose time or number changed, those that changed most first."""
    frame = difference.rows.frame
    frame = frame.filter((pl.col("change") != 0) | (pl.col("base_calls") != pl.col("new_calls")))
    left = frame.slice(_MAX_BARS)
    rest = f" Left out are {left.height:,} that changed least." if left.height else ""
    note = f"The changes of all rows sum to the change of the step.{rest}"
    renamed = frame.head(_MAX_BARS).with_columns(pl.col("category").replace(LABELS)).rename(_COLUMN_LABELS)
    columns = (ROWS[name] for name in _CALL_COLUMNS)
    schema = Schema(*(replace(column, name=_COLUMN_LABELS.get(column.name, column.name)) for column in columns))
    return table("Calls, kernels and copies by change", schema, renamed, note)


def _across_devices(across: Result) -> RowsBlock:
    """What the peaks of two devices explain of each operator."""
    frame = across.frame.head(_MAX_BARS).rename(_HARDWARE_LABELS)
    columns = (replace(column, name=_HARDWARE_LABELS.get(column.name, column.name)) for column in across.schema)
    return table(
        "What the hardware explains",
        Schema(*columns),
        frame,
        join(say("{note}", note=note_of(across, each)) for each in across.sentences),
    )


_HARDWARE_LABELS: Final = {
    "base_calls": "calls_before",
    "new_calls": "calls_now",
    "base_time": "before",
    "new_time": "now",
    "expected_time": "peaks_suggest",
    "expected_ratio": "suggested_ratio",
    "unexplained": "slower_than_hardware",
    "base_efficiency": "efficiency_before",
    "new_efficiency": "efficiency_now",
}

_COLUMN_LABELS: Final = {"base": "before", "new": "now", "base_calls": "calls_before", "new_calls": "calls_now"}

_PARTS: Final = Schema(
    Column("category", pl.String, "Kind of time."),
    Column("part", pl.String, "What changed in it, by name."),
    Column("before", pl.Int64, "Time in the mean step, before.", "ns"),
    Column("now", pl.Int64, "Time in the mean step, now.", "ns"),
    Column("change", pl.Int64, "Now less before; all of them sum to the change of the step.", "ns"),
    Column("share", pl.Float64, "Change / mean step before.", "fraction"),
)
