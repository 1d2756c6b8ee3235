"""SQL over the declared tables of a job: what `Job.sql` and `kinetoscope sql` ask.

A query is the user's own, and Polars runs it: it may read files that it names (`read_csv('…')`, `read_parquet('…')`).
Nothing from a trace is ever part of a query.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Final, Protocol

import polars as pl

from kinetoscope.errors import UsageError
from kinetoscope.model.job import RANK, Job, Partial
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.tables.tables import TABLES, table
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Column, Result, Schema

_OTHER_COLUMN: Final = re.compile(r"(?:unable to find column |no column named )[\"']([^\"']*)[\"']")
_OTHER_TABLE: Final = re.compile(r"relation '([^']*)' was not found|no table or struct column named '([^']*)' found")
_PLAN: Final = re.compile(
    r"\s*(?:Resolved plan until failure|This error occurred|Did you mean|; valid columns:).*", re.S
)


class Execute(Protocol):
    """Runs a query over tables; with `check` it only tells the columns of the answer, by a frame without rows."""

    def __call__(self, query: str, tables: Mapping[str, pl.DataFrame], *, check: bool) -> pl.DataFrame:
        """The answer, or its columns."""
        ...


def schema_of(name: str) -> Schema:
    """The columns of a declared table as SQL sees it: with the rank first."""
    return Schema(Column(RANK, pl.Int64, "Rank of the process."), *TABLES[name].schema)


def execute_here(query: str, tables: Mapping[str, pl.DataFrame], *, check: bool) -> pl.DataFrame:
    """In this process."""
    answer = pl.SQLContext({name: table.lazy() for name, table in tables.items()}).execute(query)
    return pl.DataFrame(schema=answer.collect_schema()) if check else answer.collect()


def sql(job: Job, query: str, execute: Execute = execute_here) -> Result:
    """The answer to an SQL query over the declared tables of all ranks; `execute` runs it.

    The query is checked against empty tables first, so that errors come before anything is read. Only tables that it
    names are made. A column of the answer with the name and type of one of theirs has its meaning and unit.

    Raises:
        UsageError: the query is wrong: its grammar, a table, a column, a type.
        InputError: no rank can be read.
    """
    named = [name for name in TABLES if re.search(rf"(?<!\w){name}(?!\w)", query, re.IGNORECASE)]
    empty = {name: schema_of(name).empty() for name in TABLES}
    _run(execute, query, empty, named, check=True)
    answers = {name: job.map(_of_trace, schema_of(name), name=name) for name in named}
    frame = _run(execute, query, empty | {name: answer.frame for name, answer in answers.items()}, named, check=False)
    notes = dict.fromkeys(note for answer in answers.values() for note in answer.notes)
    return Result(frame, _described(frame, named), tuple(notes or job.notes), params={"query": query})


def _of_trace(trace: Trace, select: Selection, *, name: str) -> Partial:  # noqa: ARG001 - as the engine calls it
    return Partial(TABLES[name].schema.conform(table(trace, name)))


def _run(
    execute: Execute, query: str, tables: Mapping[str, pl.DataFrame], named: list[str], *, check: bool
) -> pl.DataFrame:
    try:
        return execute(query, tables, check=check)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, TypeError, OSError) as error:
        raise UsageError(f"SQL: {_reason(str(error), named)}") from error


def _reason(message: str, named: list[str]) -> str:
    """The message of Polars in one line, with suggestions for an unknown table or column."""
    if match := _OTHER_TABLE.search(message):
        unknown = match[1] or match[2]
        return f"there is no table {unknown!r}{_near(unknown, TABLES)}; the tables are {', '.join(TABLES)}"
    if match := _OTHER_COLUMN.search(message):
        columns = dict.fromkeys(column for name in named for column in schema_of(name).names)
        where = ", ".join(f"{name} ({', '.join(schema_of(name).names)})" for name in named)
        return f"there is no column {match[1]!r}{_near(match[1], columns)}; the columns are those of {where}"
    reason = " ".join(_PLAN.sub("", message).split())
    return f"{reason or 'it cannot be run'}; `kinetoscope sql` lists tables and columns"


def _near(word: str, words: Iterable[str]) -> str:
    near = difflib.get_close_matches(word.lower(), list(words), 1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def _described(frame: pl.DataFrame, named: list[str]) -> Schema:
    declared: dict[str, Column] = {}
    for name in reversed(named):
        declared |= {column.name: column for column in schema_of(name)}
    columns = []
    for name, dtype in frame.schema.items():
        known = declared.get(name)
        columns.append(known if known and known.dtype == dtype else Column(name, dtype, ""))
    return Schema(*columns)
