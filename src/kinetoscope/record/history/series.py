"""The series of a process: a row for each of its steps, made where the step ends and written elsewhere.

The thread that takes steps packs a record and appends it, which is all that it does; of a device it also puts two
events a step into the current stream, and asks whether those of earlier steps have passed, without waiting.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import get_ident
from time import perf_counter_ns
from typing import Any, Final

import torch

from kinetoscope.record.always_on.step_parts import StepParts
from kinetoscope.record.hangs.evidence import restarts
from kinetoscope.record.history import layout
from kinetoscope.record.history.device_times import DeviceTimes
from kinetoscope.record.history.layout import Mark
from kinetoscope.record.history.marks import ProcessMarks
from kinetoscope.record.history.writer import HistoryWriter
from kinetoscope.record.output.guards import unrecorded
from kinetoscope.record.session.options import RecordOptions, rank_identity

_MEMORY_NS: Final = 100_000_000
"""The allocator is asked for what it holds at most so often: that takes longer than the rest of a step."""

_MOST_STEPS: Final = layout.UNKNOWN_INTEGER - 1


class SeriesRecorder:
    """The rows of this process.

    Args:
        folder: of the run.
        options: how to record.
        parts, marks: of the process.
    """

    def __init__(self, folder: str, options: RecordOptions, parts: StepParts, marks: ProcessMarks) -> None:
        self._parts, self._marks = parts, marks
        self._attempt = restarts()
        self._began = perf_counter_ns()
        self._offset = time.time_ns() - perf_counter_ns()
        self._last = 0
        self._samples = 0
        self._memory_asked = 0
        self._calls: dict[int, int] = {}
        self._device = DeviceTimes()
        here = rank_identity()
        head = {
            "format": layout.FORMAT,
            "run": options.run[:200],
            "rank": here.rank,
            "world": here.world,
            "attempt": self._attempt,
            "host": here.host,
            "local_rank": here.local_rank,
            "pid": here.pid,
            "began": self._began + self._offset,
            "fields": layout.FIELDS,
        }
        self._pid = here.pid
        name = f"{here.host}.{here.local_rank}.attempt{self._attempt}.{here.pid}-{self._began + self._offset:x}"
        self.path = Path(folder, layout.FOLDER, name + layout.ENDING)
        self._writer = HistoryWriter(self.path, head, marks.waiting, offset=self._offset, keep_free=options.keep_free)
        parts.on_start, parts.evaluated = self._device.begin, self._evaluated
        marks.watch_garbage()
        self._writer.start()
        _at_end(self.end)

    def watch(self, seen: Callable[[Sequence[bytes], Sequence[Mark]], object]) -> None:
        """Have what is written seen, by the thread that writes."""
        self._writer.seen = seen

    def step(self, now: int, optimizer: Any = None) -> None:
        """A step of the optimizer has ended, which ends that of the run."""
        if not self._last:
            self._first(optimizer)
        parts = self._parts
        self._add(parts.start or self._last or now, now, parts.forward if parts.has_forward else math.nan)
        parts.reset()

    def called(self) -> None:
        """A call that is a step begins, on whatever thread."""
        if not self._last:
            self._first(None)
        now = self._calls[get_ident()] = perf_counter_ns()
        if get_ident() == self._parts.thread:
            self._parts.begin(now)

    def returned(self) -> None:
        """It has ended."""
        began, now = self._calls.pop(get_ident(), 0), perf_counter_ns()
        if not began:
            return
        if get_ident() == self._parts.thread:
            self._add(self._parts.start or began, now, now - began)
            self._parts.reset()
        else:
            self._add(began, now, now - began)

    def end(self) -> None:
        """The program ends, or says so for this process."""
        if os.getpid() != self._pid or self._writer.over:
            return
        self._parts.end_evaluation()
        now = perf_counter_ns()
        self._device.read()
        self._marks.add("end", now, now)
        self._writer.end()

    def withdraw(self) -> None:
        """The rows are of no steps: the file goes."""
        self._writer.end()
        self._parts.on_start = None
        with contextlib.suppress(OSError):
            self.path.unlink()

    def forked(self) -> None:
        """In a child process: the series is the parent's."""
        self._parts.on_start = None
        self._writer.forked()

    def _first(self, optimizer: Any) -> None:
        """The first step ends: what the optimizer counts says how many there were in the run before this process."""
        self._marks.step = steps_before(optimizer)
        if self._attempt or self._marks.step:
            self._marks.add("restart", self._parts.since, self._parts.start or perf_counter_ns())

    def _evaluated(self, start: int, end: int) -> None:
        self._marks.add("evaluation", start, end)
        self._writer.hurry()  # the next steps may be wanted

    def _add(self, start: int, now: int, forward: float) -> None:
        writer, parts, step = self._writer, self._parts, self._marks.step
        self._marks.step = min(step + 1, _MOST_STEPS)
        self._last = now
        if writer.over:
            return
        samples, self._samples = parts.samples - self._samples, parts.samples
        used = reserved = layout.UNKNOWN_INTEGER
        if now - self._memory_asked > _MEMORY_NS:
            self._memory_asked = now
            used, reserved = _memory_now()
        record = layout.RECORD.pack(
            start + self._offset,
            now - start,
            parts.data if parts.has_data else math.nan,
            forward,
            parts.backward if parts.has_backward else math.nan,
            parts.optimizer or math.nan,
            math.nan,
            used,
            reserved,
            writer.resident,
            min(samples, _MOST_STEPS) if samples else layout.UNKNOWN_INTEGER,
            step,
        )
        writer.rows.append(self._device.end(record) if self._device.first is not None else record)


def _memory_now() -> tuple[int, int]:
    """Memory that the allocator has in use, and holds, in units of the record; unknown without a device."""
    with contextlib.suppress(Exception):  # a device that failed
        if torch.cuda.is_initialized():
            facts: Any = torch.cuda.memory_stats_as_nested_dict()
            used, reserved = (facts[name]["all"]["current"] // 512 for name in ("allocated_bytes", "reserved_bytes"))
            return min(used, _MOST_STEPS), min(reserved, _MOST_STEPS)
    return layout.UNKNOWN_INTEGER, layout.UNKNOWN_INTEGER


def steps_before(optimizer: Any) -> int:
    """Steps that an optimizer took before its last one, by its own count, as of a checkpoint; 0 where it counts none.

    A count that is on a device is not asked for: that would wait for it.
    """
    counts = [0]
    with contextlib.suppress(Exception), unrecorded():  # an optimizer of another make
        for state in list(optimizer.state.values())[:1]:
            count = state.get("step", 0)
            if isinstance(count, int | float) or (isinstance(count, torch.Tensor) and count.device.type == "cpu"):
                counts.append(int(count) - 1)
    return min(max(counts), _MOST_STEPS)


def _at_end(act: Any) -> None:
    """Call it when this process ends, one of multiprocessing, too, which does not run what `atexit` has."""
    atexit.register(act)
    multiprocessing: Any = sys.modules.get("multiprocessing")
    if multiprocessing is not None and multiprocessing.parent_process() is not None:
        from multiprocessing.util import Finalize

        Finalize(None, act, exitpriority=1)
