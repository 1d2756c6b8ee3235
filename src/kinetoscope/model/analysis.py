"""An analysis: one question that can be asked of a job, with its columns, parameters and chart."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, cast

import polars as pl

from kinetoscope.charts import Chart
from kinetoscope.errors import UsageError, nearest
from kinetoscope.model.steps.selection import ALL
from kinetoscope.schema import OverRanks, Param, Parameter, Result, Schema

_ACROSS_RANKS: Final = Parameter(
    "across_ranks",
    cast(type, OverRanks),
    "each",
    "Rows of all ranks that are alike become one: their sum, mean, least or greatest; each: a row for each rank.",
    "",
)
"""The parameter that all analyses have whose rows can be summed over ranks."""


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
    combine: Callable[[pl.DataFrame, pl.DataFrame], pl.DataFrame] | None = None
    """Folds the answers of ranks where the answer needs them together; else they are joined in the order of ranks."""

    finish: Callable[..., Any] | None = None
    """Makes the rows of the result from those of all ranks; its keywords are parameters of the analysis, too."""

    across_ranks: bool = False
    """It compares ranks: faces ask all of them, whichever are selected."""

    of_device_work: bool = True
    """It rests on the records of device work: it says so where some were lost."""

    of_operators: bool = False
    """It rests on the operators of device work: it says which replays of graphs have those of their capture."""

    of_calls: bool = True
    """It heeds names of calls that are selected; where it does not, as it is about the whole rank, it says so."""

    selection_notes: Literal["selected", "always", "never"] = "selected"
    """When its first notes say where steps come from and what a selection leaves out: where calls
    are selected; always, as its numbers are of steps; or never, as it selects otherwise."""

    counts_warm_up: bool = False
    """Its times are sums over steps: of everything it says that those of the warm-up are among them."""

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
        parameters = [each for function in self._functions for each in _declared(function)]
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

    def __call__(self, job: Any, **params: Any) -> Result:
        """Run it; the result has name, parameters and chart of the analysis.

        Raises:
            UsageError: a parameter has a value that is none of its choices, or rows cannot be summed over ranks.
        """
        how = params.get("across_ranks", "each")
        self.check(params)
        select = params.get("select", ALL)
        of_rank, *of_all = (
            {each.name: params.get(each.name, each.default) for each in _declared(function)}
            for function in self._functions
        )
        finish = self.finish and functools.partial(self.finish, **of_all[0])
        if self.combine is not None:
            result = job.reduce(self.function, self.combine, finish, self, select, **of_rank)
        else:
            result = job.map(self.function, self, select, finish, **of_rank)
        result = self.described(result, params)
        if how == "each":
            return result
        from kinetoscope.model.across_ranks import over_ranks

        return over_ranks(result, how, len(job.ranks))

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

    def described(self, result: Result, params: Mapping[str, Any] | None = None) -> Result:
        """`result` with the name and the chart of this analysis, and the parameters that it was asked with."""
        return replace(result, analysis=self.name, params=params or {}, chart_facts=self.chart)


@functools.lru_cache(256)
def _declared(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    """The parameters that a function declares: its keywords. Each question needs them several times."""
    return tuple(_parameters(function))


def _parameters(function: Callable[..., Any]) -> Iterator[Parameter]:
    hints = typing.get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY:
            base, *facts = typing.get_args(hints[name])
            param = next(fact for fact in facts if isinstance(fact, Param))
            declared = (param.doc, param.unit, param.check, param.least, param.most)
            yield Parameter(name, cast(type, base), parameter.default, *declared)
