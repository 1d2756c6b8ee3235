"""The names and kinds of operators' arguments, as torch declares them.

`schemas.txt` was made from torch by `tools/schemas.py`: a line for each overload, without places for results. What
torch calls `self` is `input` here, as in its documentation.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final, Literal, NamedTuple

from kinetoscope.model.roofline.formulas.arguments import Arguments, Tensor

TABLE: Final = Path(__file__).with_name("schemas.txt")

Kind = Literal["Tensor", "Tensor?", "Tensor[]", ""]
"""Of an argument; "" for what is no tensor."""


_MANY_ARGUMENTS: Final = 100
"""More than the arguments of any operator."""


class Overload(NamedTuple):
    """An overload of an operator: kinds of its arguments, and place of each by its name."""

    kinds: tuple[Kind, ...]
    places: Mapping[str, int]


@cache
def schema(arguments: str) -> Overload:
    """The schema of arguments such as `Tensor input, Tensor? weight, eps`; a name alone is what is no tensor."""
    kinds, names = [], []
    for each in arguments.split(", ") if arguments else ():
        kind, _, name = each.rpartition(" ")
        kinds.append(kind)
        names.append(name)
    return Overload(tuple(kinds), {name: place for place, name in enumerate(names)})  # type: ignore[arg-type]


@cache
def _lines() -> dict[str, list[str]]:
    """The arguments of each overload in the table, by operator."""
    overloads: dict[str, list[str]] = {}
    for line in TABLE.read_text("utf-8").splitlines():
        name, _, arguments = line.partition("(")
        overloads.setdefault(name, []).append(arguments[:-1])
    return overloads


@cache
def schemas(name: str) -> tuple[Overload, ...]:
    """The overloads of an operator of torch, its usual one first; () for one that is not in the table.

    After its arguments each may have `out`, the place for its result.
    """
    known = (schema(arguments) for arguments in _lines().get(name, ()))
    return tuple(Overload(each.kinds, {"out": len(each.kinds)} | dict(each.places)) for each in known)


def places(overloads: tuple[Overload, ...], given: Arguments) -> Mapping[str, int]:
    """The place of each argument by its name, in the overload that a call fits best.

    Torch records all arguments of an overload, and after them the places for results where the caller gave them.
    """
    if len(overloads) < 2:
        return overloads[0].places if overloads else {}
    return min(overloads, key=lambda each: _misfit(each, given)).places


def _misfit(overload: Overload, given: Arguments) -> tuple[int, int, int]:
    """Misfits of recorded arguments: tensors where an overload has none and the like, arguments too many, gaps.

    What is recorded beyond the arguments are places for results, which are tensors.
    """
    wrong = sum(_is_wrong(value, kind) for value, kind in zip(given.values, overload.kinds, strict=False))
    missing = sum(kind == "Tensor" and value is None for value, kind in zip(given.values, overload.kinds, strict=False))
    more = given.values[len(overload.kinds) :]
    lacks = len(given.values) < len(overload.kinds)
    return wrong + sum(value is None for value in more), len(more) + lacks * _MANY_ARGUMENTS, missing


def _is_wrong(value: Tensor | tuple[Tensor, ...] | None, kind: Kind) -> bool:
    if isinstance(value, tuple):
        return kind != "Tensor[]"
    is_number = value is None or (value.type is None and not value.shape)  # without types nothing tells them apart
    return not is_number and kind not in ("Tensor", "Tensor?")
