"""From the query of a URL to typed values: ranks, a Selection, parameters as an analysis declares them.

Whatever a value cannot be is refused in one line. Numbers are bounded, so that no text makes a list of billions.
"""

from __future__ import annotations

import math
import re
import sys
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from starlette.datastructures import QueryParams

from kinetoscope.model.steps.selection import EVERY_STEP, Selection
from kinetoscope.schema import Analysis, Parameter
from kinetoscope.server.errors import BadValueError
from kinetoscope.views.text import nearest

BEYOND: Final = 1 << 61
"""No number in a question is beyond this; nothing that is computed with it leaves 64 bits."""

MOST: Final = 100_000
"""Numbers in a list."""

_LONGEST: Final = 4096
_SPAN: Final = re.compile(r"(-?[0-9]{1,19})(?:-(-?[0-9]{1,19}))?")
_WORDS: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


@dataclass(frozen=True, slots=True)
class RunPart:
    """Which part of a run is asked about.

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
    cycle = _text(query, "cycle") or "all"
    return RunPart(
        ranks=None
        if ranks == "all"
        else integers("ranks", ranks)
        if ranks
        else integers("rank", rank)
        if rank
        else None,
        by_header=not ranks,
        named=bool(rank or ranks),
        cycle=None if cycle == "all" else integer("cycle", cycle),
        select=selection(query),
    )


def selection(query: QueryParams) -> Selection:
    """The fields of a Selection that the query has."""
    return Selection(
        steps=_steps(_text(query, "steps")),
        time=_time(_text(query, "time")),
        devices=_list(query, "device"),
        streams=_list(query, "stream"),
        threads=_list(query, "thread"),
        annotation=_text(query, "annotation") or None,
        steps_by=_text(query, "steps_by") or None,
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
    return {name: _value(declared[name], text) for name, text in given.items()}


def own_parameters(query: QueryParams) -> dict[str, str]:
    """The parameters of an analysis or a page as text, without the `p.` before their names."""
    return {key.removeprefix("p."): _text(query, key) for key in query if key.startswith("p.")}


def kind_of(parameter: Parameter) -> str:
    """What a form asks for: int, float, bool, choice or text."""
    if parameter.choices:
        return "choice"
    return {int: "int", float: "float", bool: "bool"}.get(_base(parameter), "text")


def integers(name: str, text: str) -> tuple[int, ...]:
    """`0,8-15` → (0, 8, 9, …, 15)."""
    found: list[int] = []
    for each in text.split(","):
        match = _SPAN.fullmatch(each.strip())
        if match is None:
            raise BadValueError(f"{name} is {_quoted(text)}: it takes numbers and ranges of them, as 0,8-15")
        first = _bounded(name, int(match[1]))
        last = _bounded(name, int(match[2])) if match[2] is not None else first
        if last < first:
            raise BadValueError(f"{name} is {_quoted(text)}: the first number of a range is the smaller one")
        if last - first + len(found) >= MOST:
            raise BadValueError(f"{name} lists more than {MOST:,} numbers")
        found.extend(range(first, last + 1))
    return tuple(dict.fromkeys(found))


def integer(name: str, text: str, *, low: int = -BEYOND, high: int = BEYOND) -> int:
    """A whole number from `low` to `high`."""
    if re.fullmatch(r"-?[0-9]{1,19}", text) is None or not low <= int(text) <= high:
        ends = f" from {low:,} to {high:,}" if (low, high) != (-BEYOND, BEYOND) else ""
        raise BadValueError(f"{name} is {_quoted(text)}, not a whole number{ends}")
    return int(text)


def _value(parameter: Parameter, text: str) -> Any:
    """A parameter's text as its type; "" is None where that is possible, and refused elsewhere."""
    kind, name = _base(parameter), parameter.name
    if text == "" and _optional(parameter):
        return None
    if parameter.choices:
        if text not in parameter.choices:
            raise BadValueError(f"{name} is {_quoted(text)}; it can be {', '.join(parameter.choices)}")
        return text
    if kind is bool:
        if text.lower() not in _WORDS:
            raise BadValueError(f"{name} is {_quoted(text)}; it is true or false")
        return _WORDS[text.lower()]
    if kind is int:
        return integer(name, text)
    if kind is float:
        return _number(name, text)
    return text


def _number(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise BadValueError(f"{name} is {_quoted(text)}, not a number")
    return number


def _base(parameter: Parameter) -> Any:
    """Its type without None; a Literal is text."""
    kind: Any = parameter.type
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        kind = next(each for each in typing.get_args(kind) if each is not type(None))
    return kind


def _optional(parameter: Parameter) -> bool:
    return type(None) in typing.get_args(parameter.type)


def _steps(text: str) -> tuple[int, ...] | range | typing.Literal["steady"] | None:
    if text == "steady":
        return "steady"
    if text == "all":
        return EVERY_STEP
    if match := re.fullmatch(r"([0-9]{1,18})-", text):
        return range(int(match[1]), sys.maxsize)
    return integers("steps", text) if text else None


def _time(text: str) -> tuple[int, int] | None:
    if not text:
        return None
    match = _SPAN.fullmatch(text)
    if match is None or match[2] is None:
        raise BadValueError(f"time is {_quoted(text)}: it takes two whole numbers of ns, as 1000-2000")
    begin, end = _bounded("time", int(match[1])), _bounded("time", int(match[2]))
    if end <= begin:
        raise BadValueError(f"time is {_quoted(text)}: it ends before it begins")
    return begin, end


def _list(query: QueryParams, name: str) -> tuple[int, ...] | None:
    text = _text(query, name)
    return integers(name, text) if text else None


def _text(query: Mapping[str, str], name: str) -> str:
    text = query.get(name, "")
    if len(text) > _LONGEST:
        raise BadValueError(f"{name} has {len(text):,} characters; it can have {_LONGEST:,}")
    return text


def _bounded(name: str, number: int) -> int:
    if not -BEYOND <= number <= BEYOND:
        raise BadValueError(f"{name} has the number {number}, which is too large")
    return number


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:59] + "…")
