"""Tables: columns that know their type, unit and meaning, parameters, and the result of an analysis.

Everything that a face (terminal, page, report, docs) shows about a table comes from here, so that no face knows an
analysis by name.
"""

from __future__ import annotations

import functools
import inspect
import os
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, SupportsFloat, SupportsIndex

import polars as pl

from kinetoscope import dispatch
from kinetoscope.charts import Chart
from kinetoscope.errors import MissingExtraError, UsageError, nearest
from kinetoscope.notes import Note

if TYPE_CHECKING:
    import pandas

Unit = Literal["", "ns", "bytes", "bytes/s", "flop", "flop/s", "fraction"]
"""Of a column's numbers as stored: nanoseconds; bytes and floating-point operations, in all or a second; a share of 1;
"" is a plain count or text."""

DType = pl.DataType | type[pl.DataType]

OverRanks = Literal["each", "sum", "mean", "min", "max"]
"""How rows of several ranks become one; `each`: they do not."""


@dataclass(frozen=True, slots=True)
class RatioOf:
    """Over ranks the ratio of two columns, each summed."""

    part: str
    whole: str


@dataclass(frozen=True, slots=True)
class ShareOf:
    """Over ranks the sum of the column `part` / the sum of the wholes, which are in no column: part / share.

    A whole is that of a rank and device, and of each value of the columns `within`.
    """

    part: str
    within: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MeanBy:
    """Over ranks the mean weighted by the column `weight`; where that is null, by `otherwise`."""

    weight: str
    otherwise: str = ""


@dataclass(frozen=True, slots=True)
class KeyIf:
    """A key if the parameter has this value; else as `agreed`."""

    parameter: str
    value: str


Across = Literal["key", "device", "sum", "least", "greatest", "agreed", "own"] | RatioOf | ShareOf | MeanBy | KeyIf
"""How a column's values of several ranks become one, if rows are summed over ranks.

key: rows that agree in all keys are one row; device: numbers of devices are left out, of named devices the kind is a
key; sum: values add up; least, greatest: the least or greatest value of any rank; agreed: the value if all ranks have
the same, else null; own: it is each rank's own, and is left out.
"""


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        name: its name, an identifier.
        dtype: its Polars type.
        doc: what it means, in one sentence.
        unit: of its numbers.
        instant: its nanoseconds are a place on the trace's time axis, not a duration: views do not round them away.
        across: how values of several ranks become one; None for text, a key, for flags, which are agreed, and for
            tables that are not summed over ranks.
    """

    name: str
    dtype: DType
    doc: str
    unit: Unit = ""
    instant: bool = False
    across: Across | None = None


class Schema:
    """An ordered set of columns with distinct names.

    Attributes:
        columns: the columns, in order.
    """

    __slots__ = ("columns",)

    def __init__(self, *columns: Column, across: Mapping[Across, str] | None = None) -> None:
        """`across`: the names, parted by spaces, of the columns to which each rule over ranks applies."""
        names = [column.name for column in columns]
        if len(set(names)) != len(names):
            raise ValueError(f"a schema names a column twice: {names}")
        rules = {name: rule for rule, listed in (across or {}).items() for name in listed.split()}
        if unknown := rules.keys() - set(names):
            raise ValueError(f"a schema has rules for columns that it does not have: {sorted(unknown)}")
        self.columns: tuple[Column, ...] = tuple(
            replace(column, across=rules[column.name]) if column.name in rules else column for column in columns
        )

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __contains__(self, name: object) -> bool:
        return any(column.name == name for column in self.columns)

    def __getitem__(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    def __repr__(self) -> str:
        return f"Schema({', '.join(self.names)})"

    @property
    def names(self) -> list[str]:
        """Names of the columns, in order."""
        return [column.name for column in self.columns]

    def without(self, *names: str) -> Schema:
        """The same schema less the named columns."""
        return Schema(*(column for column in self.columns if column.name not in names))

    def only(self, names: Sequence[str]) -> Schema:
        """The columns named, in the order of `names`."""
        return Schema(*(self[name] for name in names))

    @property
    def per_rank(self) -> Schema:
        """The columns of the answer of one rank: all but `rank`, which the job adds."""
        return self.without("rank")

    @property
    def types(self) -> pl.Schema:
        """The type of each column by name, as Polars takes them."""
        return pl.Schema({column.name: column.dtype for column in self.columns})

    def frame(self, rows: Sequence[Sequence[Any] | Mapping[str, Any]] = ()) -> pl.DataFrame:
        """A frame of these columns from rows of values, in order or by name."""
        return pl.DataFrame(rows, schema=self.types, orient="row")

    def empty(self) -> pl.DataFrame:
        """A frame of these columns with no rows."""
        return self.frame()

    def conform(self, frame: pl.DataFrame) -> pl.DataFrame:
        """`frame` with exactly these columns, in this order, of these types.

        Enum columns become text here, because the Enums of two ranks have different categories and cannot be joined.

        Raises:
            ValueError: a declared column is missing, or the frame has one that is not declared.
        """
        if set(frame.columns) != set(self.names):
            missing = sorted(set(self.names) - set(frame.columns))
            extra = sorted(set(frame.columns) - set(self.names))
            raise ValueError(f"frame does not fit its schema: missing {missing}, undeclared {extra}")
        return frame.select(pl.col(column.name).cast(column.dtype) for column in self.columns)


@dataclass(frozen=True, slots=True)
class Param:
    """What a parameter of an analysis means, for `Annotated[type, Param(...)]`."""

    doc: str
    unit: Unit = ""
    check: Callable[[Any], object] | None = None
    """Raises UsageError for a value of the right type that it cannot have."""

    least: int | None = None
    most: int | None = None
    """Bounds of a number."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of an analysis, as its signature declares it."""

    name: str
    type: type
    default: Any
    doc: str
    unit: Unit
    check: Callable[[Any], object] | None = None
    least: int | None = None
    most: int | None = None

    @property
    def choices(self) -> tuple[str, ...]:
        """The texts that it can be; none where anything of its type is one."""
        return typing.get_args(self.type) if typing.get_origin(self.type) is Literal else ()

    def fits(self, value: object) -> bool:
        """Whether it can have this value; a whole number may be of any kind, as those of NumPy."""
        if self.choices:
            return value in self.choices
        kinds = _kinds(self.type)
        if isinstance(value, bool) or not isinstance(value, SupportsIndex):
            return isinstance(value, kinds) or (isinstance(value, SupportsFloat) and float in kinds)
        number = value.__index__()
        is_within = (self.least is None or self.least <= number) and (self.most is None or number <= self.most)
        return is_within and (int in kinds or float in kinds)

    @property
    def can_be(self) -> str:
        """What it can be, for a message."""
        if self.choices:
            return ", ".join(self.choices)
        unit = f" of {self.unit}" if self.unit else ""
        words = {int: f"a whole number{unit}", float: f"a number{unit}", str: "text", bool: "True or False"}
        ends = [f", {end:,} or {way}" for end, way in ((self.least, "more"), (self.most, "less")) if end is not None]
        return " or ".join(words.get(kind, "None") for kind in _kinds(self.type)) + "".join(ends)


@functools.lru_cache(256)
def parameters_of(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    """The parameters that a function declares: its keywords, each `Annotated[type, Param(...)]`."""
    hints = typing.get_type_hints(function, include_extras=True)
    declared = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY:
            base, *facts = typing.get_args(hints[name])
            param = next(fact for fact in facts if isinstance(fact, Param))
            facts_of_param = (param.doc, param.unit, param.check, param.least, param.most)
            declared.append(Parameter(name, base, parameter.default, *facts_of_param))
    return tuple(declared)


def _kinds(declared: Any) -> tuple[type, ...]:
    """The types that a parameter can be; a Literal is text."""
    return tuple(each for each in typing.get_args(declared) or (declared,) if isinstance(each, type)) or (str,)


@dataclass(frozen=True, repr=False)
class Result:
    """What an analysis answers: a frame, its schema, and what the numbers leave out.

    Attributes:
        frame: the rows; times are integer nanoseconds, sizes bytes, shares fractions of 1; what is not known is null.
        schema: type, unit and meaning of each column of `frame`.
        notes: what was left out, assumed or odd, one sentence each, with a code.
        analysis: name of the analysis that made it, "" for a table that none made.
        params: the parameters it was asked with, as text-like values.
        chart_facts: how it is drawn, if it is.
        sentence: the answer in a sentence, "" where none is made.
    """

    frame: pl.DataFrame
    schema: Schema
    notes: tuple[Note, ...] = ()
    analysis: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    chart_facts: Chart | None = None
    sentence: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "notes", tuple(map(Note.of, self.notes)))

    def __len__(self) -> int:
        return self.frame.height

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows, each as a dictionary by column, as `frame.iter_rows(named=True)` gives them."""
        return self.frame.iter_rows(named=True)

    def __contains__(self, column: object) -> bool:
        return column in self.frame.columns

    @typing.overload
    def __getitem__(self, which: str) -> pl.Series: ...

    @typing.overload
    def __getitem__(self, which: pl.Expr | pl.Series | list[str] | slice | int) -> pl.DataFrame: ...

    def __getitem__(self, which: Any) -> pl.Series | pl.DataFrame:
        """As of a Polars frame: `["name"]`, `[["name", "calls"]]`, `[:10]`; and the rows with `[pl.col("calls") > 10]`.

        What comes is Polars' own: units, meanings and notes stay here.

        Raises:
            UsageError: there is no such column.
        """
        by_name = isinstance(which, str) or (isinstance(which, list) and all(isinstance(each, str) for each in which))
        for name in [which] if isinstance(which, str) else which if by_name else ():
            if name not in self.frame.columns:
                columns = self.frame.columns
                raise UsageError(f"there is no column {name!r}{nearest(name, columns)}; there are {', '.join(columns)}")
        if isinstance(which, pl.Expr) or (isinstance(which, pl.Series) and which.dtype == pl.Boolean):
            return self.frame.filter(which)
        picked: pl.Series | pl.DataFrame = self.frame[which]
        return picked

    @property
    def columns(self) -> list[str]:
        """Names of the columns, in order."""
        return self.frame.columns

    @property
    def sentences(self) -> tuple[str, ...]:
        """All that is to be said beside the rows: the answer in a sentence, if there is one, and the notes."""
        return (*filter(None, [self.sentence]), *self.notes)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file or a URL, in the format of its ending: .csv, .json, .parquet, .xlsx, .md.

        Raises:
            UsageError: the ending is none of these, or there are too many rows for a sheet.
            MissingExtraError: what writes it is not installed.
            InputError: it cannot be written.
        """
        dispatch.call("save", self, path)

    def __repr__(self) -> str:
        of = f" of {self.analysis}" if self.analysis else ""
        rows = f"{len(self):,} row{'s' * (len(self) != 1)}"
        return f"<Result{of}: {rows} of {', '.join(self.schema.names)}; print() shows them>"

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a pandas frame; a nullable integer column keeps its integers (Arrow-backed).

        Raises:
            MissingExtraError: pandas or pyarrow is not installed.
        """
        try:
            return self.frame.to_pandas(use_pyarrow_extension_array=True)
        except ModuleNotFoundError as error:
            raise MissingExtraError("to_pandas()", "pandas") from error

    def chart(self) -> dict[str, Any]:
        """The Vega-Lite specification that draws this result, its data included; a notebook shows the chart.

        Raises:
            UsageError: nothing says how this result is drawn.
        """
        if self.chart_facts is None:
            raise UsageError(f"{self.analysis or 'this result'} has no chart; its rows are in .frame")
        drawn: dict[str, Any] = dispatch.call("chart", self)
        return drawn

    def __str__(self) -> str:
        return dispatch.text(self)

    def _repr_html_(self) -> str:
        return dispatch.html(self)

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        # A front end shows one of what it is offered, so the HTML holds the chart.
        return {"text/plain": dispatch.text(self), "text/html": dispatch.html(self)}
