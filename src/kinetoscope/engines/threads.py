"""Threads of this process: the reader, the algorithms and Polars leave the GIL, so ranks run side by side.

At most `jobs` traces are alive at a time, however many ranks there are. A job that has no more ranks than that keeps
its traces, so that the next question is answered at once.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from typing import Final

from kinetoscope.caching import SharedCache
from kinetoscope.engines import ENGINES
from kinetoscope.engines.fold_tree import Tree
from kinetoscope.engines.worker import Files, ask
from kinetoscope.errors import UsageError
from kinetoscope.model.analysis import Question, together
from kinetoscope.model.answer import Answer
from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.trace import Trace

# Parameters in glibc's malloc.h, and bytes for each.
_MMAP_THRESHOLD: Final = (-3, 32 << 20)  # glibc before 2.35 takes no more than half a heap of an arena
_TRIM_THRESHOLD: Final = (-1, 2 << 30)
_TOP_PAD: Final = (-2, 64 << 20)


def engine(
    files: Files, *, address: str | None, jobs: int, ranks: int, progress: Callable[[int], None] | None
) -> Threads:
    """See `EngineMaker`."""
    if address is not None:
        raise UsageError(f"threads have no address ({address}): name an engine, {' or '.join([*ENGINES][1:])}")
    return Threads(functools.partial(files.load, progress=progress), jobs=jobs, keep=ranks if ranks <= jobs else 0)


class Threads:
    """The engine for one machine.

    Args:
        load: reads a trace.
        jobs: how many traces are worked on at once.
        keep: how many traces stay in memory for the next question.
    """

    def __init__(self, load: Callable[[Source], Trace], *, jobs: int, keep: int = 1) -> None:
        self._load = load
        self._jobs = max(1, jobs)
        self._kept: SharedCache[Trace] = SharedCache(keep, lambda _: 1, grows=True)

    def trace(self, source: Source) -> Trace:
        """The trace, from memory if it was kept there. Threads that ask for one that is being read wait for it."""
        if not self._kept.limit:
            return self._load(source)
        return self._kept.get(source, lambda: self._load(source))

    def ask(self, sources: Sequence[Source], questions: Sequence[Question]) -> tuple[Answer, ...]:
        """See `Engine.ask`: answers are folded as they come."""
        if len(sources) == 1:
            return self._ask(sources[0], questions)
        keep_freed_memory()
        tree = Tree[tuple[Answer, ...]](len(sources), functools.partial(together, questions))
        waiting = iter(enumerate(sources))
        running: dict[Future[tuple[Answer, ...]], int] = {}
        with ThreadPoolExecutor(self._jobs, "kinetoscope-rank") as pool:
            try:
                while True:
                    while len(running) < self._jobs and (following := next(waiting, None)) is not None:
                        place, source = following
                        running[pool.submit(copy_context().run, self._ask, source, questions)] = place
                    if not running:
                        break
                    done, _ = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        tree.put(running.pop(future), future.result())
            finally:
                for future in running:
                    future.cancel()
        return tree.root or ()

    def close(self) -> None:
        """See `Engine.close`: there is nothing to leave."""

    def _ask(self, source: Source, questions: Sequence[Question]) -> tuple[Answer, ...]:
        return ask(source, lambda: self.trace(source), questions)


@functools.cache
def keep_freed_memory() -> None:
    """From now on freed memory stays with this process, up to 2 GB; does nothing where libc is not glibc.

    By default glibc takes every array above 32 MB (and until it has learned, above 128 KB) from the kernel and gives
    it back when it is freed. Each rank that is read then faults its pages in anew, and the kernel zeroes them under
    one lock of the process: with 64 ranks of 20 MB these are 520,000 faults, and a second thread waits for the first.
    Kept in the heap, the memory of one rank serves the next: a tenth of the faults.
    """
    if not sys.platform.startswith("linux"):
        return
    with contextlib.suppress(AttributeError, OSError):
        libc = ctypes.CDLL(None)
        libc.gnu_get_libc_version  # noqa: B018 - another libc has no such name, and no such options
        for parameter in (_MMAP_THRESHOLD, _TRIM_THRESHOLD, _TOP_PAD):
            libc.mallopt(*parameter)
