"""The query of a URL as typed values: ranks, a Selection, parameters as an analysis declares them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, TypeVar

from starlette.datastructures import QueryParams

from kinetoscope.errors import nearest
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.steps import grammar
from kinetoscope.model.steps.selection import Selection
from kinetoscope.schema import Parameter
from kinetoscope.server.errors import BadValueError

T = TypeVar("T")

MAX_CHARACTERS: Final = 4096
"""Characters of a value."""


@dataclass(frozen=True, slots=True)
class RunPart:
    """A part of a run: ranks, cycle, selection.

    Attributes:
        ranks: the ranks; None for all.
        by_header: the page's header selects them (`rank=`), or nothing does.
        named: something selects them.
        cycle: of the profiler's schedule; None for all.
        select: of each trace.
    """

    ranks: tuple[int, ...] | None
    by_header: bool
    named: bool
    cycle: int | None
    select: Selection

    def ranks_to_ask(self, *, all_ranks: bool) -> tuple[int, ...] | None:
        """The ranks to be asked; what is about all of them together does not heed the one of the header."""
        return None if all_ranks and self.by_header else self.ranks


def run_part(query: QueryParams) -> RunPart:
    """Ranks, cycle and selection.

    Raises:
        BadValueError: a value that it cannot have.
    """
    rank, ranks = _text(query, "rank"), _text(query, "ranks")
    text, cycle = ranks or rank, _text(query, "cycle") or "all"
    return RunPart(
        ranks=None if ranks == "all" or not text else numbers("ranks" if ranks else "rank", text),
        by_header=not ranks,
        named=bool(rank or ranks),
        cycle=None if cycle == "all" else integer("cycle", cycle),
        select=selection(query),
    )


def selection(query: QueryParams) -> Selection:
    """The fields of a Selection that the query has."""

    def field(name: str, parse: Callable[[str], T]) -> T | None:
        text = _text(query, name)
        return _parsed(name, text, parse) if text else None

    return Selection(
        steps=field("steps", grammar.steps),
        time=field("time", grammar.time_range),
        devices=field("device", grammar.numbers),
        streams=field("stream", grammar.numbers),
        threads=field("thread", grammar.numbers),
        annotation=field("annotation", str),
        steps_by=field("steps_by", str),
        name=field("name", str),
        under=field("under", str),
        before=field("before", str),
        after=field("after", str),
    )


def parameters(analysis: Analysis, query: QueryParams) -> dict[str, Any]:
    """The parameters (`p.name=`) that the query has, as the analysis declares them.

    Raises:
        BadValueError: there is no such parameter, or it cannot have that value.
    """
    declared = {parameter.name: parameter for parameter in analysis.parameters}
    given = own_parameters(query)
    for name in given:
        if name not in declared:
            has = f"it has {', '.join(declared)}" if declared else "it has none"
            raise BadValueError(f"{analysis.name} has no parameter {name!r}{nearest(name, declared)}; {has}")
    return {name: _parsed(name, text, partial(grammar.parameter_value, declared[name])) for name, text in given.items()}


def own_parameters(query: QueryParams) -> dict[str, str]:
    """The parameters of an analysis or a page as text, without the `p.` before their names."""
    return {key.removeprefix("p."): _text(query, key) for key in query if key.startswith("p.")}


InputKind = Literal["int", "float", "bool", "text", "choice"]

_INPUT_KINDS: Final[Mapping[type, InputKind]] = {int: "int", float: "float", bool: "bool"}


def kind_of(parameter: Parameter) -> InputKind:
    """The kind of input in a form."""
    if parameter.choices:
        return "choice"
    return _INPUT_KINDS.get(grammar.parameter_type(parameter), "text")


def numbers(name: str, text: str) -> tuple[int, ...]:
    """`0,8-15` → (0, 8, 9, …, 15)."""
    return _parsed(name, text, grammar.numbers)


def _parsed(name: str, text: str, parse: Callable[[str], T]) -> T:
    try:
        return parse(text)
    except ValueError as error:
        raise BadValueError(f"{name}: {error}") from error


def integer(name: str, text: str, *, low: int = -grammar.MAX_NUMBER, high: int = grammar.MAX_NUMBER) -> int:
    """A whole number from `low` to `high`."""
    if re.fullmatch(r"-?[0-9]{1,19}", text) is None or not low <= int(text) <= high:
        ends = f" from {low:,} to {high:,}" if (low, high) != (-grammar.MAX_NUMBER, grammar.MAX_NUMBER) else ""
        raise BadValueError(f"{name} is {text[:60]!r}, not a whole number{ends}")
    return int(text)


def _text(query: Mapping[str, str], name: str) -> str:
    text = query.get(name, "")
    if len(text) > MAX_CHARACTERS:
        raise BadValueError(f"{name} has {len(text):,} characters; it can have {MAX_CHARACTERS:,}")
    return text
