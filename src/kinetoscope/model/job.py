"""A job: the traces of one run, one for each rank, and the ways to ask all of them.

A Job is given its engine; it knows neither how to read nor where the work runs.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import polars as pl

from kinetoscope import dispatch
from kinetoscope.caching import BoundedCache
from kinetoscope.errors import InputError, UsageError
from kinetoscope.model.analysis import Analysis, Question
from kinetoscope.model.answer import Answer, Failure, Partial
from kinetoscope.model.steps.selection import ALL, Selection
from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.text import listed, number_of, numbered
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Result, Schema

RANK = "rank"

CYCLE: Final = Column("cycle", pl.Int64, "Cycle of the profiler's schedule, from 0, in order of time.")

_MAX_REASONS: Final = 5
"""Reasons that notes give for ranks that are left out."""

_SHARED_BYTES: Final = 1 << 28
"""Memory for answers that several analyses share: those of thousands of ranks about a hang."""

_sharing: Final = threading.Lock()

_MAX_SHOWN: Final = 60
"""Characters of a wrong value that a message repeats."""

S = TypeVar("S", bound=str)


Readable = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Mapping[int, str | os.PathLike[str]]
"""A file, a folder, a pattern or a URL; several of them; or a file for each rank."""


class Engine(Protocol):
    """An engine asks many ranks. It has one verb, so that every analysis runs on any engine."""

    def ask(self, sources: Sequence[Source], questions: Sequence[Question]) -> tuple[Answer, ...]:
        """The answer to each question, of all ranks, each trace read once.

        Where a question has `combine`, answers are folded; ranks that cannot be read are failures in every answer.
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
        shared: answers of the ranks that several analyses make their rows of.
    """

    path: str
    sources: tuple[Source, ...]
    engine: Engine
    notes: tuple[Note, ...] = field(default=())
    shared: BoundedCache[Answer] = field(default_factory=lambda: BoundedCache(_SHARED_BYTES), compare=False)

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

    def ask(self, questions: Mapping[str, Question]) -> dict[str, Result]:
        """The answers to several questions, with each trace read once for all of them.

        An answer whose question has no `combine` has the rows of the ranks in their order, with a first column `rank`.
        Where ranks have traces of several cycles, a column `cycle` follows it, which is not declared. Ranks that fail
        are named in the notes.

        Raises:
            InputError: no rank could be read.
            UsageError: every rank finds fault with one of the questions.
        """
        results: dict[str, Result] = {}
        for kind in dict.fromkeys(each.of_files for each in questions.values()):
            job = self if kind == "" else self._of_files(kind)
            asked = {name: each for name, each in questions.items() if each.of_files == kind}
            answers = job._answers(tuple(asked.values()))
            pairs = zip(asked.items(), answers, strict=True)
            results |= {name: job._result(question, answer) for (name, question), answer in pairs}
        return {name: results[name] for name in questions}

    def _of_files(self, kind: str) -> Job:
        """The job as one source that is all its files of a kind, without a trace; itself where it has none."""
        files = tuple(dict.fromkeys(url for source in self.sources for url in source.files(kind)))
        if not files:
            return self
        # The size tells an engine that keeps what it has read when there is more.
        size = sum(Path(each).stat().st_size for each in files if Path(each).is_file())
        first = replace(
            self.sources[0], url=files[0], cycle=0, reader=kind, size=size, part="", companions={kind: files}
        )
        return replace(self, sources=(first,))

    def _answers(self, questions: Sequence[Question]) -> Sequence[Answer]:
        """The answers of the ranks to each question: what several share is asked for once, and kept."""
        places = enumerate(questions)
        keys = [(self.sources, each.of_trace, each.select) if each.shared else place for place, each in places]
        answers = {key: known[0] for key in keys if (known := self.shared.peek(key)) is not None}
        asked = {key: each for key, each in zip(keys, questions, strict=True) if key not in answers}
        if asked:
            answers |= dict(zip(asked, self._asked([*asked.values()]), strict=True))
        with _sharing:
            for key in (key for key, each in asked.items() if each.shared):
                self.shared.put(key, answers[key], _bytes_of(answers[key]))
        return [answers[key] for key in keys]

    def _asked(self, questions: Sequence[Question]) -> Sequence[Answer]:
        sources = self.sources
        if not any(each.of_events for each in questions):  # of dumps; a trace is read whole for any question
            sources = tuple(
                replace(each, options=replace(each.options, events=False)) if each.is_dump else each for each in sources
            )
        return self.engine.ask(sources, tuple(questions))

    def answer(self, question: Question) -> Result:
        """The answer to one question. See `ask`."""
        return self.ask({"": question})[""]

    def map(
        self, of_trace: Callable[..., Partial], schema: Schema, select: Selection = ALL, /, **params: Any
    ) -> Result:
        """The rows that a function of a Trace, a Selection and keywords gives for each rank. See `ask`."""
        return self.answer(Question(of_trace, schema, select, params))

    def _result(self, question: Question, answer: Answer) -> Result:
        failures = {
            source: of_rank
            for source in self.sources
            if isinstance(of_rank := answer.of_rank.get((source.rank, source.cycle)), Failure)
        }
        if failures and len(failures) == len(self.sources):
            unread = [failure.message for failure in failures.values() if not failure.usage]
            raise InputError(unread[0]) if unread else UsageError(next(iter(failures.values())).message)
        rows = self._folded(question, answer) if question.combine else self._joined(question, answer)
        notes = (*dict.fromkeys((*self.notes, *rows.notes)), *_failed(failures))
        schema = self._schema(question)
        result = Result(schema.conform(rows.frame), schema, notes)
        if isinstance(question.declared, Schema):
            return result
        analysis = question.declared
        result = replace(result, analysis=analysis.name, params=question.given, chart_facts=analysis.chart)
        how = question.given.get("across_ranks", "each")
        if how == "each":
            return result
        from kinetoscope.model.across_ranks import over_ranks

        return over_ranks(result, how, len(self.ranks))

    def _schema(self, question: Question) -> Schema:
        schema = question.schema
        return Schema(schema.columns[0], CYCLE, *schema.columns[1:]) if self._has_cycles(question) else schema

    def _has_cycles(self, question: Question) -> bool:
        return question.combine is None and any(source.cycle for source in self.sources)

    def _joined(self, question: Question, answer: Answer) -> Partial:
        """The rows of the ranks in their order, and each note once with its ranks."""
        schema = self._schema(question)
        frames, notes_of = [], {}
        for source in self.sources:
            of_rank = answer.of_rank[source.rank, source.cycle]
            if isinstance(of_rank, Partial):
                whose = [pl.lit(source.rank, pl.Int64).alias(RANK)]
                whose += [pl.lit(source.cycle, pl.Int64).alias(CYCLE.name)] if self._has_cycles(question) else []
                frame = of_rank.frame.with_columns(whose)
                frames.append(frame if question.finish else schema.conform(frame))
                notes_of[source] = of_rank.notes
        rows = Partial(pl.concat(frames) if frames else schema.empty(), tuple(_gathered(notes_of)))
        return _finished(question, rows) if frames else rows

    def _folded(self, question: Question, answer: Answer) -> Partial:
        """The rows of all ranks together."""
        if answer.folded is None:
            return Partial(question.schema.empty())
        return _finished(question, replace(answer.folded, notes=tuple(sorted(answer.folded.notes))))


def _bytes_of(answer: Answer) -> int:
    return 0 if answer.folded is None else int(answer.folded.frame.estimated_size())


def _finished(question: Question, rows: Partial) -> Partial:
    if question.finish is None:
        return rows
    finished = question.finish(rows.frame) if rows.extra is None else question.finish(rows.frame, rows.extra)
    if isinstance(finished, pl.DataFrame):
        return Partial(finished, rows.notes)
    return replace(finished, notes=(*rows.notes, *finished.notes))


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
