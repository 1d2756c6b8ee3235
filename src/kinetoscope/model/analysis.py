"""An analysis: one question that can be asked of a job, with its columns, parameters and chart; and asking it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, cast

import polars as pl

from kinetoscope.charts import Chart
from kinetoscope.errors import KinetoscopeError, UsageError, nearest
from kinetoscope.model.answer import Answer, Combine, Failure, Partial
from kinetoscope.model.graphs.lost_work import damage_of, lost_work, notes_of_lost_work
from kinetoscope.model.steps.scope import left_out, scope
from kinetoscope.model.steps.selection import ALL, Selection
from kinetoscope.model.trace.build import TraceBuilder
from kinetoscope.model.trace.recording import has_timeline, no_timeline
from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import OverRanks, Parameter, Result, Schema, parameters_of

_ACROSS_RANKS: Final = Parameter(
    "across_ranks",
    cast(type, OverRanks),
    "each",
    "Rows of all ranks that are alike become one: their sum, mean, least or greatest; each: a row for each rank.",
    "",
)
"""The parameter that all analyses have whose rows can be summed over ranks."""

WHOLE_RANK: Final = Note("WHOLE_RANK", "This is about the whole rank: names of calls do not choose a part of it.")
"""Says that an analysis does not heed them."""

_INTEGER_LIMIT: Final = 1 << 62
"""Whole numbers are computed with in 64 bits."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """One question that can be asked of a job, and all that the faces need to know about it.

    `function` answers it for one rank: it takes a Trace and a Selection, and parameters of its own as keywords, and
    returns a Partial. It can be imported, so that it can be sent to where the trace is. Its docstring opens with the
    question, then says method, how to read the answer, and limits.
    """

    title: str
    function: Callable[..., Any]
    schema: Schema
    chart: Chart | None = None
    combine: Combine | None = None
    """Folds the answers of ranks where the answer needs them together; else they are joined in the order of ranks."""

    finish: Callable[..., Any] | None = None
    """Makes the rows of the result from those of all ranks; its keywords are parameters of the analysis, too."""

    shared: Callable[..., Partial] | None = None
    """The question to ranks in place of `function`, where several analyses make their rows of the same answers: a job
    asks for these once, and keeps them. Such analyses declare the same otherwise."""

    unread: Callable[[Source, Failure], Partial] | None = None
    """The reason why a rank cannot be read, where that matters to the others."""

    across_ranks: bool = False
    """It compares ranks: faces ask all of them, whichever are selected."""

    of_events: bool = True
    """It rests on the events of traces. Of dumps alone, whose events follow from what they hold, none are made for one
    that does not."""

    of_device_work: bool = True
    """It rests on the records of device work: it says so where some were lost."""

    of_operators: bool = False
    """It rests on the operators of device work: it says which replays of graphs have those of their capture."""

    of_calls: bool = True
    """It heeds names of calls that are selected; where it does not, as it is about the whole rank, it says so."""

    selection_notes: Literal["selected", "always", "never"] = "selected"
    """When its first notes say where steps come from and what a selection leaves out: where calls
    are selected; always, as its numbers are of steps; or never, as it selects otherwise."""

    of_files: str = ""
    """Kind of files (`readers.companions`) that it is made of alone: no trace of a run that has some is read, and it is
    asked once, of all of them."""

    counts_warm_up: bool = False
    """Its times are sums over steps: of everything it says that those of the warm-up are among them."""

    of_sums: tuple[str, ...] | None = None
    """Columns that are unknown where a recording is one of sums, without timeline; None: it is not asked of such."""

    def __post_init__(self) -> None:
        code = getattr(self.function, "__code__", None)
        if code is not None and code.co_argcount < 2:  # a function of a job, as it was written before
            raise UsageError(
                f"{self.name} is no function of one rank: write it as {self.name}(trace, select, *, ...) -> Partial"
            )

    @property
    def name(self) -> str:
        """`step_breakdown`: as a Python name; the command line also takes `step-breakdown`."""
        return self.function.__name__

    @property
    def doc(self) -> str:
        """The whole docstring, without indentation."""
        return inspect.getdoc(self.function) or ""

    @property
    def question(self) -> str:
        """The first line of the docstring."""
        return self.doc.partition("\n")[0]

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters that are this analysis's own: the keywords of its functions, and `across_ranks`."""
        parameters = [each for function in self._functions for each in parameters_of(function)]
        return (*parameters, _ACROSS_RANKS) if self.not_over_ranks == "" else tuple(parameters)

    @property
    def signature(self) -> inspect.Signature:
        """The signature of the function that the package has: of a job, a selection and the parameters."""
        keyword = inspect.Parameter.KEYWORD_ONLY
        own = [inspect.Parameter(each.name, keyword, default=each.default) for each in self.parameters]
        job = inspect.Parameter("job", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return inspect.Signature([job, inspect.Parameter("select", keyword, default=ALL), *own])

    @property
    def _functions(self) -> tuple[Callable[..., Any], ...]:
        return (self.function,) if self.finish is None else (self.function, self.finish)

    @property
    def not_over_ranks(self) -> str:
        """Why rows of several ranks cannot become one; "" where they can."""
        if self.across_ranks:
            return f"{self.name} compares ranks: its rows cannot be summed over them"
        if any(column.instant and column.across == "key" for column in self.schema):
            return f"rows of {self.name} are single events or instants: those of several ranks cannot be summed"
        if not any(column.across in ("sum", "least", "greatest") for column in self.schema):
            return f"{self.name} has no column that can be summed over ranks"
        return ""

    def asked(self, **params: Any) -> Question:
        """The question with these parameters; `select` is one of them.

        Raises:
            UsageError: a parameter has a value that is none of its choices, or rows cannot be summed over ranks.
        """
        self.check(params)
        of_rank, *of_all = (
            {each.name: params.get(each.name, each.default) for each in parameters_of(function)}
            for function in self._functions
        )
        finish = self.finish and functools.partial(self.finish, **of_all[0])
        return Question(
            self.shared or self.function,
            self,
            params.get("select", ALL),
            of_rank,
            self.combine,
            finish,
            params,
            unread=self.unread,
            shared=self.shared is not None,
            of_events=self.of_events,
        )

    def __call__(self, job: Any, **params: Any) -> Result:
        """The answer of a job, with name, parameters and chart of the analysis. See `asked`."""
        question = self.asked(**params)
        result: Result = job.answer(question)
        return result

    def check(self, params: Mapping[str, Any]) -> None:
        """Refuse what is no parameter, and what a parameter cannot be.

        Raises:
            UsageError: there is such a one.
        """
        own = {parameter.name: parameter for parameter in self.parameters}
        for name, value in params.items():
            if name == "select" or (name == "across_ranks" and value == "each"):
                continue
            if name == "across_ranks" and self.not_over_ranks:
                raise UsageError(self.not_over_ranks)
            if name not in own:
                has = ", ".join(["select", *own])
                raise UsageError(
                    f"{self.name} has no parameter {name!r}{nearest(name, ['select', *own])}; it has {has}"
                )
            if not own[name].fits(value):
                raise UsageError(f"{name} is {value!r}; it can be {own[name].can_be}")
            if (check := own[name].check) is not None:
                check(value)


@dataclass(frozen=True, slots=True)
class Question:
    """A question to each rank of a job, and what makes one answer of theirs.

    Attributes:
        of_trace: answers it for one rank: a pure function of a Trace and a Selection, and of keywords; it can be
            imported, so that it can be sent to where the trace is.
        declared: the analysis that asks, or the columns of a table that is none.
        select: the part of each trace that is asked about.
        params: the keywords of `of_trace`.
        combine: folds the answers of ranks; None: their rows are joined in the order of ranks, with a first column
            `rank`.
        finish: makes the rows of the result from those of all ranks, and from `extra` if they have one; a Partial
            where it has notes about all ranks.
        given: the parameters of the analysis as they were given.
        unread: see `Analysis`.
        shared: the job keeps what ranks answer, for all questions of this kind with the same function and selection.
        of_events: see `Analysis`.
    """

    of_trace: Callable[..., Partial]
    declared: Analysis | Schema
    select: Selection = ALL
    params: Mapping[str, Any] = field(default_factory=dict)
    combine: Combine | None = None
    finish: Callable[..., pl.DataFrame | Partial] | None = None
    given: Mapping[str, Any] = field(default_factory=dict)
    unread: Callable[[Source, Failure], Partial] | None = None
    shared: bool = False
    of_events: bool = True

    def __post_init__(self) -> None:
        for name, value in self.params.items():
            if isinstance(value, int) and not -_INTEGER_LIMIT < value < _INTEGER_LIMIT:
                raise UsageError(f"{name} is {value}; the greatest number that it can be is {_INTEGER_LIMIT - 1}")

    @property
    def schema(self) -> Schema:
        """The columns of the result."""
        return self.declared if isinstance(self.declared, Schema) else self.declared.schema

    @property
    def of_files(self) -> str:
        """Kind of files that it is asked of, instead of traces; "" for none."""
        return self.declared.of_files if isinstance(self.declared, Analysis) else ""

    @property
    def to_send(self) -> Question:
        """The same without what is done where all ranks are known: it may be a function that cannot be sent."""
        return replace(self, finish=None, given={})

    def of_rank(self, source: Source, trace: Trace) -> Answer:
        """The answer of one rank, or why there is none."""
        try:
            answer = self._of_rank(trace)
        except KinetoscopeError as error:
            return self.failed(source, Failure.of(error))
        return Answer({}, answer) if self.combine else Answer({(source.rank, source.cycle): answer})

    def failed(self, source: Source, failure: Failure) -> Answer:
        """The answer of a rank that has none, and what is said of it instead."""
        said = None if self.unread is None or failure.usage else self.unread(source, failure)
        return replace(failed(source, failure), folded=said)

    def _of_rank(self, trace: Trace) -> Partial:
        """Its first notes are on damage of the file, lost work, what is selected, captures, and steps."""
        if isinstance(self.declared, Analysis) and not has_timeline(trace):
            return self._of_sums(trace, self.declared)
        answer = self.of_trace(trace, self.select, **self.params)
        notes = [damage] if (damage := damage_of(trace)) else []
        if isinstance(self.declared, Analysis):
            notes += _first_notes(trace, self.select, self.declared, self.params.get("by") == "step")
        elif self.select.patterns:
            notes += left_out(scope(trace, self.select))
        return replace(answer, notes=(*notes, *answer.notes)) if notes else answer

    def _of_sums(self, trace: Trace, declared: Analysis) -> Partial:
        """The answer of a recording without timeline: of what needs one that of a trace without events, and a note."""
        if declared.of_sums is None:
            nothing = TraceBuilder().build(trace.source)
            return replace(self.of_trace(nothing, self.select, **self.params), notes=(no_timeline(trace),))
        answer = self.of_trace(trace, self.select, **self.params)
        unknown = (pl.lit(None, answer.frame.schema[name]).alias(name) for name in declared.of_sums)
        return replace(answer, frame=answer.frame.with_columns(unknown))


def failed(source: Source, failure: Failure) -> Answer:
    """The answer where a rank has none."""
    return Answer({(source.rank, source.cycle): failure})


def together(questions: Sequence[Question], ones: Sequence[Answer], others: Sequence[Answer]) -> tuple[Answer, ...]:
    """The answers of the ranks of both to several questions, question by question."""
    return tuple(
        one.joined(other, question.combine) for question, one, other in zip(questions, ones, others, strict=True)
    )


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
