"""Who wants to know when a function is being compiled, without Numba: it is loaded where something has to be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_listeners: list[Callable[[str, bool], None]] = []


class CompileCacheWarning(UserWarning):
    """Compiled code cannot be kept on disk, so each process compiles anew."""


@contextmanager
def on_compile(callback: Callable[[str, bool], None]) -> Iterator[None]:
    """While it is open, `callback(name, True)` before a function is compiled and `callback(name, False)` after it.

    A function that was compiled before is not reported, nor are those that are compiled as a part of another. The
    callback runs in the thread that compiles, and Numba compiles in one thread at a time.
    """
    _listeners.append(callback)
    try:
        yield
    finally:
        _listeners.remove(callback)


def tell(name: str, *, begins: bool) -> None:
    """A function is about to be compiled, or has been."""
    for each in list(_listeners):
        each(name, begins)
