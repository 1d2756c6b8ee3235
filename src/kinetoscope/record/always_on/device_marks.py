"""Points in the current stream of a device, whose times are asked for later: nothing here waits for the device."""

from __future__ import annotations

import contextlib
from typing import Any

import torch


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
