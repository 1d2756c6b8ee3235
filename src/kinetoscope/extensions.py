"""Extensions: a user's own modules, whose analyses, rules and readers stand beside ours on every face.

An extension is a Python file or an importable module that the user names: by `kinetoscope --extend ./mine.py VERB`, in
the variable KINETOSCOPE_EXTEND (several are joined as in PATH), or by `kinetoscope.extend("mine.py")`. Each `Analysis`,
`Rule` and `Reader` at its top level counts. Nothing else is ever loaded: not what lies beside a trace.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Final, TypeVar

from kinetoscope.errors import InputError

VARIABLE: Final = "KINETOSCOPE_EXTEND"

T = TypeVar("T")

_modules: dict[str, ModuleType] = {}
"""What was loaded, by what the user named."""


def extend(*names: str | os.PathLike[str]) -> None:
    """Load extensions; one that is loaded already stays as it is.

    Args:
        names: Python files, or names of modules that can be imported.

    Raises:
        InputError: one cannot be loaded.
    """
    for each in names:
        if (name := os.fspath(each)) not in _modules:
            is_file = name.endswith(".py") or os.sep in name
            _modules[name] = loaded(Path(name)) if is_file else _imported(name)


def modules() -> tuple[ModuleType, ...]:
    """All extensions; those that the variable names are loaded first.

    Raises:
        InputError: one cannot be loaded.
    """
    if named := os.environ.get(VARIABLE):
        extend(*filter(None, named.split(os.pathsep)))
    return tuple(_modules.values())


def declared(kind: type[T]) -> tuple[T, ...]:
    """What extensions declare of a kind at their top level, each once."""
    values = (value for module in modules() for value in vars(module).values())
    return tuple({id(value): value for value in values if isinstance(value, kind)}.values())


def loaded(path: Path) -> ModuleType:
    """The module of a Python file.

    Raises:
        InputError: no such file, or it fails when it is run.
    """
    if not path.is_file():
        raise InputError(
            f"{path}: no such file; a module of your own is a Python file that declares ANALYSIS, RULE or READER"
        )
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


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:  # whatever a module of the user's raises
        raise InputError(f"{name} cannot be imported: {type(error).__name__}: {error}") from error


def _line(error: Exception, path: Path) -> str:
    """Where in the user's file it happened."""
    if isinstance(error, SyntaxError):
        return ""  # its text names file and line
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f" (line {lines[-1]})" if lines else ""
