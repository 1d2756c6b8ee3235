"""What runs where a trace is: a question is asked of it, and the answer sent back.

In threads of this process, or in a worker of a cluster, which keeps the traces that it read for the next question.
"""

from __future__ import annotations

import os
import pickle
import platform
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from kinetoscope.engines.kept import Kept
from kinetoscope.errors import KinetoscopeError, NotFoundError, UsageError
from kinetoscope.model.job import Failure, Partial, Task
from kinetoscope.model.source import Source
from kinetoscope.model.trace import Trace

SHARE: Final = 0.4
"""Of the memory of a worker, for traces that it keeps. The rest is for those being read and asked."""


@dataclass(frozen=True, slots=True)
class Files:
    """How files are read, as it is sent to a worker.

    Attributes:
        load: reads a trace, and tells its keyword `progress` how many bytes it read.
        stamp: a text that changes when the file at a URL does; "" where that cannot be told.
        version: of Kinetoscope: workers need the same one.
    """

    load: Callable[..., Trace]
    stamp: Callable[[str], str]
    version: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What a worker sends back.

    Attributes:
        answer: the rows, or why there are none.
        read: bytes that were read for it, as stored; 0 where the trace had been kept.
    """

    answer: Partial | Failure
    read: int = 0


def ask(trace: Callable[[], Trace], task: Task) -> Partial | Failure:
    """Ask the trace; what we can name as wrong with it or with the question is a Failure, our own mistakes are not."""
    try:
        return task(trace())
    except KinetoscopeError as error:
        return Failure(str(error), usage=isinstance(error, UsageError))


def packed(files: Files, task: Task, cloudpickle: Any) -> bytes:
    """Reader and question, to be sent; a function from a module of the user's is sent as code, not as its name."""
    module = sys.modules.get(task.of_trace.__module__)
    if module is None or module.__name__.partition(".")[0] in ("kinetoscope", "__main__"):
        return bytes(cloudpickle.dumps((files, task)))
    with _as_code:
        cloudpickle.register_pickle_by_value(module)
        try:
            return bytes(cloudpickle.dumps((files, task)))
        finally:
            cloudpickle.unregister_pickle_by_value(module)


_kept: Kept | None = None
_lock = threading.Lock()
_as_code = threading.Lock()
"""Which modules are sent as code is a setting of all threads."""


def answered(question: bytes, source: bytes, memory: int) -> bytes:
    """In a worker: an `Answer`, pickled, to what `packed` made.

    Args:
        question: reader and question.
        source: which trace, pickled.
        memory: bytes that this process may use, for all that it does.
    """
    # Both are from whoever put the question, over the cluster's own connections; nothing in them is from a trace.
    files, task = pickle.loads(question)  # noqa: S301
    which: Source = pickle.loads(source)  # noqa: S301
    read = 0

    def count(more: int) -> None:
        nonlocal read
        read += more

    def trace() -> Trace:
        try:
            version = files.stamp(which.url)
            if not version:  # it may have changed since it was kept
                return cast(Trace, files.load(which, progress=count))
            return _traces(memory).get((which, version), lambda: files.load(which, progress=count))
        except NotFoundError as error:
            raise NotFoundError(f"{error}{_unshared(which)}") from error

    try:
        answer = ask(trace, task)
    except MemoryError:
        answer = Failure(f"{which.url}: not enough memory on worker {platform.node()}; give workers more")
    return pickle.dumps(Answer(answer, read), pickle.HIGHEST_PROTOCOL)


def unpacked(answer: bytes) -> Answer:
    """What `answered` sent."""
    found = pickle.loads(answer)  # noqa: S301 - from the user's own workers; they got their code from us
    assert isinstance(found, Answer)
    return found


def _traces(memory: int) -> Kept:
    global _kept  # noqa: PLW0603 - what a worker keeps outlives the question
    with _lock:
        if _kept is None:
            _kept = Kept(int(memory * SHARE), _bytes)
        return _kept


def _bytes(trace: Trace) -> int:
    return trace.nbytes + trace.nbytes_derived


def _unshared(source: Source) -> str:
    if "://" in source.url:
        return ""
    return f" on worker {platform.node()}; put it where all workers see it: a shared folder or an object store"


def memory_of_this_machine() -> int:
    """Bytes of memory that processes here may have together: those of the container, if there is one."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        text = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
    except OSError:
        return whole
    return min(whole, int(text)) if text.isdecimal() else whole
