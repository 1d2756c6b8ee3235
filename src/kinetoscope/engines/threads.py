"""Threads of this process: the reader, the algorithms and Polars leave the GIL, so ranks run side by side.

At most `jobs` traces are alive at a time, however many ranks there are. A job that has no more ranks than that keeps
its traces, so that the next question is answered at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from kinetoscope.caching import SharedCache
from kinetoscope.engines.fold_tree import folded
from kinetoscope.engines.malloc import keep_freed_memory
from kinetoscope.engines.worker import ask
from kinetoscope.model.job import Combine, Failure, Partial, Task
from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.trace import Trace

Load = Callable[[Source], Trace]


class Threads:
    """The engine for one machine.

    Args:
        load: reads a trace.
        jobs: how many traces are worked on at once.
        keep: how many traces stay in memory for the next question.
    """

    def __init__(self, load: Load, *, jobs: int, keep: int = 1) -> None:
        self._load = load
        self._jobs = max(1, jobs)
        self._kept: SharedCache[Trace] = SharedCache(keep, lambda _: 1, grows=True)

    def trace(self, source: Source) -> Trace:
        """The trace, from memory if it was kept there. Threads that ask for one that is being read wait for it."""
        if not self._kept.limit:
            return self._load(source)
        return self._kept.get(source, lambda: self._load(source))

    def map(self, sources: Sequence[Source], task: Task) -> Iterator[tuple[Source, Partial | Failure]]:
        """See `Engine.map`."""
        if len(sources) == 1:
            yield sources[0], self._ask(sources[0], task)
            return
        keep_freed_memory()
        waiting = iter(sources)
        with ThreadPoolExecutor(self._jobs, "kinetoscope-rank") as pool:
            running: dict[Future[Partial | Failure], Source] = {}
            try:
                while True:
                    while len(running) < self._jobs and (source := next(waiting, None)) is not None:
                        running[pool.submit(self._ask, source, task)] = source
                    if not running:
                        return
                    done, _ = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        yield running.pop(future), future.result()
            finally:
                for future in running:
                    future.cancel()

    def reduce(
        self, sources: Sequence[Source], task: Task, combine: Combine
    ) -> tuple[Partial | None, dict[Source, Failure]]:
        """See `Engine.reduce`: answers are folded as they come."""
        return folded(sources, self.map(sources, task), combine)

    def _ask(self, source: Source, task: Task) -> Partial | Failure:
        return ask(lambda: self.trace(source), task)
