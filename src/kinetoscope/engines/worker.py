"""The work where a trace is read: it is asked a question, and the answer is sent back.

That is in threads of this process, or in a worker of a cluster, which keeps its traces for the next question.
"""

from __future__ import annotations

import os
import pickle
import platform
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from kinetoscope.caching import SharedCache
from kinetoscope.engines.fold_tree import Tree
from kinetoscope.errors import KinetoscopeError, NotFoundError
from kinetoscope.extensions import modules
from kinetoscope.model.analysis import Question, failed, together
from kinetoscope.model.answer import Answer, Failure
from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.trace import Trace

CACHE_SHARE: Final = 0.4
"""Share of a worker's memory for traces that it keeps. The rest is for those being read and asked."""


@dataclass(frozen=True, slots=True)
class Files:
    """The functions that read files, as they are sent to a worker.

    Attributes:
        load: reads a trace, and tells its keyword `progress` how many bytes it read.
        stamp: a text that changes when the trace of a source does; "" where a store does not tell.
        version: of Kinetoscope: workers need the same one.
    """

    load: Callable[..., Trace]
    stamp: Callable[[Source], str]
    version: str


@dataclass(frozen=True, slots=True)
class RanksAnswer:
    """The answers of a worker about the ranks that it was asked about.

    Attributes:
        answers: to each question.
        read: bytes that were read for it, as stored; 0 where the traces had been kept.
    """

    answers: tuple[Answer, ...]
    read: int = 0


def ask(source: Source, trace: Callable[[], Trace], questions: Sequence[Question]) -> tuple[Answer, ...]:
    """The answers of a rank. Errors in the trace or a question are failures; our own mistakes are raised."""
    try:
        loaded = trace()
    except KinetoscopeError as error:
        return tuple(question.failed(source, Failure.of(error)) for question in questions)
    return tuple(question.of_rank(source, loaded) for question in questions)


def packed(files: Files, questions: Sequence[Question], cloudpickle: Any) -> bytes:
    """Reader and questions as bytes; functions from a module of the user's are sent as code, not as names."""
    names = {_module(function) for each in questions for function in (each.of_trace, each.combine)}
    known = {name: sys.modules[name] for name in names if name in sys.modules}
    known |= {module.__name__: module for module in modules()}
    theirs = [module for name, module in known.items() if name.partition(".")[0] not in _INSTALLED]
    with _as_code:
        for module in theirs:
            cloudpickle.register_pickle_by_value(module)
        try:
            return bytes(cloudpickle.dumps((files, [each.to_send for each in questions])))
        finally:
            for module in theirs:
                cloudpickle.unregister_pickle_by_value(module)


def _module(function: Any) -> str:
    """Name of the module of a function."""
    while isinstance(function, partial):
        function = function.func
    return getattr(function, "__module__", None) or ""


_INSTALLED: Final = ("kinetoscope", "__main__")
"""Packages whose code a worker has, or of which cloudpickle knows that it has not."""

_kept: SharedCache[Trace] | None = None
_lock = threading.Lock()
_as_code = threading.Lock()
"""Which modules are sent as code is a setting of all threads."""


def answered(packed_questions: bytes, sources: bytes, memory: int) -> bytes:
    """In a worker: a `RanksAnswer`, pickled, to what `packed` made.

    Args:
        packed_questions: reader and questions.
        sources: which traces, pickled.
        memory: bytes that this process may use, for all that it does; 0 for its part of the machine's, by CPUs.
    """
    memory = memory or memory_of_this_machine() // (os.cpu_count() or 1)
    # Both are from whoever asks, over the cluster's own connections; nothing in them is from a trace.
    files, questions = pickle.loads(packed_questions)  # noqa: S301
    which: Sequence[Source] = pickle.loads(sources)  # noqa: S301
    tree = Tree[tuple[Answer, ...]](len(which), partial(together, questions))
    read = 0

    def count(more: int) -> None:
        nonlocal read
        read += more

    for place, source in enumerate(which):
        try:
            answers = ask(source, partial(_trace, files, source, memory, count), questions)
        except MemoryError:
            failure = Failure(f"{source.url}: not enough memory on worker {platform.node()}; give workers more")
            answers = (failed(source, failure),) * len(questions)
        tree.put(place, answers)
    return pickle.dumps(RanksAnswer(tree.root or (), read), pickle.HIGHEST_PROTOCOL)


def _trace(files: Files, source: Source, memory: int, count: Callable[[int], None]) -> Trace:
    try:
        version = files.stamp(source)
        if not version:  # it may have changed since it was kept
            return files.load(source, progress=count)
        return _traces(memory).get((source, version), lambda: files.load(source, progress=count))
    except NotFoundError as error:
        hint = f" on worker {platform.node()}; put it where all workers see it: a shared folder or an object store"
        raise NotFoundError(f"{error}{'' if '://' in source.url else hint}") from error


def unpacked(answer: bytes) -> RanksAnswer:
    """The answer that `answered` sent."""
    value = pickle.loads(answer)  # noqa: S301 - from the user's own workers; they got their code from us
    assert isinstance(value, RanksAnswer)
    return value


def _traces(memory: int) -> SharedCache[Trace]:
    global _kept  # noqa: PLW0603 - what a worker keeps outlives the question
    with _lock:
        if _kept is None:
            _kept = SharedCache(
                int(memory * CACHE_SHARE), lambda trace: trace.nbytes + trace.nbytes_derived, grows=True
            )
        return _kept


def memory_of_this_machine() -> int:
    """Bytes of memory that processes here may have together: those of the container, if there is one."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):  # no container, or "max"
            memory = min(memory, int(Path(file).read_text(encoding="ascii")))
    return memory
