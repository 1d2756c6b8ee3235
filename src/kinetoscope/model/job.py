"""A job: the traces of one run, one for each rank, and the ways to ask all of them.

A Job is given its engine; it knows neither how to read nor where the work runs.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol, TypeVar

import polars as pl

from kinetoscope import dispatch
from kinetoscope.errors import InputError, KinetoscopeError, UsageError
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.graphs.lost_work import lost_work, notes_of_lost_work
from kinetoscope.model.steps.scope import left_out, scope
from kinetoscope.model.steps.selection import ALL, Selection
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.symptoms import Health
from kinetoscope.model.trace.text import listed, number_of, numbered
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Result, Schema

RANK = "rank"

CYCLE: Final = Column("cycle", pl.Int64, "Cycle of the profiler's schedule, from 0, in order of time.")

_MAX_REASONS: Final = 5
"""Reasons that notes give for ranks that are left out."""

_MAX_SHOWN: Final = 60
"""Characters of a wrong value that a message repeats."""

_INTEGER_LIMIT: Final = 1 << 62

T = TypeVar("T")
S = TypeVar("S", bound=str)


@dataclass(frozen=True, slots=True)
class Partial:
    """The answer of one rank, or of several whose answers were folded.

    Attributes:
        frame: its rows.
        notes: what they leave out.
        extra: rows of another kind, with columns of their own, as steps beside collectives.
    """

    frame: pl.DataFrame
    notes: tuple[Note, ...] = ()
    extra: pl.DataFrame | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "notes", tuple(map(Note.of, self.notes)))

    def folded(self, other: Partial, combine: Combine) -> Partial:
        """Both answers in one: rows of `extra` one below the other, notes that both have once."""
        notes = tuple(dict.fromkeys((*self.notes, *other.notes)))
        extra = None if self.extra is None or other.extra is None else pl.concat([self.extra, other.extra])
        return Partial(combine(self.frame, other.frame), notes, extra)


@dataclass(frozen=True, slots=True)
class Failure:
    """A rank without an answer: the message of the error, and whether the question is at fault."""

    message: str
    usage: bool = False

    @classmethod
    def of(cls, error: KinetoscopeError) -> Failure:
        """The failure that an error makes."""
        return cls(str(error), usage=isinstance(error, UsageError))


@derived
def damage_of(trace: Trace) -> Note | None:
    """The note that data was lost, and that device work may be missing for it; None where none was."""
    damage = Health(trace.reading).damage
    if damage and not len(device_work(trace)):
        return damage.reworded(f"{damage} That no device work is seen may be because of that.")
    return damage


Readable = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Mapping[int, str | os.PathLike[str]]
"""A file, a folder, a pattern or a URL; several of them; or a file for each rank."""

OfTrace = Callable[..., Partial]
"""A pure function of a Trace and a Selection, and of keywords; importable, so that it can be sent to a worker."""

Combine = Callable[[pl.DataFrame, pl.DataFrame], pl.DataFrame]
Finish = Callable[..., pl.DataFrame | Partial]
"""Makes the rows of the result from the frame of the folded answers, and from `extra` if they have one; a Partial
where it has notes about all ranks."""


@dataclass(frozen=True, slots=True)
class Task:
    """A question to one rank, as it is sent to where the trace is."""

    of_trace: OfTrace
    select: Selection
    params: Mapping[str, Any]
    declared: Analysis | None = None

    def __call__(self, trace: Trace) -> Partial:
        """The answer; its first notes are on damage of the file, lost work, what is selected, captures, and steps."""
        answer = self.of_trace(trace, self.select, **self.params)
        notes = [damage] if (damage := damage_of(trace)) else []
        if self.declared is not None:
            notes += _first_notes(trace, self.select, self.declared, self.params.get("by") == "step")
        elif self.select.patterns:
            notes += left_out(scope(trace, self.select))
        return replace(answer, notes=(*notes, *answer.notes)) if notes else answer


def _first_notes(trace: Trace, select: Selection, declared: Analysis, by_step: bool) -> Iterator[Note]:
    """The notes that follow from what an analysis declares of itself: lost work, what is selected, captures, steps."""
    if declared.of_device_work and lost_work(trace):
        yield from notes_of_lost_work(trace, scope(trace, select).host_mask)
    if select.patterns:
        yield from left_out(scope(trace, select)) if declared.of_calls else (WHOLE_RANK,)
    if declared.of_operators and trace.captured is not None:
        yield from trace.captured.notes
    if declared.counts_warm_up:
        yield from scope(trace, select).warm_up
    when = declared.selection_notes
    if when == "always" or (when == "selected" and (by_step or select.is_of_calls or select.steps_by is not None)):
        yield from scope(trace, select).notes


WHOLE_RANK: Final = Note("WHOLE_RANK", "This is about the whole rank: names of calls do not choose a part of it.")
"""Says that an analysis does not heed them."""


class Engine(Protocol):
    """An engine runs work on many ranks. It has two verbs, so that every analysis runs on any engine."""

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

    def close(self) -> None:
        """Leave the cluster that it asks, if it asks one."""
        ...


@dataclass(frozen=True, repr=False)
class Job:
    """The traces of one run.

    Attributes:
        path: what the user named.
        sources: the files, by rank and cycle.
        engine: where questions are answered.
        notes: sentences about the files.
    """

    path: str
    sources: tuple[Source, ...]
    engine: Engine
    notes: tuple[Note, ...] = field(default=())

    def __len__(self) -> int:
        return len(self.sources)

    def __repr__(self) -> str:
        ranks = f"{len(self.ranks)} ranks ({listed(self.ranks)})" if len(self.ranks) != 1 else f"rank {self.ranks[0]}"
        return f"<Job {self.path!r}: {ranks}, {number_of(len(self), 'file')}; kinetoscope.summary(job) says more>"

    def _repr_html_(self) -> str:
        return dispatch.html(self)

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
        answer: Result = dispatch.call("sql", self, query)
        return answer

    def map(
        self,
        of_trace: OfTrace,
        declared: Analysis | Schema,
        select: Selection = ALL,
        finish: Callable[[pl.DataFrame], pl.DataFrame] | None = None,
        /,
        **params: Any,
    ) -> Result:
        """Ask each rank and join the answers, ordered by rank, with a first column `rank`; `finish` makes rows of them.

        `declared` is the analysis that asks, or the columns of a table that is none; that column is one of them. Where
        ranks have traces of several cycles, a column `cycle` follows it, which is not declared. Ranks that fail are
        named in the notes.

        Raises:
            InputError: no rank could be read.
            UsageError: every rank finds fault with the question.
        """
        _fit(params)
        answers = dict(self.engine.map(self.sources, Task(of_trace, select, params, _analysis(declared))))
        frames, notes_of, failures = [], {}, {}
        cycles = any(source.cycle for source in self.sources)
        schema = _columns(declared)
        schema = Schema(schema.columns[0], CYCLE, *schema.columns[1:]) if cycles else schema
        for source in self.sources:
            answer = answers[source]
            if isinstance(answer, Failure):
                failures[source] = answer
                continue
            whose = [pl.lit(source.rank, pl.Int64).alias(RANK)]
            whose += [pl.lit(source.cycle, pl.Int64).alias(CYCLE.name)] if cycles else []
            frame = answer.frame.with_columns(whose)
            frames.append(frame if finish is not None else schema.conform(frame))
            notes_of[source] = answer.notes
        self._require(failures, len(frames))
        frame = pl.concat(frames) if frames else schema.empty()
        frame = schema.conform(finish(frame)) if frames and finish is not None else frame
        return _result(frame, schema, (*self.notes, *_gathered(notes_of), *_failed(failures)), declared)

    def reduce(
        self,
        of_trace: OfTrace,
        combine: Combine,
        finish: Finish,
        declared: Analysis | Schema,
        select: Selection = ALL,
        **params: Any,
    ) -> Result:
        """Ask each rank, fold the answers with `combine`, and make the result of it with `finish`. See `map`.

        Raises:
            InputError: no rank could be read.
            UsageError: every rank finds fault with the question.
        """
        _fit(params)
        schema = _columns(declared)
        task = Task(of_trace, select, params, _analysis(declared))
        folded, failures = self.engine.reduce(self.sources, task, combine)
        self._require(failures, 0 if folded is None else 1)
        if folded is None:
            finished: pl.DataFrame | Partial = Partial(schema.empty())
        else:
            finished = finish(folded.frame) if folded.extra is None else finish(folded.frame, folded.extra)
        if isinstance(finished, pl.DataFrame):
            finished = Partial(finished)
        notes = () if folded is None else folded.notes
        all_notes = dict.fromkeys([*self.notes, *sorted(notes), *finished.notes])
        return _result(schema.conform(finished.frame), schema, (*all_notes, *_failed(failures)), declared)

    def ask(self, questions: Mapping[str, Callable[[Job], T]]) -> dict[str, T]:
        """The answers to several questions, with each trace read once for all of them.

        A question is a function of the job, such as an analysis; it may ask ranks one by one (`map`) or fold their
        answers (`reduce`), and has the notes and errors that it has alone. It runs twice: it stops at what it asks of
        the ranks, and runs anew when all ranks have answered that, so what it does before should be cheap.

        Raises:
            InputError: no rank could be read.
            UsageError: every rank finds fault with one of the questions.
        """
        rounds = {name: _Rehearsal(self.engine, self.sources) for name in questions}
        results: dict[str, T] = {}
        while True:
            for name in questions.keys() - results.keys():
                try:
                    results[name] = questions[name](replace(self, engine=rounds[name]))
                except _UnansweredError:
                    continue
            waiting = [rounds[name] for name in questions if name not in results]
            if not waiting:
                return {name: results[name] for name in questions}
            tasks = tuple(each.tasks[-1] for each in waiting)
            folded, failures = self.engine.reduce(self.sources, Task(_all_of, ALL, {"tasks": tasks}), _together)
            answers = folded.answers if isinstance(folded, _Answers) else (_TaskAnswer(),) * len(tasks)
            for each, answer in zip(waiting, answers, strict=True):
                each.answers.append(answer.with_failures(failures))

    def _require(self, failures: Mapping[Source, Failure], answers: int) -> None:
        if failures and not answers:
            unread = [failure for failure in failures.values() if not failure.usage]
            if unread:
                raise InputError(unread[0].message)
            raise UsageError(next(iter(failures.values())).message)


def job_of(of: Job | Readable) -> Job:
    """The job itself, or the one at these paths: every public function that is about a job takes either.

    Raises:
        UsageError: it is neither.
        InputError: there is no trace at the paths.
    """
    if isinstance(of, Job):
        return of
    several: Iterable[object] = of.values() if isinstance(of, Mapping) else of if isinstance(of, Sequence) else [of]
    if not isinstance(of, str) and (wrong := [each for each in several if not isinstance(each, (str, os.PathLike))]):
        raise UsageError(
            f"{_brief(wrong[0])} is no job: give what kinetoscope.read() returns, a path, or a list of paths"
        )
    job: Job = dispatch.call("job", of)
    return job


def jobs_of(runs: Iterable[Job | Readable]) -> tuple[Job, ...]:
    """The job of each of several runs.

    Raises:
        UsageError: it is one run, not a list of them, or one of them is none.
        InputError: there is no trace at the paths of one.
    """
    if isinstance(runs, (Job, str, os.PathLike)):
        raise UsageError(f"{_brief(runs)} is one run: give a list of runs, in their order")
    return tuple(map(job_of, runs))


def part_of(of: Job | Readable, select: Selection) -> tuple[Job, Selection]:
    """The job, with the ranks that are selected alone, and what else is selected of each.

    Raises:
        UsageError: it is no job, the selection is none, or the job has none of its ranks.
        InputError: there is no trace at the paths.
    """
    if not isinstance(select, Selection):
        raise UsageError(f"select is {_brief(select)}; it can be a kinetoscope.Selection, as Selection(steps=(3, 4))")
    job = job_of(of)
    if select.ranks is None:
        return job, select
    sources = tuple(source for source in job.sources if source.rank in select.ranks)
    if not sources:
        raise UsageError(f"{job.path} has no rank {listed(select.ranks)}; it has {listed(job.ranks)}")
    return replace(job, sources=sources), replace(select, ranks=None)


def _brief(value: object) -> str:
    """A value in a sentence that says it is wrong: itself if it is short, else its type."""
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else f"a {type(value).__name__}"


def _fit(params: Mapping[str, Any]) -> None:
    """Whole numbers are computed with in 64 bits."""
    for name, value in params.items():
        if isinstance(value, int) and not -_INTEGER_LIMIT < value < _INTEGER_LIMIT:
            raise UsageError(f"{name} is {value}; the greatest number that it can be is {_INTEGER_LIMIT - 1}")


def _analysis(declared: Analysis | Schema) -> Analysis | None:
    return declared if isinstance(declared, Analysis) else None


def _columns(declared: Analysis | Schema) -> Schema:
    return declared if isinstance(declared, Schema) else declared.schema


def _result(frame: pl.DataFrame, schema: Schema, notes: tuple[Note, ...], declared: Analysis | Schema) -> Result:
    result = Result(frame, schema, notes)
    return declared.described(result) if isinstance(declared, Analysis) else result


def _failed(failures: Mapping[Source, Failure]) -> Iterator[Note]:
    """A note for each reason, with the ranks that it is about; of many reasons the first few."""
    reasons = list(_ranks_by_text((failure.message, source.rank) for source, failure in failures.items()).items())
    for message, ranks in reasons[:_MAX_REASONS]:
        said = f"{numbered('rank', ranks)} {'is' if len(set(ranks)) == 1 else 'are'} left out: {message}."
        yield Note("RANKS_LEFT_OUT", said, "warning")
    others = [rank for _, ranks in reasons[_MAX_REASONS:] for rank in ranks]
    if others:
        said = f"{numbered('rank', others)} {'is' if len(set(others)) == 1 else 'are'} left out for other reasons."
        yield Note("RANKS_LEFT_OUT", said, "warning")


def _gathered(notes_of: Mapping[Source, Sequence[Note]]) -> Iterator[Note]:
    """Each note once, with the ranks that it is about unless it is about all of them."""
    every = {source.rank for source in notes_of}
    pairs = ((note, source.rank) for source, notes in notes_of.items() for note in notes)
    for note, ranks in _ranks_by_text(pairs).items():
        yield note if set(ranks) == every else note.reworded(f"{numbered('rank', ranks)}: {note}")


def _ranks_by_text(pairs: Iterable[tuple[S, int]]) -> dict[S, list[int]]:
    ranks: dict[S, list[int]] = {}
    for text, rank in pairs:
        ranks.setdefault(text, []).append(rank)
    return ranks


# --- the functions of the package


def public_function(analysis: Analysis) -> Callable[..., Result]:
    """The function of an analysis as the package has it: with the parameter `across_ranks`, of a job or of a path."""

    @functools.wraps(analysis.function)
    def asked(job: Job | Readable, **params: Any) -> Result:
        analysis.check(params)
        if "select" in params:
            job, params["select"] = part_of(job, params["select"])
        return analysis(job_of(job), **params)

    asked.__signature__ = analysis.signature  # type: ignore[attr-defined]
    return asked


# --- several questions, one read


@dataclass(frozen=True, slots=True)
class _TaskAnswer:
    """The answer to one task: of each rank and cycle, or folded, with the ranks that failed.

    Attributes:
        combine: what folds it; None if it stays that of each rank.
        of_rank: answers that are not folded, and failures, by rank and cycle.
        fold: the folded answer, None where no rank has one.
    """

    combine: Combine | None = None
    of_rank: Mapping[tuple[int, int], Partial | Failure] = field(default_factory=dict)
    fold: Partial | None = None

    def joined(self, other: _TaskAnswer) -> _TaskAnswer:
        """The answer of the ranks of both."""
        fold = self.fold or other.fold
        if self.fold is not None and other.fold is not None and self.combine is not None:
            fold = self.fold.folded(other.fold, self.combine)
        return _TaskAnswer(self.combine, {**self.of_rank, **other.of_rank}, fold)

    def with_failures(self, failures: Mapping[Source, Failure]) -> _TaskAnswer:
        """The same with ranks that could not be read."""
        unread = {(source.rank, source.cycle): failure for source, failure in failures.items()}
        return replace(self, of_rank={**self.of_rank, **unread})


@dataclass(frozen=True, slots=True)
class _Answers(Partial):
    """The answers to several tasks, in their order."""

    answers: tuple[_TaskAnswer, ...] = ()

    def folded(self, other: Partial, combine: Combine) -> Partial:
        """Both, task by task, each by what folds its own answers."""
        del combine
        assert isinstance(other, _Answers)
        answers = tuple(one.joined(another) for one, another in zip(self.answers, other.answers, strict=True))
        return _Answers(self.frame, answers=answers)


def _together(one: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    """Stands for the `combine` of several tasks: `_Answers` know those of each."""
    del other
    return one


def _all_of(trace: Trace, select: Selection, *, tasks: Sequence[tuple[Task, Combine | None]]) -> Partial:
    """The answers of a rank to several tasks."""
    del select
    rank, answers = (trace.source.rank, trace.source.cycle), []
    for task, combine in tasks:
        try:
            answer = task(trace)
        except KinetoscopeError as error:
            answers.append(_TaskAnswer(combine, {rank: Failure.of(error)}))
        else:
            answers.append(
                _TaskAnswer(fold=answer, combine=combine) if combine else _TaskAnswer(of_rank={rank: answer})
            )
    return _Answers(pl.DataFrame(), answers=tuple(answers))


class _UnansweredError(BaseException):
    """A question has a task without an answer yet. Nothing that guards against errors may catch it."""


class _Rehearsal:
    """An engine for one of several questions: it gives the answers to its first tasks, and keeps the next task.

    Attributes:
        tasks: the tasks of the question in their order, each with the function that folds its answers.
        answers: answers to the first of them.
    """

    def __init__(self, engine: Engine, sources: Sequence[Source]) -> None:
        self._engine, self._sources = engine, tuple(sources)
        self._given = 0
        self.tasks: list[tuple[Task, Combine | None]] = []
        self.answers: list[_TaskAnswer] = []

    def trace(self, source: Source) -> Trace:
        return self._engine.trace(source)

    def close(self) -> None:
        pass

    def map(self, sources: Sequence[Source], task: Task) -> Iterator[tuple[Source, Partial | Failure]]:
        if tuple(sources) != self._sources:
            return self._engine.map(sources, task)
        answer = self._answer(task, None)
        return iter([(source, answer.of_rank[source.rank, source.cycle]) for source in sources])

    def reduce(
        self, sources: Sequence[Source], task: Task, combine: Combine
    ) -> tuple[Partial | None, dict[Source, Failure]]:
        if tuple(sources) != self._sources:
            return self._engine.reduce(sources, task, combine)
        answer = self._answer(task, combine)
        of_source = ((source, answer.of_rank.get((source.rank, source.cycle))) for source in sources)
        return answer.fold, {source: failure for source, failure in of_source if isinstance(failure, Failure)}

    def _answer(self, task: Task, combine: Combine | None) -> _TaskAnswer:
        if self._given < len(self.answers):
            self._given += 1
            return self.answers[self._given - 1]
        self._given = 0  # the question runs anew from its beginning
        self.tasks.append((task, combine))
        raise _UnansweredError
