"""Kinetoscope tells why a PyTorch job is slow, and what to change.

    >>> import kinetoscope
    >>> job = kinetoscope.read("runs/baseline")        # a file, a folder, a glob, a URL
    >>> kinetoscope.step_breakdown(job)                # where the time of each step goes

Importing this is cheap: names are loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kinetoscope.analyses import (
        ANALYSES,
        critical_path,
        critical_path_events,
        device_utilization,
        device_utilization_series,
        flame,
        flops,
        hardware_counters,
        idle_breakdown,
        kernel_kinds,
        kernel_sequences,
        kernels,
        launch_statistics,
        launches,
        memory_bandwidth,
        memory_bandwidth_series,
        memory_by_operator,
        memory_curve,
        memory_events,
        memory_growth,
        memory_peak,
        modules,
        operator_launch_delay,
        operator_stacks,
        operators,
        overlap,
        queue_length,
        queue_length_series,
        step_breakdown,
        synchronizations,
        temporal_breakdown,
        trace_info,
        user_annotations,
    )
    from kinetoscope.errors import KinetoscopeError
    from kinetoscope.model.job import Job
    from kinetoscope.model.selection import ALL, Selection
    from kinetoscope.model.trace import Trace
    from kinetoscope.reading import read
    from kinetoscope.schema import Result

__version__ = "0.1.0.dev0"

_HOMES = {
    "ALL": "model.selection",
    "ANALYSES": "analyses",
    "Job": "model.job",
    "KinetoscopeError": "errors",
    "Result": "schema",
    "Selection": "model.selection",
    "Trace": "model.trace",
    "critical_path": "analyses",
    "critical_path_events": "analyses",
    "device_utilization": "analyses",
    "device_utilization_series": "analyses",
    "flame": "analyses",
    "flops": "analyses",
    "hardware_counters": "analyses",
    "idle_breakdown": "analyses",
    "kernel_kinds": "analyses",
    "kernel_sequences": "analyses",
    "kernels": "analyses",
    "launch_statistics": "analyses",
    "launches": "analyses",
    "memory_bandwidth": "analyses",
    "memory_bandwidth_series": "analyses",
    "memory_by_operator": "analyses",
    "memory_curve": "analyses",
    "memory_events": "analyses",
    "memory_growth": "analyses",
    "memory_peak": "analyses",
    "modules": "analyses",
    "operator_launch_delay": "analyses",
    "operator_stacks": "analyses",
    "operators": "analyses",
    "overlap": "analyses",
    "queue_length": "analyses",
    "queue_length_series": "analyses",
    "read": "reading",
    "step_breakdown": "analyses",
    "synchronizations": "analyses",
    "temporal_breakdown": "analyses",
    "trace_info": "analyses",
    "user_annotations": "analyses",
}

__all__ = [
    "ALL",
    "ANALYSES",
    "Job",
    "KinetoscopeError",
    "Result",
    "Selection",
    "Trace",
    "critical_path",
    "critical_path_events",
    "device_utilization",
    "device_utilization_series",
    "flame",
    "flops",
    "hardware_counters",
    "idle_breakdown",
    "kernel_kinds",
    "kernel_sequences",
    "kernels",
    "launch_statistics",
    "launches",
    "memory_bandwidth",
    "memory_bandwidth_series",
    "memory_by_operator",
    "memory_curve",
    "memory_events",
    "memory_growth",
    "memory_peak",
    "modules",
    "operator_launch_delay",
    "operator_stacks",
    "operators",
    "overlap",
    "queue_length",
    "queue_length_series",
    "read",
    "step_breakdown",
    "synchronizations",
    "temporal_breakdown",
    "trace_info",
    "user_annotations",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
