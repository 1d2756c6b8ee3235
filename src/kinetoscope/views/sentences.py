"""Sentences that carry the cells that their numbers and names come from.

`say` is the only way to write a sentence with data in it. Its template is a literal; what it fills in is a quantity,
which knows its cell, or words without digits. So no number stands in a sentence that cannot be looked up in a table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

import polars as pl

from kinetoscope.schema import Result, Unit
from kinetoscope.views.numbers import shown
from kinetoscope.views.text import printable

How = Literal["only", "sum", "mean", "least", "greatest", "rows", "each", "different", "note"]
"""How the values of the chosen rows become one: the only row's; their sum, mean, least, greatest; how many rows there
are; all of them, as a tuple; how many different ones. A note is no row: `column` is its text."""

Value: TypeAlias = float | str | tuple[Any, ...] | None
"""A number or a name as its table stores it; None: it is not known."""

Ask: TypeAlias = Callable[[str, Mapping[str, Any]], Result]
"""Answers an analysis, by name and parameters."""


@dataclass(frozen=True, slots=True, eq=False)
class TableCell:
    """A column of some rows of an answer, made one value.

    Attributes:
        analysis, params: the answer: name of its analysis and what it was asked with, its selection too.
        column: of the value.
        where: the rows; None: all.
        how: how their values become one.
        table: the answer itself, where no analysis has that name: a table of a page or of several runs.
    """

    analysis: str
    params: Mapping[str, Any]
    column: str
    where: pl.Expr | None = None
    how: How = "only"
    table: Result | None = None

    def look_up(self, ask: Ask) -> Value:
        """The value, in a new answer."""
        result = ask(self.analysis, self.params) if self.table is None else self.table
        if self.how == "note":
            return self.column if self.column in result.sentences else None
        return _value(result.frame, self)


@dataclass(frozen=True, slots=True, eq=False)
class Combination:
    """A sum, a difference or a ratio of two sources."""

    operation: Literal["+", "-", "/"]
    left: Source
    right: Source

    def look_up(self, ask: Ask) -> Value:
        """The value, of new answers."""
        left, right = self.left.look_up(ask), self.right.look_up(ask)
        return _combined(self.operation, left, right)


@dataclass(frozen=True, slots=True, eq=False)
class Computed:
    """What a function makes of the rows of an answer: a median, how many names make most of a column.

    Attributes:
        analysis, params, table: the answer, as of a `TableCell`.
        function: of its frame; the same rows give the same value.
    """

    analysis: str
    params: Mapping[str, Any]
    function: Callable[[pl.DataFrame], Any]
    table: Result | None = None

    def look_up(self, ask: Ask) -> Value:
        """The value, of a new answer."""
        result = ask(self.analysis, self.params) if self.table is None else self.table
        return self.function(result.frame)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Given:
    """A number of ours, such as a limit: no table has it."""

    value: Value

    def look_up(self, _: Ask) -> Value:
        """The value."""
        return self.value


Source: TypeAlias = TableCell | Combination | Computed | Given
"""Where a quantity can be looked up."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number, a name or a who in a sentence.

    Attributes:
        value: as its table stores it: nanoseconds, bytes, a share of 1.
        unit: of it.
        text: as the sentence shows it.
        source: where it can be looked up; None: a rule measured it, and it is a fact of its finding, in the table of
            `advise`, under its name.
        name: what it is called in the sentence's template.
    """

    value: Value
    unit: Unit
    text: str
    source: Source | None = None
    name: str = ""

    def __str__(self) -> str:
        return self.text

    def __format__(self, _: str) -> str:
        return self.text

    def __bool__(self) -> bool:
        return bool(self.value)

    @property
    def number(self) -> float:
        """Its value as a number; 0 where it is not known or none."""
        return float(self.value) if isinstance(self.value, (int, float)) else 0.0

    def __float__(self) -> float:
        return self.number

    def __add__(self, other: Quantity) -> Quantity:
        return _of_two("+", self, other, self.unit)

    def __sub__(self, other: Quantity) -> Quantity:
        return _of_two("-", self, other, self.unit)

    def __truediv__(self, other: Quantity) -> Quantity:
        return _of_two("/", self, other, "fraction" if self.unit == other.unit else self.unit)

    def words(self, text: str) -> Quantity:
        """The same quantity in other words: `2.5 copies a step`, `under 1%`."""
        return replace(self, text=text)


class Sentence(str):
    """A text that carries the quantities in it."""

    __slots__ = ("quantities",)

    quantities: tuple[Quantity, ...]

    def __new__(cls, text: str = "", quantities: Iterable[Quantity] = ()) -> Sentence:
        """`text`, which shows `quantities`."""
        sentence = super().__new__(cls, text)
        sentence.quantities = tuple(quantities)
        return sentence

    def __getnewargs__(self) -> tuple[str, tuple[Quantity, ...]]:  # type: ignore[override]
        return str(self), self.quantities

    def capitalized(self) -> Sentence:
        """The same with a capital first letter."""
        return Sentence(self[:1].upper() + self[1:], self.quantities)


EMPTY: Final = Sentence()
"""No sentence."""

_NAMES: Final = re.compile(r"`[^`]*`")


def say(template: str, **parts: Quantity | str) -> Sentence:
    """`template`, a literal with names in braces, filled in with quantities, sentences, and words.

    Raises:
        TypeError: words hold a digit outside of backquotes: a number without a cell.
    """
    quantities: list[Quantity] = []
    texts = {}
    for name, part in parts.items():
        texts[name] = str(part)
        if isinstance(part, Quantity):
            quantities.append(replace(part, name=name))
        elif isinstance(part, Sentence):
            quantities += part.quantities
        elif any(each.isdigit() for each in _NAMES.sub("", part)):
            raise TypeError(f"{name} of a sentence is {part!r}: a number needs a cell (see cell, total, measured)")
    return Sentence(template.format_map(texts), quantities)


def code(text: str) -> str:
    """A name between backquotes, as words of a sentence: without line breaks and backquotes of its own."""
    return f"`{printable(' '.join(text.split())).replace('`', chr(39))}`"


def join(sentences: Iterable[str], between: str = " ") -> Sentence:
    """Sentences as one; empty ones are left out."""
    kept = [each for each in sentences if each]
    return Sentence(between.join(kept), [q for each in kept if isinstance(each, Sentence) for q in each.quantities])


def part(whole: str, text: str) -> Sentence:
    """A piece of a text, with those of its quantities that it shows."""
    quantities = whole.quantities if isinstance(whole, Sentence) else ()
    return Sentence(text, [each for each in quantities if each.text in text])


# --- quantities


def cell(result: Result, column: str, *where: pl.Expr, **equal: Any) -> Quantity:
    """The value of `column` in the only row of an answer for which all conditions hold.

    Args:
        result: an answer of an analysis.
        column: of its frame.
        where: conditions on its rows.
        equal: columns and the values that they have.

    Raises:
        LookupError: there are no or several such rows.
    """
    return _quantity(result, column, where, equal, "only")


def total(result: Result, column: str, *where: pl.Expr, **equal: Any) -> Quantity:
    """The sum of `column` over the rows for which all conditions hold, as `cell` has them."""
    return _quantity(result, column, where, equal, "sum")


def mean(result: Result, column: str, *where: pl.Expr, **equal: Any) -> Quantity:
    """The mean of `column` over such rows; None where there are none."""
    return _quantity(result, column, where, equal, "mean")


def least(result: Result, column: str, *where: pl.Expr, **equal: Any) -> Quantity:
    """The least value of `column` over such rows."""
    return _quantity(result, column, where, equal, "least")


def greatest(result: Result, column: str, *where: pl.Expr, **equal: Any) -> Quantity:
    """The greatest value of `column` over such rows."""
    return _quantity(result, column, where, equal, "greatest")


def count(result: Result, *where: pl.Expr, **equal: Any) -> Quantity:
    """How many such rows there are."""
    return _quantity(result, "", where, equal, "rows")


def different(result: Result, column: str, *where: pl.Expr, **equal: Any) -> Quantity:
    """How many different values `column` has in such rows."""
    return _quantity(result, column, where, equal, "different")


def each(result: Result, column: str, *where: pl.Expr, **equal: Any) -> Quantity:
    """All values of `column` in such rows, as a tuple; `words` says how they are listed."""
    return _quantity(result, column, where, equal, "each")


def computed(result: Result, function: Callable[[pl.DataFrame], Any], unit: Unit = "") -> Quantity:
    """What a function makes of the rows of an answer, where no single column has it."""
    value = function(result.frame)
    table = None if result.analysis else result
    return Quantity(value, unit, _text(value, unit), Computed(result.analysis, result.params, function, table))


def note_of(result: Result, note: str) -> Quantity:
    """A note of an answer, or its sentence, whole: what it leaves out is said by its analysis, and looked up there."""
    return Quantity(note, "", note, TableCell(result.analysis, result.params, note, how="note"))


def constant(value: float, unit: Unit = "") -> Quantity:
    """A number of ours: how many rows a page has room for, the share from which on something is said."""
    return Quantity(value, unit, shown(value, unit), Given(value))


def measured(value: float | int | None, unit: Unit = "") -> Quantity:
    """A number that a rule measured itself. It becomes a fact of its finding, named as the part of the sentence is."""
    return Quantity(value, unit, shown(value, unit))


def _quantity(result: Result, column: str, where: tuple[pl.Expr, ...], equal: Mapping[str, Any], how: How) -> Quantity:
    conditions = [*where, *(pl.col(name).eq_missing(pl.lit(value)) for name, value in equal.items())]
    rows = pl.all_horizontal(conditions) if conditions else None
    table = None if result.analysis else result
    source = TableCell(result.analysis, result.params, column, rows, how, table)
    value = _value(result.frame, source)
    unit: Unit = result.schema[column].unit if how not in ("rows", "different") else ""
    return Quantity(value, unit, _text(value, unit), source)


def _text(value: Value, unit: Unit) -> str:
    if isinstance(value, tuple):
        return ", ".join(_text(each, unit) for each in value)
    return printable(" ".join(value.split())) if isinstance(value, str) else shown(value, unit)


def _value(frame: pl.DataFrame, cell: TableCell) -> Value:
    rows = frame if cell.where is None else frame.filter(cell.where)
    if cell.how == "rows":
        return rows.height
    values = rows.get_column(cell.column)
    if cell.how == "only":
        if len(values) != 1:
            raise LookupError(f"{cell.analysis} has {len(values)} rows for {cell.column} where {cell.where}, not one")
        return values.item()  # type: ignore[no-any-return]
    if cell.how == "each":
        return tuple(values.to_list())
    made: dict[str, Callable[[], Any]] = {
        "sum": values.sum,
        "mean": values.mean,
        "least": values.min,
        "greatest": values.max,
        "different": values.n_unique,
    }
    return made[cell.how]()  # type: ignore[no-any-return]


def _of_two(operation: Literal["+", "-", "/"], left: Quantity, right: Quantity, unit: Unit) -> Quantity:
    value = _combined(operation, left.value, right.value)
    known = left.source is not None and right.source is not None
    source = Combination(operation, left.source, right.source) if known else None  # type: ignore[arg-type]
    return Quantity(value, unit, _text(value, unit), source)


def _combined(operation: Literal["+", "-", "/"], left: Value, right: Value) -> float | None:
    if not isinstance(left, (int, float)) or not isinstance(right, (int, float)):
        return None
    if operation == "/":
        return left / right if right else None
    return left + right if operation == "+" else left - right
