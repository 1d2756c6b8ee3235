"""From what a user types to an Analysis: a name in either spelling, or a module of their own."""

from __future__ import annotations

import inspect
from pathlib import Path

from kinetoscope.analyses import named, names
from kinetoscope.errors import InputError, UsageError, nearest
from kinetoscope.extensions import loaded
from kinetoscope.model.analysis import Analysis
from kinetoscope.schema import Schema


def resolve(name: str) -> Analysis:
    """The analysis of this name (`step-breakdown` or `step_breakdown`), or the one in the module at this path.

    Raises:
        UsageError: there is none of this name.
        InputError: the module cannot be loaded, or does not declare one analysis.
    """
    if name.endswith(".py") or "/" in name:
        return own(Path(name))
    wanted = name.replace("-", "_")
    if wanted not in names():
        raise UsageError(
            f"there is no analysis {name!r}{nearest(wanted, names())}; `kinetoscope show` lists them, and a module of"
            " your own is named by its path, as ./mine.py"
        )
    return named(wanted)


def own(path: Path) -> Analysis:
    """The analysis that a user's module declares: `ANALYSIS`, or `RESULT` and one public function.

    Raises:
        InputError: no such file, it fails when it is run, or what it declares is not one analysis.
    """
    module = loaded(path)
    declared = getattr(module, "ANALYSIS", None)
    if isinstance(declared, Analysis):
        return declared
    schema = getattr(module, "RESULT", None)
    if not isinstance(schema, Schema):
        raise InputError(
            f"{path} declares no analysis: give it ANALYSIS = Analysis(title, function, RESULT), or"
            " RESULT = Schema(...) and one function of the trace"
        )
    functions = {
        name: function
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    }
    chosen = functions.get(path.stem) or (next(iter(functions.values())) if len(functions) == 1 else None)
    if chosen is None:
        raise InputError(
            f"{path} has {len(functions)} public functions ({', '.join(functions) or 'none'}): declare which one it"
            " is with ANALYSIS = Analysis(title, function, RESULT), or begin the names of the others with _"
        )
    try:
        return Analysis(path.stem.replace("_", " "), chosen, schema)
    except UsageError as error:
        raise InputError(f"{path}: {error}") from error
