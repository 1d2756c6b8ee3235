"""The reasons of `idle_breakdown` in words: the same in every sentence that says why a device ran nothing."""

from __future__ import annotations

from typing import Final

WHY_IDLE: Final = {
    ("launch late", "profiler"): "the profiler makes room in its own buffers",
    ("launch late", "data loading"): "the host is loading data",
    ("launch late", "synchronizing call"): "the host waits in a synchronizing call before it launches more",
    ("launch late", "allocating call"): "the host takes or gives back memory before it launches more",
    ("launch late", "graph capture"): "the host captures a graph",
    ("launch late", "other runtime call"): "the host is in calls of the runtime before it launches more",
    ("launch late", "host operator"): "the host runs operators before it launches more",
    ("launch late", "Python"): "the host runs Python before it launches more",
    ("launch late", "nothing recorded"): "nothing is recorded of the host before it launches more",
    ("launch late", "launch call"): "the host is in the call that launches",
    ("launch late", "launch to start"): "what was launched is on its way to the device",
    ("launch latency", "launched just before"): "what was launched is on its way to the device",
    ("launch latency", "launch to start"): "what was launched before starts late, though the device is idle",
    ("waiting", "kernel to kernel"): "the next kernel, launched in time, begins",
    ("waiting", "stream or event"): "what was launched waits for a stream or an event",
    ("unknown", "launch not recorded"): "the launch of what follows was not recorded",
    ("end of step", "no more work"): "no more work follows",
}
"""What happens in idle time, by its reason and detail."""
