"""From what a user types to an Analysis: a name in either spelling, or a module of their own."""

from __future__ import annotations

import importlib.util
import inspect
import sys
import traceback
from pathlib import Path
from types import ModuleType

from kinetoscope.analyses import NAMES, named
from kinetoscope.errors import InputError, UsageError
from kinetoscope.schema import Analysis, Schema
from kinetoscope.views.text import nearest


def resolve(name: str) -> Analysis:
    """The analysis of this name (`step-breakdown` or `step_breakdown`), or the one in the module at this path.

    Raises:
        UsageError: there is none of this name.
        InputError: the module cannot be loaded, or does not declare one analysis.
    """
    if name.endswith(".py") or "/" in name:
        return own(Path(name))
    wanted = name.replace("-", "_")
    if wanted not in NAMES:
        raise UsageError(
            f"there is no analysis {name!r}{nearest(wanted, NAMES)}; `kinetoscope show` lists them, and a module of"
            " your own is named by its path, as ./mine.py"
        )
    return named(wanted)


def own(path: Path) -> Analysis:
    """The analysis that a user's module declares: `ANALYSIS`, or `RESULT` and one public function.

    Raises:
        InputError: no such file, it fails when it is run, or what it declares is not one analysis.
    """
    module = _loaded(path)
    declared = getattr(module, "ANALYSIS", None)
    if isinstance(declared, Analysis):
        return declared
    schema = getattr(module, "RESULT", None)
    if not isinstance(schema, Schema):
        raise InputError(
            f"{path} declares no analysis: give it ANALYSIS = Analysis(title, function, RESULT), or"
            " RESULT = Schema(...) and one function of the job"
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
    return Analysis(path.stem.replace("_", " "), chosen, schema)


def _loaded(path: Path) -> ModuleType:
    if not path.is_file():
        raise InputError(f"{path}: no such file; a module of your own is a Python file that declares ANALYSIS")
    name = f"kinetoscope_own_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} is not a Python file: its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and annotations look their module up
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever a module of the user's raises
        del sys.modules[name]
        raise InputError(f"{path} cannot be run: {type(error).__name__}: {error}{_line(error, path)}") from error
    return module


def _line(error: Exception, path: Path) -> str:
    """Where in the user's file it happened."""
    if isinstance(error, SyntaxError):
        return ""  # its text names file and line
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f" (line {lines[-1]})" if lines else ""
