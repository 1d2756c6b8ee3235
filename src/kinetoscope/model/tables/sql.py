"""SQL over the declared tables of a job: what `Job.sql` and `kinetoscope sql` ask.

A query is the user's own, and Polars runs it: it may read files that it names (`read_csv('…')`, `read_parquet('…')`).
Nothing from a trace is ever part of a query.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Protocol, cast

import polars as pl

from kinetoscope.errors import UsageError, nearest
from kinetoscope.model.answer import Partial
from kinetoscope.model.job import RANK, Job, Readable, job_of
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.tables.tables import TABLES, table
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Column, Result, Schema

_OTHER_COLUMN: Final = re.compile(r"(?:unable to find column |no column named )[\"']([^\"']*)[\"']")
_OTHER_TABLE: Final = re.compile(r"relation '([^']*)' was not found|no table or struct column named '([^']*)' found")
_PLAN: Final = re.compile(
    r"\s*(?:Resolved plan until failure|This error occurred|Did you mean|; valid columns:).*", re.S
)


RUN: Final = "run"
"""The column of the run's name, where tables are of several."""


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


def sql(job: Job | Readable | Mapping[str, Job], query: str, execute: Execute = execute_here) -> Result:
    """The answer to an SQL query over the declared tables of all ranks; `execute` runs it.

    Of several runs, by name, each table has the rows of all, and the name in the column `run`, which comes first. The
    query is checked against empty tables first, so that errors come before anything is read. Only tables that it
    names are made. A column of the answer with the name and type of one of theirs has its meaning and unit.

    Raises:
        UsageError: the query is wrong: its grammar, a table, a column, a type.
        InputError: no rank can be read.
    """
    runs = _runs(job)
    if "" in runs:
        return _answer(runs, {name: schema_of(name) for name in TABLES}, query, execute)
    run = Column(RUN, pl.String, "Name of the run.")
    return _answer(runs, {name: Schema(run, *schema_of(name)) for name in TABLES}, query, execute)


def _runs(job: Job | Readable | Mapping[str, Job]) -> Mapping[str, Job]:
    """Runs by name; a single one, which needs none, by ""."""
    if isinstance(job, Mapping) and job and all(isinstance(each, Job) for each in job.values()):
        return cast(Mapping[str, Job], job)
    return {"": job_of(cast("Job | Readable", job))}


def _answer(runs: Mapping[str, Job], schemas: Mapping[str, Schema], query: str, execute: Execute) -> Result:
    named = [name for name in TABLES if re.search(rf"(?<!\w){name}(?!\w)", query, re.IGNORECASE)]
    asked = {name: schemas[name] for name in named}
    empty = {name: schema.empty() for name, schema in schemas.items()}
    _run(execute, query, empty, asked, check=True)
    answers = {name: [job.map(_of_trace, schema_of(name), name=name) for job in runs.values()] for name in named}
    frames = {name: _of_runs([*runs], [each.frame for each in every]) for name, every in answers.items()}
    frame = _run(execute, query, empty | frames, asked, check=False)
    notes = dict.fromkeys(note for every in answers.values() for each in every for note in each.notes)
    of_jobs = dict.fromkeys(note for job in runs.values() for note in job.notes)
    return Result(frame, _described(frame, asked), tuple(notes or of_jobs), params={"query": query})


def _of_runs(names: Sequence[str], frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """One table of several runs; that of a run without a name as it is. Only runs of several cycles number them."""
    named = [
        frame.select(pl.lit(name).alias(RUN), pl.all()) if name else frame
        for name, frame in zip(names, frames, strict=True)
    ]
    return pl.concat(named, how="diagonal") if len(named) > 1 else named[0]


def _of_trace(trace: Trace, select: Selection, *, name: str) -> Partial:  # noqa: ARG001 - as the engine calls it
    return Partial(TABLES[name].schema.conform(table(trace, name)))


def _run(
    execute: Execute, query: str, tables: Mapping[str, pl.DataFrame], named: Mapping[str, Schema], *, check: bool
) -> pl.DataFrame:
    try:
        return execute(query, tables, check=check)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, TypeError, OSError) as error:
        raise UsageError(f"SQL: {_reason(str(error), named)}") from error


def _reason(message: str, named: Mapping[str, Schema]) -> str:
    """The message of Polars in one line, with suggestions for an unknown table or column."""
    if match := _OTHER_TABLE.search(message):
        unknown = match[1] or match[2]
        return f"there is no table {unknown!r}{nearest(unknown, TABLES)}; the tables are {', '.join(TABLES)}"
    if match := _OTHER_COLUMN.search(message):
        columns = dict.fromkeys(column for schema in named.values() for column in schema.names)
        where = ", ".join(f"{name} ({', '.join(schema.names)})" for name, schema in named.items())
        return f"there is no column {match[1]!r}{nearest(match[1], columns)}; the columns are those of {where}"
    reason = " ".join(_PLAN.sub("", message).split())
    return f"{reason or 'it cannot be run'}; `kinetoscope sql` lists tables and columns"


def _described(frame: pl.DataFrame, named: Mapping[str, Schema]) -> Schema:
    declared: dict[str, Column] = {}
    for schema in reversed([*named.values()]):
        declared |= {column.name: column for column in schema}
    columns = []
    for name, dtype in frame.schema.items():
        known = declared.get(name)
        columns.append(known if known and known.dtype == dtype else Column(name, dtype, ""))
    return Schema(*columns)
