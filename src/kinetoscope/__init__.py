"""Kinetoscope tells why a PyTorch job is slow, and what to change.

    >>> import kinetoscope
    >>> job = kinetoscope.read("runs/baseline")        # a file, a folder, a glob, a URL
    >>> kinetoscope.step_breakdown(job)                # where the time of each step goes
    >>> kinetoscope.advise(job)                        # what to change, and what it would bring

Importing this is cheap: names are loaded when they are first used.
"""

import importlib

TYPE_CHECKING = False  # as in typing, which takes as long to import as all of this

if TYPE_CHECKING:
    from typing import Any

    from kinetoscope.advisor.advice import advise
    from kinetoscope.analyses import ANALYSES
    from kinetoscope.analyses.annotations import annotations
    from kinetoscope.analyses.collectives import collectives
    from kinetoscope.analyses.critical_path import critical_path
    from kinetoscope.analyses.critical_path_events import critical_path_events
    from kinetoscope.analyses.device_utilization import device_utilization
    from kinetoscope.analyses.device_utilization_series import device_utilization_series
    from kinetoscope.analyses.devices import devices
    from kinetoscope.analyses.flame import flame
    from kinetoscope.analyses.flops import flops
    from kinetoscope.analyses.hardware_counters import hardware_counters
    from kinetoscope.analyses.idle_breakdown import idle_breakdown
    from kinetoscope.analyses.kernel_kinds import kernel_kinds
    from kinetoscope.analyses.kernel_sequences import kernel_sequences
    from kinetoscope.analyses.kernel_spread import kernel_spread
    from kinetoscope.analyses.kernels import kernels
    from kinetoscope.analyses.launch_statistics import launch_statistics
    from kinetoscope.analyses.launches import launches
    from kinetoscope.analyses.memory_bandwidth import memory_bandwidth
    from kinetoscope.analyses.memory_bandwidth_series import memory_bandwidth_series
    from kinetoscope.analyses.memory_by_operator import memory_by_operator
    from kinetoscope.analyses.memory_curve import memory_curve
    from kinetoscope.analyses.memory_events import memory_events
    from kinetoscope.analyses.memory_growth import memory_growth
    from kinetoscope.analyses.memory_peak import memory_peak
    from kinetoscope.analyses.modules import modules
    from kinetoscope.analyses.operator_launch_delay import operator_launch_delay
    from kinetoscope.analyses.operator_stacks import operator_stacks
    from kinetoscope.analyses.operators import operators
    from kinetoscope.analyses.overlap import overlap
    from kinetoscope.analyses.process_groups import process_groups
    from kinetoscope.analyses.queue_length import queue_length
    from kinetoscope.analyses.queue_length_series import queue_length_series
    from kinetoscope.analyses.rank_balance import rank_balance
    from kinetoscope.analyses.step_breakdown import step_breakdown
    from kinetoscope.analyses.step_skew import step_skew
    from kinetoscope.analyses.stragglers import stragglers
    from kinetoscope.analyses.synchronizations import synchronizations
    from kinetoscope.analyses.temporal_breakdown import temporal_breakdown
    from kinetoscope.analyses.trace_info import trace_info
    from kinetoscope.compare.delivery import delivery
    from kinetoscope.compare.diff.diff import diff
    from kinetoscope.compare.gate.gate import gate
    from kinetoscope.compare.ledger.ledger import ledger
    from kinetoscope.errors import KinetoscopeError
    from kinetoscope.integrations.notebook import view
    from kinetoscope.model.job import Job
    from kinetoscope.model.steps.selection import ALL, Selection
    from kinetoscope.model.trace.trace import Trace
    from kinetoscope.reading import read
    from kinetoscope.record.profile import profile
    from kinetoscope.record.ranges import range  # noqa: A004 - the name that users look for
    from kinetoscope.record.trace_handler import trace_handler
    from kinetoscope.schema import Result

__version__ = "0.1.0.dev0"

_HOMES = {
    "ALL": "model.steps.selection",
    "ANALYSES": "analyses",
    "Job": "model.job",
    "KinetoscopeError": "errors",
    "Result": "schema",
    "Selection": "model.steps.selection",
    "Trace": "model.trace.trace",
    "advise": "advisor.advice",
    "delivery": "compare.delivery",
    "diff": "compare.diff.diff",
    "gate": "compare.gate.gate",
    "ledger": "compare.ledger.ledger",
    "profile": "record.profile",
    "range": "record.ranges",
    "read": "reading",
    "trace_handler": "record.trace_handler",
    "view": "integrations.notebook",
}
"""Where names come from; an analysis is the function of its module."""

__all__ = [
    "ALL",
    "ANALYSES",
    "Job",
    "KinetoscopeError",
    "Result",
    "Selection",
    "Trace",
    "advise",
    "annotations",
    "collectives",
    "critical_path",
    "critical_path_events",
    "delivery",
    "device_utilization",
    "device_utilization_series",
    "devices",
    "diff",
    "flame",
    "flops",
    "gate",
    "hardware_counters",
    "idle_breakdown",
    "kernel_kinds",
    "kernel_sequences",
    "kernel_spread",
    "kernels",
    "launch_statistics",
    "launches",
    "ledger",
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
    "process_groups",
    "profile",
    "queue_length",
    "queue_length_series",
    "range",
    "rank_balance",
    "read",
    "step_breakdown",
    "step_skew",
    "stragglers",
    "synchronizations",
    "temporal_breakdown",
    "trace_handler",
    "trace_info",
    "view",
]


def __getattr__(name: str) -> "Any":
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES.get(name, f'analyses.{name}')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
