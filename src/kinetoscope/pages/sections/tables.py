"""Rows of results as tables, as ranked bars, and as a sentence about the few that make most of a column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import polars as pl

from kinetoscope.model.steps.selection import Selection
from kinetoscope.pages.blocks import Bar, BarsBlock, Head, Link, RowsBlock, Width
from kinetoscope.pages.sentences.steps import nothing
from kinetoscope.schema import Result, Schema
from kinetoscope.views.charts.palette import kind_of
from kinetoscope.views.charts.scales import scales
from kinetoscope.views.names import short_names, shortened
from kinetoscope.views.numbers import grouped
from kinetoscope.views.sentences import Sentence, computed, constant, say
from kinetoscope.views.text import brief, printable

_COVERED_TIME_SHARE: Final = 0.8
_RANKED_BARS: Final = 10
_NAME_CELLS: Final = 60  # cells of a name in a sentence
_LABEL_CELLS: Final = 64  # cells of a name beside a bar


def first_cycle(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows of the first cycle, of those of one rank: each cycle has a time axis of its own."""
    return frame.filter(pl.col("cycle") == pl.col("cycle").min()) if "cycle" in frame.columns else frame


def with_values(frame: pl.DataFrame, columns: Sequence[str], *, always: Sequence[str] = ()) -> tuple[str, ...]:
    """The columns in which some row has a value, and those that are shown `always`; all where there is no row."""
    known = {name for name in columns if not frame.height or name in always or _has_values(frame, name)}
    return tuple(name for name in columns if name in known)


def _has_values(frame: pl.DataFrame, name: str) -> bool:
    return name not in frame.columns or frame.get_column(name).null_count() < frame.height


def table(title: str, schema: Schema, frame: pl.DataFrame, note: str = "") -> RowsBlock:
    """All rows of `frame`, which has the columns of `schema`."""
    heads = [Head(column.name, str(column.dtype), column.unit, column.doc) for column in schema]
    units = {name: (unit.label, unit.divisor) for name, unit in scales(frame, schema).items()}
    return RowsBlock(title, heads, frame.select(schema.names).rows(), units, short_names(frame), note=note)


def summed(frame: pl.DataFrame, value: str) -> pl.DataFrame:
    """name, kind, calls and `value` of each name over ranks and groups, the largest first; those above 0 only."""
    named = frame.with_columns(pl.col("name").fill_null("(no name)"))
    sums = named.group_by("name").agg(pl.col("kind").first(), pl.col("calls", value).sum())
    return sums.filter(pl.col(value) > 0).sort([value, "name"], descending=[True, False])


def concentration_sentence(
    result: Result, value: str, select: Selection, *, what: str, of: str, rows: pl.Expr | None = None
) -> Sentence:
    """A sentence about the few names that make most of a column.

    Args:
        result: an answer with the columns `name`, `kind`, `calls` and `value`.
        value: the column.
        select: the selection that it is the answer for.
        what: the word for a name.
        of: words for the column.
        rows: those that count; None: all.
    """
    counted = pl.lit(value=True) if rows is None else rows

    def by_name(frame: pl.DataFrame) -> pl.DataFrame:
        return summed(frame.filter(counted), value)

    def covering(frame: pl.DataFrame) -> int:
        times = by_name(frame).get_column(value)
        return int((times.cum_sum() < _COVERED_TIME_SHARE * float(times.sum())).sum()) + 1

    whole = computed(result, lambda frame: by_name(frame).get_column(value).sum(), "ns")
    if not whole:
        return nothing(f"{of} of any {what}", select)
    first = computed(result, lambda frame: by_name(frame).get_column(value)[0], "ns")
    leader = computed(result, lambda frame: by_name(frame).get_column("name")[0])
    name = leader.words(f"`{brief(printable(str(leader.value)), _NAME_CELLS)}`")
    every, few = computed(result, lambda frame: by_name(frame).height), computed(result, covering)
    if every.number <= 1:
        return say("One {what} takes all of the {of} ({time}): {name}.", what=what, of=of, time=whole, name=name)
    return say(
        "{few} of {every} {what}s {make} {most} of the {of} ({time}), {name} alone {share}.",
        few=few,
        every=every,
        what=what,
        make="makes" if few.number == 1 else "make",
        most=constant(_COVERED_TIME_SHARE, "fraction").words(f"{_COVERED_TIME_SHARE:.0%}"),
        of=of,
        time=whole,
        name=name,
        share=first / whole,
    )


def ranked(
    title: str,
    frame: pl.DataFrame,
    value: str,
    *,
    schema: Schema,
    kind: str = "",
    link: Callable[[str], Link] | None = None,
    chosen: str = "",
    width: Width = "full",
) -> BarsBlock:
    """Bars of the first ten names, with the share of all; `link` says where a name leads; `kind` is that of all."""
    rows = summed(frame, value)
    total = rows.get_column(value).sum() or 1
    top = [
        (name, kind or own, calls, spent, spent / total)
        for name, own, calls, spent in rows.head(_RANKED_BARS).iter_rows()
    ]
    bars = named_bars(top, link, chosen=chosen)
    more = rows.height - len(bars)
    note = schema[value].doc + (" The table below has the others." if more > 0 else "")
    return BarsBlock(title, bars, schema[value].unit, note=note, width=width)


def named_bars(
    rows: Sequence[tuple[str, str, int | None, float, float]],
    link: Callable[[str], Link] | None = None,
    *,
    chosen: str = "",
) -> list[Bar]:
    """A bar for each name, kind, calls, time and share; labels are short, and tell the bars apart."""
    labels = shortened([name for name, *_ in rows], _LABEL_CELLS)
    return [
        Bar(
            label,
            kind_of(kind) or "host",
            spent,
            share,
            "" if calls is None else f"{grouped(calls)} call{'s' * (calls != 1)}",
            link(name) if link else None,
            name,
            name == chosen,
            calls=calls,
        )
        for label, (name, kind, calls, spent, share) in zip(labels, rows, strict=True)
    ]
