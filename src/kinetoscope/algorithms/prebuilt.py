"""Functions that were compiled ahead of time: an extension beside this file, and a table of what it holds.

Neither Numba nor LLVM is loaded for them, which saves each process 0.4 s of processor time and 95 MB.
`tools/prebuilt.py` makes both files. They are optional: without them, for another file than they were made from, and
for other types of arguments, Numba compiles.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
import threading
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np

EXTENSION: Final = "_prebuilt"
"""The module of the extension, and the name of its table."""

SWITCH: Final = "KINETOSCOPE_PREBUILT"
"""Variable of the environment; with `off`, Numba compiles everything."""

SCALARS: Final[dict[str, tuple[type, ...]]] = {
    "int64": (int, np.int64),
    "uint64": (np.uint64,),
    "int32": (np.int32,),
    "uint8": (np.uint8,),
    "float64": (float, np.float64),
    "bool": (bool, np.bool_),
}
"""Types of a number that Numba takes for each of its own."""

_CONSTANT: Final = (bool, int, float, np.generic, np.ndarray)
"""Types of what compiled code takes from the globals of its file."""

_being_compiled = threading.local()


def function(python: Callable[..., Any]) -> Callable[..., Any] | None:
    """The compiled form of a function; None if there is none of its file as it is."""
    if not is_ready(python):
        return None
    variants = _table()["functions"].get(f"{python.__module__}:{python.__name__}", ())
    return PrebuiltFunction(python, [PrebuiltVariant(symbol, kinds) for symbol, kinds in variants])


def is_ready(python: Callable[..., Any]) -> bool:
    """Was the file of a function, as it is, compiled ahead of time?"""
    module = python.__module__
    return module not in getattr(_being_compiled, "modules", ()) and _is_unchanged(module)


class PrebuiltVariant:
    """One compiled form, for arguments of certain types."""

    def __init__(self, symbol: str, kinds: list[Any]) -> None:
        self._call = getattr(_extension(), symbol)
        self._kinds = [SCALARS[each] if isinstance(each, str) else (np.dtype(each[0]), *each[1:]) for each in kinds]

    def fits(self, arguments: tuple[Any, ...]) -> bool:
        """Are they of its types? It may neither read other numbers nor write into what is read-only."""
        return len(arguments) == len(self._kinds) and all(map(_is_of, arguments, self._kinds))

    def __call__(self, *arguments: Any) -> Any:
        """The result of the compiled code."""
        return self._call(*arguments)


def _is_of(argument: Any, kind: tuple[Any, ...]) -> bool:
    if not isinstance(kind[0], np.dtype):
        return type(argument) in kind
    dtype, dimensions, is_read_only = kind
    if not isinstance(argument, np.ndarray) or argument.dtype != dtype or argument.ndim != dimensions:
        return False
    flags = argument.flags
    return bool(flags.c_contiguous and flags.aligned and (is_read_only or flags.writeable))


class PrebuiltFunction:
    """A function with its compiled forms; what fits none of them, Numba compiles."""

    def __init__(self, python: Callable[..., Any], variants: list[PrebuiltVariant]) -> None:
        self.__wrapped__, self.__name__, self.__doc__ = python, python.__name__, python.__doc__
        self.__module__, self._variants = python.__module__, variants

    def __call__(self, *arguments: Any) -> Any:
        """The type that the function returns."""
        for each in self._variants:
            if each.fits(arguments):
                return each(*arguments)
        return vars(_by_numba(self.__module__))[self.__name__](*arguments)


_LOCK: Final = threading.RLock()


@cache
def _by_numba(name: str) -> ModuleType:
    """A module a second time, all of whose functions Numba compiles."""
    with _LOCK:
        _being_compiled.modules = {*getattr(_being_compiled, "modules", ()), name}
        try:
            spec = importlib.util.find_spec(name)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        finally:
            _being_compiled.modules -= {name}
    for key, value in vars(module).items():
        if isinstance(value, PrebuiltFunction):  # of another file
            vars(module)[key] = vars(_by_numba(value.__module__))[value.__name__]
    return module


def digest(file: str) -> str:
    """The key of a source file in the table."""
    return sha256(Path(file).read_bytes()).hexdigest()


def constants(module: ModuleType) -> dict[str, str]:
    """Values of a module that become part of compiled code, from whatever file they come."""
    return {name: _text(each) for name, each in vars(module).items() if isinstance(each, _CONSTANT)}


def _text(value: Any) -> str:
    return sha256(value.tobytes()).hexdigest() if isinstance(value, np.ndarray) else repr(value)


@cache
def _is_unchanged(module: str) -> bool:
    known, here = _table()["files"].get(module), sys.modules.get(module)
    if known is None or here is None or here.__file__ is None or known["digest"] != digest(here.__file__):
        return False
    there = vars(here)  # while it is imported: what it takes from other files is there
    return all(_text(there[name]) == text for name, text in known["constants"].items() if name in there)


@cache
def _table() -> dict[str, Any]:
    empty: dict[str, Any] = {"files": {}, "functions": {}}
    if os.environ.get(SWITCH) == "off":
        return empty
    try:
        contents: dict[str, Any] = json.loads(Path(__file__).with_name(f"{EXTENSION}.json").read_text("utf-8"))
        _extension()
    except (OSError, ValueError, ImportError):
        return empty
    return contents


@cache
def _extension() -> ModuleType:
    return importlib.import_module(f"{__package__}.{EXTENSION}")
