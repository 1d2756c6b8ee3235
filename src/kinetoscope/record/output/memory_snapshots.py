"""Snapshots of the CUDA allocator's memory, beside the traces: with each window, and where memory runs out.

Torch keeps the last so many events of the allocator with their Python stacks, from when CUDA comes up in the process;
bringing it up is the program's. A snapshot is what torch's `_dump_snapshot` writes, under the name of the trace, in the
folder `snapshots` of the run. A history that the program records itself is left as it is: its snapshots are taken, too.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from kinetoscope.record.output.guards import TellOnce, described, free_memory, harmless, tell
from kinetoscope.record.session.options import DEFAULTS, rank_identity

FOLDER: Final = "snapshots"
"""The folder in that of the run."""

ENDING: Final = ".memory.pickle"
"""What follows the name of the trace, without its own ending."""

OUT_OF_MEMORY: Final = "out of memory"
"""How the reason begins for which a window ends where memory ran out."""

MAX_COST_S: Final = 60.0
"""Seconds that a process spends on snapshots for want of memory in all."""

MAX_KEPT: Final = 3
"""Snapshots for want of memory of a process that are kept: the last ones."""

BYTES_PER_EVENT: Final = 3500
"""Bytes of memory that a snapshot takes for each event while it is made: 2,700 measured with 30 frames each."""

_PICKLE_PROTOCOL: Final = 4
"""The version that pytorch.org/memory_viz reads, too."""


class OutOfMemoryListener(Protocol):
    """Someone who is to hear that memory ran out."""

    def ran_out_of_memory(self, why: str) -> None:
        """Called on the thread that asked for memory, before torch raises."""
        ...


listeners: Final[weakref.WeakSet[OutOfMemoryListener]] = weakref.WeakSet()
"""Recorders of this process."""


class MemoryHistory:
    """The history of the allocator in this process: torch has one.

    Attributes:
        step: number of the step that runs.
        recording: torch records the history: annotations are part of it, whether a profiler runs or not.
        last: the path of the last snapshot for want of memory; "" before.
    """

    def __init__(self) -> None:
        self.step, self.last, self.recording = 0, "", False
        self._lock = threading.Lock()
        self._folders: dict[str, int] = {}
        self._max_entries = 0
        self._queued = self._ours = False
        self._record: Callable[..., Any] | None = None
        self._say = TellOnce(tell)
        self._seconds = 0.0
        self._marked: dict[int, str] = {}
        self._written: deque[Path] = deque()

    def keep(self, folder: str, max_entries: int) -> None:
        """Have the history recorded, for snapshots in this folder."""
        with self._lock:
            self._folders[folder] = self._folders.get(folder, 0) + 1
            self._max_entries = max(self._max_entries, max_entries)
        if self._queued or self.recording:
            return
        import torch

        if torch.cuda.is_initialized():
            self._start()
        else:
            self._queued = True
            # A process that never uses the device, or forks before it does, is as without us.
            torch.cuda._lazy_call(self._start)

    def leave(self, folder: str) -> None:
        """Whoever wanted snapshots in this folder wants no more."""
        with self._lock:
            self._folders[folder] = self._folders.get(folder, 1) - 1
            self._folders = {each: users for each, users in self._folders.items() if users}
            ends, self._ours = self._ours and not self._folders, self._ours and bool(self._folders)
        self.recording = self.recording and bool(self._folders)
        if ends and self._record is not None:
            harmless(None)(self._record)(None)

    @harmless(None)
    def _start(self) -> None:
        """CUDA is up: record from here on."""
        import torch

        self._queued = False
        if not self._folders or self._ours:
            return
        backend = torch.cuda.get_allocator_backend()
        if backend != "native":
            self._say(f"the allocator {backend} has no history: no snapshot of memory is taken")
            return
        if self._record is None:
            self._record = torch.cuda.memory._record_memory_history
            torch.cuda.memory._record_memory_history = self._given_way(self._record)
            torch._C._cuda_attach_out_of_memory_observer(self._ran_out)  # there is no way to take it off again
        if not _enabled():
            self._record("all", **arguments(self._record, self._max_entries))
            self._ours = True
            if torch.cuda.memory_allocated():
                self._say("memory was in use before its history began: what holds that has no stacks in snapshots")
        self.recording = True
        self.mark(self.step)

    def _given_way(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """The program may record or end the history itself: from then on it is the program's, to end, too."""

        @functools.wraps(original)
        def heard(*args: Any, **kwargs: Any) -> Any:
            self._ours = False
            return original(*args, **kwargs)

        return heard

    def mark(self, step: int) -> None:
        """The step of this number begins, on the calling thread: its events carry it (torch 2.10 or newer)."""
        self.step = step
        if self.recording:
            self._mark(json.dumps({"step": step}))

    @harmless(None)
    def _mark(self, text: str) -> None:
        import torch

        memory: Any = torch.cuda.memory
        thread = threading.get_ident()
        if hasattr(memory, "_set_memory_metadata") and memory._get_memory_metadata() in ("", self._marked.get(thread)):
            memory._set_memory_metadata(text)
            self._marked[thread] = text

    def take(self, folder: str, name: str, note: Mapping[str, Any] | None = None) -> str:
        """A snapshot under this name; its path, "" where there is none to take.

        `note` becomes one more of its annotations.

        Raises:
            OSError: it cannot be written.
        """
        import torch

        why = "a store takes traces only" if "://" in folder else ""
        if not why and not torch.cuda.is_initialized():
            why = "this process uses no CUDA device"
        if not why and not _enabled():
            why = "nothing records its history"
        free = free_memory()
        if not why and free and free < 2 * BYTES_PER_EVENT * self._max_entries:
            why = f"only {free >> 20} MB of the host's memory are free"
        if why:
            self._say(f"no snapshot of memory was taken: {why}")
            return ""
        import pickle

        target = Path(folder) / FOLDER / f"{name}{ENDING}"
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f"{target.name}.part")
        try:
            snapshot: dict[str, Any] = torch.cuda.memory._snapshot()
            if note is not None:
                snapshot.setdefault("external_annotations", []).append(note)
            with part.open("wb") as file:
                pickle.dump(snapshot, file, _PICKLE_PROTOCOL)
            del snapshot
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
        return str(target)

    @harmless(None)
    def _ran_out(self, device: int, asked: int, total: int, free: int) -> None:
        """Torch is about to raise; no lock of the allocator is held."""
        now = time.time_ns() // 1000
        why = why_out_of_memory(device, asked, total, free, _capacity(device))
        for each in list(listeners):
            harmless(None)(each.ran_out_of_memory)(why)
        if self._seconds > MAX_COST_S or not self._lock.acquire(blocking=False):
            return
        began = time.monotonic()
        facts = json.dumps({"device": device, "asked": asked, "total": total, "free": free})
        note = {"name": f"{OUT_OF_MEMORY} {facts}", "stage": "START", "device": device, "time_us": now}
        try:
            self._keep_last(why, note)
        finally:
            self._seconds += time.monotonic() - began
            self._lock.release()

    def _keep_last(self, why: str, note: Mapping[str, Any]) -> None:
        where = rank_identity()
        name = f"{where.host}_{where.pid}.rank{where.rank}of{where.world}.step{self.step}.{time.time_ns()}.oom"
        for folder in list(self._folders):
            try:
                path = self.take(folder, name, note)
            except OSError as error:
                tell(f"{why}; no snapshot: {described(error)}")
                continue
            if path:
                tell(f"{why}; `kinetoscope summary {path}` says who holds it")
                self.last = path
                self._written.append(Path(path))
        while len(self._written) > MAX_KEPT * max(len(self._folders), 1):
            with contextlib.suppress(OSError):
                self._written.popleft().unlink()

    def forked(self) -> None:
        """In a child of fork a device that is up cannot be used; what waits for it to come up waits here, too."""
        self._lock = threading.Lock()
        self._ours = self.recording = False
        self._written.clear()


history: Final = MemoryHistory()
"""That of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=history.forked)


def keep_early(folder: str | os.PathLike[str], options: Mapping[str, Any]) -> None:
    """A framework's callback is made with the options of `profile`: begin before the model is on its device.

    `profile` comes later, and ends with its own folder; this one stays.
    """
    limits = options.get("options") or DEFAULTS
    if options.get("memory_snapshot") or limits.memory_snapshot:
        harmless(None)(history.keep)(os.path.abspath(folder), limits.max_memory_events)  # noqa: PTH100 - a text


def arguments(record: Callable[..., Any], max_entries: int) -> dict[str, Any]:
    """The arguments of a torch's `_record_memory_history`, from 2.1 on, besides the first.

    Raises:
        RuntimeError: this torch is older, and knows none of them.
    """
    import inspect

    known = inspect.signature(record).parameters
    if "max_entries" not in known:
        raise RuntimeError("this torch has no history of memory; 2.1 has")
    wanted = {
        "context": "all",
        "stacks": "python",
        "max_entries": max_entries,
        "compile_context": True,
        "global_record_annotations": True,
    }
    return {name: value for name, value in wanted.items() if name in known}


def _enabled() -> bool:
    """True if torch records a history, ours or the program's; older ones do not tell."""
    torch: Any = sys.modules["torch"]
    enabled = getattr(torch._C, "_cuda_isHistoryEnabled", None)
    return bool(enabled()) if enabled is not None else history.recording


def why_out_of_memory(device: int, asked: int, total: int, free: int, capacity: int) -> str:
    """The reason in words; where the process may take a part of the device only, torch gives that part as `total`."""
    why = f"{OUT_OF_MEMORY}: {asked >> 20} MB asked for on device {device}, "
    if total < max(capacity, free):
        return f"{why}{free >> 20} MB of it free, and the process may have {total >> 20} MB"
    return f"{why}{free >> 20} of {total >> 20} MB free"


@harmless(0)
def _capacity(device: int) -> int:
    import torch

    return int(torch.cuda.get_device_properties(device).total_memory)
