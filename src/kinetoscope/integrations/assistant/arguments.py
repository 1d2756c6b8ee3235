"""What tools take, and whether it is of its kind."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from starlette.datastructures import QueryParams

from kinetoscope.errors import UsageError, nearest
from kinetoscope.integrations.assistant.wording import brief
from kinetoscope.server.query import selection as of_query

MAX_ARGUMENT_CHARACTERS: Final = 20_000
"""Characters of a query or a path."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a tool: `string`, `integer` (from `least` to `most`) or `object`."""

    name: str
    kind: str
    doc: str
    required: bool = False
    least: int = 0
    most: int = 0

    @property
    def schema(self) -> dict[str, Any]:
        """The argument as JSON Schema."""
        bounds = {"minimum": self.least, "maximum": self.most} if self.kind == "integer" else {}
        return {"type": self.kind, "description": self.doc, **bounds}


def checked(tool: str, arguments: tuple[Argument, ...], given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, each of its kind.

    Raises:
        UsageError: one is unknown, missing, or of another kind.
    """
    known = {each.name: each for each in arguments}
    for name in given:
        if name not in known:
            has = f"it takes {', '.join(known)}" if known else "it takes none"
            raise UsageError(f"{tool} has no argument {brief(name)!r}{nearest(name[:60], known)}; {has}")
    for each in arguments:
        if each.required and given.get(each.name) in (None, ""):
            raise UsageError(f"{tool} needs {each.name}: {each.doc}")
    return {name: _value(known[name], value) for name, value in given.items() if value is not None}


def _value(argument: Argument, value: Any) -> Any:
    name = argument.name
    if argument.kind == "string":
        if not isinstance(value, str):
            raise UsageError(f"{name} is {brief(json.dumps(value, default=str))}; it is a text")
        if len(value) > MAX_ARGUMENT_CHARACTERS:
            raise UsageError(f"{name} has {len(value):,} characters; it can have {MAX_ARGUMENT_CHARACTERS:,}")
        return value
    if argument.kind == "object":
        if not isinstance(value, dict):
            raise UsageError(f'{name} is {brief(json.dumps(value, default=str))}; it is an object: {{"by": "rank"}}')
        return value
    if isinstance(value, bool) or not isinstance(value, int) or not argument.least <= value <= argument.most:
        ends = f"from {argument.least:,} to {argument.most:,}"
        raise UsageError(f"{name} is {brief(json.dumps(value, default=str))}; it is a whole number {ends}")
    return value


def selection(given: Mapping[str, Any]) -> Any:
    """The part of each trace that is asked about; `name` is taken by the analysis."""
    fields = ("steps", "time", "device", "under", "before", "after")
    chosen = [(field, given[field]) for field in fields if given.get(field)]
    return of_query(QueryParams([*chosen, *([("name", given["event_name"])] if given.get("event_name") else [])]))
