"""A job: the traces of one run, one for each rank, and how a question is put to all of them.

A Job is handed its reader and its engine; it knows how to ask, not how to read or where the work runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import polars as pl

from kinetoscope.errors import InputError, UsageError
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.steps.selection import ALL, Selection
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.names import listed
from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.symptoms import Health
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Column, Result, Schema

RANK = "rank"

CYCLE: Final = Column("cycle", pl.Int64, "Cycle of the profiler's schedule, from 0, in order of time.")

_REASONS: Final = 5
"""Of ranks that cannot be read so many reasons are told."""

_BEYOND: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class Partial:
    """What a per-rank function answers: its rows, and what they leave out."""

    frame: pl.DataFrame
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """A rank that could not be read or asked: the message of the error, and whether the question is what is wrong."""

    message: str
    usage: bool = False


@derived
def damage_of(trace: Trace) -> str:
    """That data was lost, and what may be missing because of that; "" where none was."""
    damage = Health(trace.reading).damage
    if damage and not len(device_work(trace)):
        return f"{damage} That no device work is seen may be because of that."
    return damage


OfTrace = Callable[..., Partial]
"""A pure function of a Trace and a Selection, and of keywords; importable, so that it can be sent to a worker."""

Combine = Callable[[pl.DataFrame, pl.DataFrame], pl.DataFrame]
Finish = Callable[[pl.DataFrame], pl.DataFrame | Partial]
"""Makes the rows of the result of the folded answers; a Partial where there is something to say about all ranks."""


@dataclass(frozen=True, slots=True)
class Task:
    """A question to one rank, as it is sent to where the trace is."""

    of_trace: OfTrace
    select: Selection
    params: Mapping[str, Any]

    def __call__(self, trace: Trace) -> Partial:
        """Ask it; that the file is damaged is the first that is said about the answer."""
        found = self.of_trace(trace, self.select, **self.params)
        damage = damage_of(trace)
        return Partial(found.frame, (damage, *found.notes)) if damage else found


class Engine(Protocol):
    """Where work on many ranks runs. Two verbs, so that every analysis runs anywhere without knowing it."""

    def map(self, sources: Sequence[Source], task: Task) -> Iterator[tuple[Source, Partial | Failure]]:
        """Ask each rank; answers come as they are ready."""
        ...

    def reduce(
        self, sources: Sequence[Source], task: Task, combine: Combine
    ) -> tuple[Partial | None, dict[Source, Failure]]:
        """Ask each rank and fold the answers with `combine`; None where no rank answered.

        `combine` is associative, and the order of ranks must not matter to it: answers come as they are ready.
        """
        ...

    def trace(self, source: Source) -> Trace:
        """The trace itself, where it can be had in this process."""
        ...


@dataclass(frozen=True, repr=False)
class Job:
    """The traces of one run.

    Attributes:
        path: what the user named.
        sources: the files, by rank and cycle.
        engine: where questions are answered.
        notes: what was noticed when the files were found.
    """

    path: str
    sources: tuple[Source, ...]
    engine: Engine
    notes: tuple[str, ...] = field(default=())

    def __len__(self) -> int:
        return len(self.sources)

    def __repr__(self) -> str:
        ranks = f"{len(self.ranks)} ranks" if len(self.ranks) != 1 else f"rank {self.ranks[0]}"
        return f"<Job {self.path!r}: {ranks}, {len(self)} file{'s' * (len(self) != 1)}>"

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks, ascending."""
        return tuple(sorted({source.rank for source in self.sources}))

    def trace(self, rank: int | None = None, *, cycle: int = 0) -> Trace:
        """The trace of a rank; of the only or the first one if none is named.

        Raises:
            UsageError: the job has no such rank or cycle.
        """
        rank = self.ranks[0] if rank is None else rank
        for source in self.sources:
            if source.rank == rank and source.cycle == cycle:
                return self.engine.trace(source)
        raise UsageError(f"there is no rank {rank}, cycle {cycle} in {self.path}; ranks: {listed(self.ranks)}")

    def sql(self, query: str) -> Result:
        """The answer to an SQL query over the declared tables (`kernels`, `ops`, …) of all ranks.

        Each table has a column `rank`. The SQL is that of Polars, and may read files that the query names.

        Raises:
            UsageError: the query is wrong.
            InputError: no rank can be read.
        """
        from kinetoscope.model.tables.sql import sql

        return sql(self, query)

    def map(self, of_trace: OfTrace, schema: Schema, select: Selection = ALL, **params: Any) -> Result:
        """Ask each rank and join the answers, ordered by rank, with a first column `rank`.

        `schema` declares that column too. Where ranks have traces of several cycles, a column `cycle` follows it, which
        `schema` does not declare. Ranks that fail are named in the notes.

        Raises:
            InputError: no rank could be read.
            UsageError: every rank finds fault with the question.
        """
        _fit(params)
        answers = dict(self.engine.map(self.sources, Task(of_trace, select, params)))
        frames, said, failures = [], {}, {}
        cycles = any(source.cycle for source in self.sources)
        schema = _with_cycle(schema) if cycles else schema
        for source in self.sources:
            answer = answers[source]
            if isinstance(answer, Failure):
                failures[source] = answer
                continue
            frame = answer.frame.with_columns(pl.lit(source.rank, pl.Int64).alias(RANK))
            if cycles:
                frame = frame.with_columns(pl.lit(source.cycle, pl.Int64).alias(CYCLE.name))
            frames.append(schema.conform(frame))
            said[source] = answer.notes
        self._require(failures, len(frames))
        frame = pl.concat(frames) if frames else schema.empty()
        return Result(frame, schema, (*self.notes, *_gathered(said), *_failed(failures)))

    def reduce(
        self,
        of_trace: OfTrace,
        combine: Combine,
        finish: Finish,
        schema: Schema,
        select: Selection = ALL,
        **params: Any,
    ) -> Result:
        """Ask each rank, fold the answers with `combine`, and make the result of it with `finish`.

        Raises:
            InputError: no rank could be read.
            UsageError: every rank finds fault with the question.
        """
        _fit(params)
        folded, failures = self.engine.reduce(self.sources, Task(of_trace, select, params), combine)
        self._require(failures, 0 if folded is None else 1)
        finished = Partial(schema.empty()) if folded is None else finish(folded.frame)
        if isinstance(finished, pl.DataFrame):
            finished = Partial(finished)
        notes = () if folded is None else folded.notes
        said = dict.fromkeys([*self.notes, *sorted(notes), *finished.notes])
        return Result(schema.conform(finished.frame), schema, (*said, *_failed(failures)))

    def _require(self, failures: Mapping[Source, Failure], answers: int) -> None:
        if failures and not answers:
            unread = [failure for failure in failures.values() if not failure.usage]
            if unread:
                raise InputError(unread[0].message)
            raise UsageError(next(iter(failures.values())).message)


def _fit(params: Mapping[str, Any]) -> None:
    """Whole numbers are computed with in 64 bits."""
    for name, value in params.items():
        if isinstance(value, int) and not -_BEYOND < value < _BEYOND:
            raise UsageError(f"{name} is {value}; the greatest number that it can be is {_BEYOND - 1}")


def _with_cycle(schema: Schema) -> Schema:
    """The same columns with `cycle` behind the rank."""
    first, *others = schema.columns
    extended = Schema(first, CYCLE, *others)
    extended.analysis = schema.analysis
    return extended


def _failed(failures: Mapping[Source, Failure]) -> Iterator[str]:
    """A note for each reason, with the ranks that it is about; of many reasons the first few."""
    ranks: dict[str, list[int]] = {}
    for source, failure in failures.items():
        ranks.setdefault(failure.message, []).append(source.rank)
    reasons = list(ranks.items())
    for message, of in reasons[:_REASONS]:
        yield f"{_ranks(of)} {'is' if len(set(of)) == 1 else 'are'} left out: {message}."
    others = [rank for _, of in reasons[_REASONS:] for rank in of]
    if others:
        yield f"{_ranks(others)} {'is' if len(set(others)) == 1 else 'are'} left out for other reasons."


def _ranks(numbers: Sequence[int]) -> str:
    return f"rank{'s' if len(set(numbers)) > 1 else ''} {listed(numbers)}"


def _gathered(said: Mapping[Source, Sequence[str]]) -> Iterator[str]:
    """Each note once, with the ranks that it is about unless it is about all of them."""
    ranks: dict[str, list[int]] = {}
    for source, notes in said.items():
        for note in notes:
            ranks.setdefault(note, []).append(source.rank)
    everywhere = {source.rank for source in said}
    for note, of in ranks.items():
        about = set(of)
        yield note if about == everywhere else f"{_ranks(of)}: {note}"
