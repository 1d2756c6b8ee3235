"""Rows of several ranks as one: each column becomes what its declaration says (`Column.across`).

Rows are joined that agree in all keys, whatever their rank, cycle and device. A mean is the sum divided by the number
of recordings (rank, cycle and device) that have the row; what does not add up, as ratios and means of calls, is the
same with both. With `min` and `max` each column has the least or greatest value of the rows: a row is of no one rank.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import polars as pl

from kinetoscope.charts import Bars, Chart, Lines, Roofline, StackedBars, drawn_columns
from kinetoscope.notes import Note
from kinetoscope.schema import Across, Column, KeyIf, MeanBy, OverRanks, RatioOf, Result, Schema, ShareOf

RANKS: Final = Column("ranks", pl.Int64, "How many ranks have the row.")

_RECORDING: Final = ("rank", "cycle")
_MEMBER: Final = "__member"
"""Column of rank, cycle and device of a row, while rows are joined."""

_WORDS: Final[dict[str, str]] = {"sum": "Sum", "mean": "Mean", "min": "Least value", "max": "Greatest value"}


@dataclass(frozen=True)
class _Rules:
    """Expressions for the columns of a result, but those of rank and cycle."""

    columns: Mapping[str, Column]
    rules: Mapping[str, Across]

    def named(self, *kinds: Across) -> list[str]:
        return [name for name, rule in self.rules.items() if rule in kinds]


def over_ranks(result: Result, how: OverRanks, ranks: int) -> Result:
    """`result` with the rows of all ranks joined; `how` is not `each`.

    Args:
        result: of an analysis that declares how its columns become one.
        how: what becomes of them.
        ranks: those that were asked; some may have no row.
    """
    rules = _rules(result)
    devices = rules.named("device")
    frame = result.frame.with_columns(
        pl.struct(*(name for name in (*_RECORDING, *devices) if name in result.frame.columns)).alias(_MEMBER)
    )
    wholes = {name: _wholes(frame, name, rule) for name, rule in rules.rules.items() if isinstance(rule, ShareOf)}
    kinds = [name for name in devices if rules.columns[name].dtype == pl.String]
    frame = frame.with_columns(pl.col(name).str.replace(r":\d+$", "") for name in kinds)
    keys = [name for name, rule in rules.rules.items() if rule == "key" or name in kinds]
    columns = [column for name, column in rules.columns.items() if name in keys or _is_kept(column, rules, how)]
    values = [column for column in columns if column.name not in keys]
    groups = frame.group_by(keys, maintain_order=True) if keys else frame.group_by(pl.lit(0).alias("__all"))
    joined = groups.agg(
        pl.col("rank").n_unique().cast(pl.Int64).alias(RANKS.name),
        pl.col(_MEMBER).n_unique().alias(_MEMBER),
        *(_value(column, rules.rules[column.name], how).alias(column.name) for column in values),
    )
    if how in ("sum", "mean"):
        for divided in wholes.values():
            joined = divided(joined)
        if how == "mean":
            joined = joined.with_columns(_mean(rules.columns[name]) for name in rules.named("sum"))
    schema = Schema(RANKS, *(_declared(column, rules.rules[column.name], how) for column in columns))
    chart = _chart(result.chart_facts, schema)
    joined = schema.conform(_sorted(joined, chart).select(schema.names))
    notes = (*_notes(result, joined, rules, keys, columns, how, ranks), *result.notes)
    return replace(result, frame=joined, schema=schema, notes=notes, chart_facts=chart)


def _rules(result: Result) -> _Rules:
    columns = {column.name: column for column in result.schema if column.name not in _RECORDING}
    return _Rules(columns, {name: _rule(column, result.params) for name, column in columns.items()})


def _rule(column: Column, params: Mapping[str, Any]) -> Across:
    """The declared rule; text is a key, a flag agreed, and a number of which nothing is declared each rank's own."""
    rule = column.across
    if isinstance(rule, KeyIf):
        return "key" if params.get(rule.parameter) == rule.value else "agreed"
    if rule is not None:
        return rule
    return "key" if column.dtype == pl.String else "agreed" if column.dtype == pl.Boolean else "own"


def _is_number(column: Column) -> bool:
    return column.dtype in (pl.Int64, pl.Float64) and not column.instant


def _is_kept(column: Column, rules: _Rules, how: OverRanks) -> bool:
    """True if the joined rows have it; of a number there is always a least and a greatest value."""
    rule = rules.rules[column.name]
    return rule != "device" and (rule != "own" or (how in ("min", "max") and _is_number(column)))


def _value(column: Column, rule: Across, how: OverRanks) -> pl.Expr:
    """The value of joined rows; of shares the sum of the parts, until they are divided by the wholes."""
    this = pl.col(column.name)
    if rule == "agreed":
        first = this.first()
        return first if isinstance(column.dtype, pl.List) else pl.when(this.n_unique() == 1).then(first)
    if how in ("min", "max"):
        return this.min() if how == "min" else this.max()
    if rule in ("least", "greatest"):
        return this.min() if rule == "least" else this.max()
    if isinstance(rule, RatioOf):
        known = pl.col(rule.part).is_not_null() & pl.col(rule.whole).is_not_null()
        part, whole = (_sum(pl.col(name).filter(known)) for name in (rule.part, rule.whole))
        return pl.when(whole != 0).then(part / whole)
    if isinstance(rule, MeanBy):
        weight = pl.coalesce(rule.weight, rule.otherwise) if rule.otherwise else pl.col(rule.weight)
        known = this.is_not_null() & weight.is_not_null()
        whole = _sum(weight.filter(known))
        mean = pl.when(whole != 0).then(_sum((this * weight).filter(known)) / whole)
        return mean.round() if column.dtype == pl.Int64 else mean
    return _sum(pl.col(rule.part) if isinstance(rule, ShareOf) else this)


def _sum(values: pl.Expr) -> pl.Expr:
    """The sum of those that are known; null where none is."""
    return pl.when(values.count() > 0).then(values.sum())


def _wholes(frame: pl.DataFrame, name: str, rule: ShareOf) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """Denominators of shares (part / share), summed over all ranks, also those that lack a row.

    A whole is part / share of the row with the largest part, rounded: exact up to 2^52.
    """
    known = frame.filter((pl.col(name) != 0) & pl.col(name).is_finite())
    whole = (pl.col(rule.part) / pl.col(name)).sort_by(pl.col(rule.part).abs()).last().round()
    of_member = known.group_by(_MEMBER, *rule.within).agg(whole.alias("__whole"))

    def divided(joined: pl.DataFrame) -> pl.DataFrame:
        if not rule.within:
            total = of_member["__whole"].sum()
            return joined.with_columns(pl.col(name) / total if total else pl.lit(None, pl.Float64).alias(name))
        totals = of_member.group_by(*rule.within).agg(pl.col("__whole").sum())
        both = joined.join(totals, on=list(rule.within), how="left", nulls_equal=True, maintain_order="left")
        return both.with_columns(pl.col(name) / pl.col("__whole")).drop("__whole")

    return divided


def _mean(column: Column) -> pl.Expr:
    mean = pl.col(column.name) / pl.col(_MEMBER)
    return (mean.round() if column.unit and column.dtype == pl.Int64 else mean).alias(column.name)


def _declared(column: Column, rule: Across, how: OverRanks) -> Column:
    """The column with its meaning over ranks, and room for a mean of counts."""
    if rule in ("key", "device", "agreed"):
        return replace(column, doc=f"{column.doc} Null if ranks differ.") if rule == "agreed" else column
    if how in ("min", "max"):
        return replace(column, doc=f"{column.doc} {_WORDS[how]} of the ranks.")
    if rule == "sum":
        dtype = pl.Float64 if how == "mean" and not column.unit else column.dtype
        return replace(column, dtype=dtype, doc=f"{column.doc} {_WORDS[how]} over ranks.")
    words = {"least": "Least of all ranks.", "greatest": "Greatest of all ranks."}.get(str(rule), "")
    if isinstance(rule, MeanBy):
        words = f"Mean over ranks, weighted by {rule.weight}."
    return replace(column, doc=f"{column.doc} {words or 'Ratio of the sums over ranks.'}")


def _chart(chart: Chart | None, schema: Schema) -> Chart | None:
    """The chart, if all that it draws is still there."""
    if chart is None or isinstance(chart, Lines):
        return None
    return chart if all(name in schema for name in drawn_columns(chart)) else None


def _sorted(frame: pl.DataFrame, chart: Chart | None) -> pl.DataFrame:
    """The rows in order: the largest first, as the chart has it; steps in their order; else as ranks have them."""
    if isinstance(chart, Bars):
        by = [chart.value, *([chart.instead] if chart.instead else [])]
        return frame.sort(by, descending=True, nulls_last=True, maintain_order=True)
    if isinstance(chart, Roofline):
        return frame.sort(chart.time, descending=True, nulls_last=True, maintain_order=True)
    return frame.sort(chart.category, maintain_order=True) if isinstance(chart, StackedBars) else frame


def _notes(
    result: Result,
    joined: pl.DataFrame,
    rules: _Rules,
    keys: Sequence[str],
    columns: Sequence[Column],
    how: OverRanks,
    ranks: int,
) -> Iterator[Note]:
    if not len(joined):
        return
    present_ranks = result.frame["rank"].n_unique()
    named_keys = [key for key in keys if joined[key].null_count() < len(joined)]
    yield _of_which_ranks(result.frame, present_ranks, ranks, named_keys, how)
    lacking = joined.filter(pl.col(RANKS.name) < present_ranks).height
    if lacking:
        mean = "; a mean is over those that have it" if how == "mean" else ""
        yield Note(
            "NOT_ON_EVERY_RANK",
            f"{lacking:,} of {len(joined):,} rows are not on every rank: `ranks` says how many have the row{mean}.",
        )
    if how in ("min", "max"):
        yield Note("OF_NO_ONE_RANK", f"Each column has its own {_WORDS[how].lower()}: a row is of no one rank.")
    if left_out := _left_out(result.frame, rules, {*keys, *(column.name for column in columns)}):
        yield Note(
            "COLUMNS_LEFT_OUT",
            f"Left out, as they do not follow from those of the ranks: {', '.join(left_out)}; min and max have them.",
        )
    unknown = [name for name in rules.named("sum") if _known_on_some(result.frame, name)]
    if unknown:
        yield Note("KNOWN_ON_SOME_RANKS", f"Known on some ranks only, and counted there: {', '.join(unknown)}.")


def _of_which_ranks(frame: pl.DataFrame, present_ranks: int, ranks: int, keys: Sequence[str], how: OverRanks) -> Note:
    """The ranks, files and keys of the joined rows, as a note: `Sum over 3 of 4 ranks, by kind`."""
    of_all = f"{present_ranks} of {ranks}" if present_ranks < ranks else f"{ranks}"
    files = frame.select(name for name in _RECORDING if name in frame.columns).n_unique()
    cycles = f" ({files} files, a file a cycle)" if files > present_ranks else ""
    by = f", by {_listing(keys)}" if keys else ""
    return Note("OVER_RANKS", f"{_WORDS[how]} over {of_all} rank{'s' * (ranks != 1)}{cycles}{by}.")


def _left_out(frame: pl.DataFrame, rules: _Rules, present: Collection[str]) -> list[str]:
    """Columns of each rank's own that are not among those present; none if they have no value at all."""
    own = [name for name in rules.named("own") if name not in present and not rules.columns[name].instant]
    has_values = bool(own) and frame.select(pl.any_horizontal(pl.col(own).is_not_null().any())).item()
    return own if has_values else []


def _known_on_some(frame: pl.DataFrame, name: str) -> bool:
    """True if ranks have no value in a column that others have."""
    known = frame.group_by(*(each for each in _RECORDING if each in frame.columns)).agg(
        pl.col(name).is_not_null().any()
    )
    return known[name].any() and not known[name].all()


def _listing(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
