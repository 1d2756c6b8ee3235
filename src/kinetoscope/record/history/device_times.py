"""Points in the current stream of a device, whose times are asked for later: nothing here waits for the device."""

from __future__ import annotations

import contextlib
import struct
from collections import deque
from typing import Any

import torch

from kinetoscope.record.history import layout
from kinetoscope.record.history.writer import PendingRow


def device_mark(free: list[Any] | None = None) -> Any:
    """An event behind all work of the current stream, one of the free ones or a new one.

    None without CUDA, and while a graph is captured: what is recorded then is a part of the graph.
    """
    with contextlib.suppress(Exception):  # a device that failed
        if torch.cuda.is_initialized() and not torch.cuda.is_current_stream_capturing():
            mark = free.pop() if free else torch.cuda.Event(enable_timing=True)
            mark.record()
            return mark
    return None


class DeviceTimes:
    """Times of steps on the device, by two events each, which are used again once they have passed.

    Attributes:
        first: the event before the step that runs; None without a device, and while a graph is captured.
    """

    def __init__(self) -> None:
        self.first: Any = None
        self._free: list[Any] = []
        self._open: deque[tuple[PendingRow, Any, Any]] = deque()

    def begin(self) -> None:
        """A step starts."""
        if self.first is None:
            self.first = device_mark(self._free)

    def end(self, record: bytes) -> bytes | PendingRow:
        """It has ended; the record, which may be completed later."""
        first, self.first = self.first, None
        last = device_mark(self._free)
        if last is None:
            return record
        row = PendingRow(record)
        self._open.append((row, first, last))
        self.read()
        return row

    def read(self) -> None:
        """Complete the rows of steps that the device has passed; while a graph is captured, asking would end that."""
        with contextlib.suppress(Exception):  # a device that failed
            if not self._open or torch.cuda.is_current_stream_capturing():
                return
            while self._open and self._open[0][2].query():
                row, first, last = self._open.popleft()
                struct.pack_into("<f", row.record, layout.DEVICE_AT, first.elapsed_time(last) * 1e6)
                row.is_known = True
                self._free += (first, last)
