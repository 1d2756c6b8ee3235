"""An analysis: one question that can be asked of a job, with its columns, parameters and chart."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, cast

from kinetoscope.charts import Chart
from kinetoscope.errors import UsageError, nearest
from kinetoscope.schema import OverRanks, Param, Parameter, Result, Schema

_ACROSS_RANKS: Final = Parameter(
    "across_ranks",
    str,
    "each",
    "Rows of all ranks that are alike become one: their sum, mean, least or greatest; each: a row for each rank.",
    "",
    typing.get_args(OverRanks),
)
"""The parameter that all analyses have whose rows can be summed over ranks."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """One question that can be asked of a job, and all that the faces need to know about it.

    `function` takes a Job first and only keywords after it; its docstring opens with the question, then says method,
    how to read the answer, and limits.
    """

    title: str
    function: Callable[..., Result]
    schema: Schema
    chart: Chart | None = None
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
        """The parameters that are this analysis's own: all keywords but `select`."""
        hints = typing.get_type_hints(self.function, include_extras=True)
        parameters = []
        for name, parameter in inspect.signature(self.function).parameters.items():
            if parameter.kind is not parameter.KEYWORD_ONLY or name == "select":
                continue
            base, *facts = typing.get_args(hints[name])
            param = next(fact for fact in facts if isinstance(fact, Param))
            parameters.append(
                Parameter(name, cast(type, base), parameter.default, param.doc, param.unit, param.choices)
            )
        return (*parameters, _ACROSS_RANKS) if self.not_over_ranks == "" else tuple(parameters)

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
        result = self.function(job, **{name: value for name, value in params.items() if name != "across_ranks"})
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

    def described(self, result: Result, params: Mapping[str, Any] | None = None) -> Result:
        """`result` with the name and the chart of this analysis, and the parameters that it was asked with."""
        return replace(result, analysis=self.name, params=params or {}, chart_facts=self.chart)
