"""Compiles functions with Numba, at their first call, and keeps what it compiled on disk.

A compiled function gets arrays and writes into arrays: it allocates nothing, because `_nrt=False` leaves out the atomic
reference counts that cost half of the time of a hot loop. The cache notices a change of the file that a function stands
in, not of a function that it calls from another file. So helpers stand beside their callers.

To import this takes 0.2 s and 70 MB: `compiled` does so where a function was not compiled ahead of time.
"""

from __future__ import annotations

import os
import stat
import tempfile
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba
from numba.core import event
from numba.core.caching import FunctionCache
from numba.core.cpu import CPUTargetOptions
from numba.core.runtime.nrt import rtsys
from numba.extending import intrinsic as numba_intrinsic

from kinetoscope.algorithms import compile_events

P = ParamSpec("P")
R = TypeVar("R")


def _supported(options: dict[str, bool]) -> dict[str, bool]:
    """`options` without those that this version of Numba lacks: they are private, and only speed depends on them."""
    lacking = sorted(name for name in options if not hasattr(CPUTargetOptions, name))
    if lacking:
        message = (
            f"Numba {numba.__version__} lacks {' and '.join(lacking)}: results are the same, but traces are "
            "read more slowly; install a version of Numba that Kinetoscope requires"
        )
        warnings.warn(message, RuntimeWarning, stacklevel=2)
    return {name: value for name, value in options.items() if name not in lacking}


_INLINE_OPTIONS = _supported({"nogil": True, "_nrt": False, "forceinline": True})
_OPTIONS = {name: value for name, value in _INLINE_OPTIONS.items() if name != "forceinline"}
_njit = cast(Any, numba.njit)
_NO_FOLDER = "no locator available"
_warned = threading.Event()


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, compiled for the types of its call; runs without the GIL; kept on disk where that is possible."""
    dispatcher = _njit(**_OPTIONS)(function)
    try:
        dispatcher._cache = _cache(function)  # what cache=True does, with a cache of our own
    except RuntimeError as error:
        if _NO_FOLDER not in str(error):
            raise
        _warn_once(error)
    return cast(Callable[P, R], dispatcher)


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """`function` as a part of those compiled functions of its file that call it: no call, no cache entry of its own."""
    return cast(Callable[P, R], _njit(**_INLINE_OPTIONS)(function))


def intrinsic(function: Callable[..., Any]) -> Any:
    """An instruction that `function` makes: see `numba.extending.intrinsic`."""
    return cast(Any, numba_intrinsic)(function)


def _cache(function: Callable[..., Any]) -> Any:
    """Numba's own folder; else, in a read-only installation whose user has no home, one for temporary files."""
    try:
        return cast(Any, _ForgivingCache)(function)
    except RuntimeError as error:
        folder = _private_folder() if _NO_FOLDER in str(error) else None
        if folder is None:
            raise
    config = cast(Any, numba.config)
    before, config.CACHE_DIR = config.CACHE_DIR, folder
    try:
        return cast(Any, _ForgivingCache)(function)
    finally:
        config.CACHE_DIR = before


@lru_cache(maxsize=1)
def _private_folder() -> str | None:
    """A folder below that of temporary files that nobody else could have made or can write: code is loaded from it."""
    if not hasattr(os, "getuid"):
        return None
    folder = Path(tempfile.gettempdir()) / f"kinetoscope-{os.getuid()}"
    try:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        facts = folder.lstat()
    except OSError:
        return None
    ours = stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid() and not facts.st_mode & 0o077
    return str(folder) if ours else None


def _warn_once(reason: Exception) -> None:
    if not _warned.is_set():
        _warned.set()
        message = (
            f"{reason}; set NUMBA_CACHE_DIR to a folder that can be written, or each run compiles for some seconds"
        )
        warnings.warn(message, compile_events.CompileCacheWarning, stacklevel=3)


class _ForgivingCache(FunctionCache):
    """A cache on a full disk or beyond a quota loses what it was given, not the run; and what it has loads quickly."""

    def __init__(self, function: Callable[..., Any]) -> None:
        cast(Any, super()).__init__(function)
        index = cast(Any, self)._cache_file
        index._load_index = partial(_index_or_none, index._load_index)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        # Numba's own method first imports all that it can compile, 0.2 s at each start. Code that is compiled already
        # needs the symbols of the runtime only; and if there is none, compiling does the rest.
        rtsys.initialize(target_context)
        try:
            return cast(Any, self)._load_overload(sig, target_context)
        except Exception:  # noqa: BLE001 - what a full disk or a killed process left of a pickle raises anything
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            cast(Any, super()).save_overload(sig, data)
        except OSError as error:
            _warn_once(error)


def _index_or_none(load: Callable[[], dict[Any, Any]]) -> dict[Any, Any]:
    """The index of a cache; empty if it names a class that this version of ours does not have, or was cut short."""
    try:
        return load()
    except Exception:  # noqa: BLE001 - what a full disk or a killed process left of a pickle raises anything
        return {}


class _Outermost(event.Listener):
    """Passes on when a function is compiled, not those that are compiled as a part of another."""

    def __init__(self) -> None:
        self._depth = 0

    def on_start(self, what: Any) -> None:
        self._depth += 1
        if self._depth == 1:
            compile_events.tell(_name(what), begins=True)

    def on_end(self, what: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            compile_events.tell(_name(what), begins=False)


def _name(what: Any) -> str:
    return str(what.data["dispatcher"].py_func.__name__)


cast(Any, event).register("numba:compile", _Outermost())
