"""The questions that can be asked of a job: one module each, one line each here."""

from __future__ import annotations

from typing import Final

from kinetoscope.analyses.critical_path import ANALYSIS as _critical_path
from kinetoscope.analyses.critical_path import critical_path
from kinetoscope.analyses.critical_path_events import ANALYSIS as _critical_path_events
from kinetoscope.analyses.critical_path_events import critical_path_events
from kinetoscope.analyses.device_utilization import ANALYSIS as _device_utilization
from kinetoscope.analyses.device_utilization import device_utilization
from kinetoscope.analyses.device_utilization_series import ANALYSIS as _device_utilization_series
from kinetoscope.analyses.device_utilization_series import device_utilization_series
from kinetoscope.analyses.flame import ANALYSIS as _flame
from kinetoscope.analyses.flame import flame
from kinetoscope.analyses.flops import ANALYSIS as _flops
from kinetoscope.analyses.flops import flops
from kinetoscope.analyses.hardware_counters import ANALYSIS as _hardware_counters
from kinetoscope.analyses.hardware_counters import hardware_counters
from kinetoscope.analyses.idle_breakdown import ANALYSIS as _idle_breakdown
from kinetoscope.analyses.idle_breakdown import idle_breakdown
from kinetoscope.analyses.kernel_kinds import ANALYSIS as _kernel_kinds
from kinetoscope.analyses.kernel_kinds import kernel_kinds
from kinetoscope.analyses.kernel_sequences import ANALYSIS as _kernel_sequences
from kinetoscope.analyses.kernel_sequences import kernel_sequences
from kinetoscope.analyses.kernels import ANALYSIS as _kernels
from kinetoscope.analyses.kernels import kernels
from kinetoscope.analyses.launch_statistics import ANALYSIS as _launch_statistics
from kinetoscope.analyses.launch_statistics import launch_statistics
from kinetoscope.analyses.launches import ANALYSIS as _launches
from kinetoscope.analyses.launches import launches
from kinetoscope.analyses.memory_bandwidth import ANALYSIS as _memory_bandwidth
from kinetoscope.analyses.memory_bandwidth import memory_bandwidth
from kinetoscope.analyses.memory_bandwidth_series import ANALYSIS as _memory_bandwidth_series
from kinetoscope.analyses.memory_bandwidth_series import memory_bandwidth_series
from kinetoscope.analyses.memory_by_operator import ANALYSIS as _memory_by_operator
from kinetoscope.analyses.memory_by_operator import memory_by_operator
from kinetoscope.analyses.memory_curve import ANALYSIS as _memory_curve
from kinetoscope.analyses.memory_curve import memory_curve
from kinetoscope.analyses.memory_events import ANALYSIS as _memory_events
from kinetoscope.analyses.memory_events import memory_events
from kinetoscope.analyses.memory_growth import ANALYSIS as _memory_growth
from kinetoscope.analyses.memory_growth import memory_growth
from kinetoscope.analyses.memory_peak import ANALYSIS as _memory_peak
from kinetoscope.analyses.memory_peak import memory_peak
from kinetoscope.analyses.modules import ANALYSIS as _modules
from kinetoscope.analyses.modules import modules
from kinetoscope.analyses.operator_launch_delay import ANALYSIS as _operator_launch_delay
from kinetoscope.analyses.operator_launch_delay import operator_launch_delay
from kinetoscope.analyses.operator_stacks import ANALYSIS as _operator_stacks
from kinetoscope.analyses.operator_stacks import operator_stacks
from kinetoscope.analyses.operators import ANALYSIS as _operators
from kinetoscope.analyses.operators import operators
from kinetoscope.analyses.overlap import ANALYSIS as _overlap
from kinetoscope.analyses.overlap import overlap
from kinetoscope.analyses.queue_length import ANALYSIS as _queue_length
from kinetoscope.analyses.queue_length import queue_length
from kinetoscope.analyses.queue_length_series import ANALYSIS as _queue_length_series
from kinetoscope.analyses.queue_length_series import queue_length_series
from kinetoscope.analyses.step_breakdown import ANALYSIS as _step_breakdown
from kinetoscope.analyses.step_breakdown import step_breakdown
from kinetoscope.analyses.synchronizations import ANALYSIS as _synchronizations
from kinetoscope.analyses.synchronizations import synchronizations
from kinetoscope.analyses.temporal_breakdown import ANALYSIS as _temporal_breakdown
from kinetoscope.analyses.temporal_breakdown import temporal_breakdown
from kinetoscope.analyses.trace_info import ANALYSIS as _trace_info
from kinetoscope.analyses.trace_info import trace_info
from kinetoscope.analyses.user_annotations import ANALYSIS as _user_annotations
from kinetoscope.analyses.user_annotations import user_annotations
from kinetoscope.schema import Analysis

ANALYSES: Final[tuple[Analysis, ...]] = (
    _trace_info,
    _step_breakdown,
    _temporal_breakdown,
    _operators,
    _operator_stacks,
    _modules,
    _flame,
    _user_annotations,
    _kernels,
    _kernel_kinds,
    _overlap,
    _idle_breakdown,
    _launches,
    _launch_statistics,
    _operator_launch_delay,
    _device_utilization,
    _device_utilization_series,
    _queue_length,
    _queue_length_series,
    _memory_bandwidth,
    _memory_bandwidth_series,
    _memory_curve,
    _memory_peak,
    _memory_growth,
    _memory_by_operator,
    _memory_events,
    _kernel_sequences,
    _flops,
    _hardware_counters,
    _critical_path,
    _critical_path_events,
    _synchronizations,
)
"""All analyses, in the order in which people ask."""

__all__ = [
    "ANALYSES",
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
    "step_breakdown",
    "synchronizations",
    "temporal_breakdown",
    "trace_info",
    "user_annotations",
]
