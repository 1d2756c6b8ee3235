# Made by docs/generate.py from src/kinetoscope; do not edit.

from kinetoscope.advisor.advice import advise as advise
from kinetoscope.analyses import ANALYSES as ANALYSES
from kinetoscope.analyses.annotations import annotations as annotations
from kinetoscope.analyses.collectives import collectives as collectives
from kinetoscope.analyses.critical_path import critical_path as critical_path
from kinetoscope.analyses.critical_path_events import critical_path_events as critical_path_events
from kinetoscope.analyses.device_utilization import device_utilization as device_utilization
from kinetoscope.analyses.device_utilization_series import device_utilization_series as device_utilization_series
from kinetoscope.analyses.devices import devices as devices
from kinetoscope.analyses.flame import flame as flame
from kinetoscope.analyses.flops import flops as flops
from kinetoscope.analyses.hardware_counters import hardware_counters as hardware_counters
from kinetoscope.analyses.idle_breakdown import idle_breakdown as idle_breakdown
from kinetoscope.analyses.kernel_kinds import kernel_kinds as kernel_kinds
from kinetoscope.analyses.kernel_sequences import kernel_sequences as kernel_sequences
from kinetoscope.analyses.kernel_spread import kernel_spread as kernel_spread
from kinetoscope.analyses.kernels import kernels as kernels
from kinetoscope.analyses.launch_statistics import launch_statistics as launch_statistics
from kinetoscope.analyses.launches import launches as launches
from kinetoscope.analyses.memory_bandwidth import memory_bandwidth as memory_bandwidth
from kinetoscope.analyses.memory_bandwidth_series import memory_bandwidth_series as memory_bandwidth_series
from kinetoscope.analyses.memory_by_operator import memory_by_operator as memory_by_operator
from kinetoscope.analyses.memory_curve import memory_curve as memory_curve
from kinetoscope.analyses.memory_events import memory_events as memory_events
from kinetoscope.analyses.memory_growth import memory_growth as memory_growth
from kinetoscope.analyses.memory_peak import memory_peak as memory_peak
from kinetoscope.analyses.modules import modules as modules
from kinetoscope.analyses.operator_launch_delay import operator_launch_delay as operator_launch_delay
from kinetoscope.analyses.operator_stacks import operator_stacks as operator_stacks
from kinetoscope.analyses.operators import operators as operators
from kinetoscope.analyses.overlap import overlap as overlap
from kinetoscope.analyses.process_groups import process_groups as process_groups
from kinetoscope.analyses.queue_length import queue_length as queue_length
from kinetoscope.analyses.queue_length_series import queue_length_series as queue_length_series
from kinetoscope.analyses.rank_balance import rank_balance as rank_balance
from kinetoscope.analyses.step_breakdown import step_breakdown as step_breakdown
from kinetoscope.analyses.step_skew import step_skew as step_skew
from kinetoscope.analyses.stragglers import stragglers as stragglers
from kinetoscope.analyses.synchronizations import synchronizations as synchronizations
from kinetoscope.analyses.temporal_breakdown import temporal_breakdown as temporal_breakdown
from kinetoscope.analyses.trace_info import trace_info as trace_info
from kinetoscope.compare.delivery import delivery as delivery
from kinetoscope.compare.diff.diff import diff as diff
from kinetoscope.compare.gate.gate import gate as gate
from kinetoscope.compare.ledger.ledger import ledger as ledger
from kinetoscope.errors import KinetoscopeError as KinetoscopeError
from kinetoscope.integrations.notebook import view as view
from kinetoscope.model.job import Job as Job
from kinetoscope.model.steps.selection import ALL as ALL
from kinetoscope.model.steps.selection import Selection as Selection
from kinetoscope.model.trace.trace import Trace as Trace
from kinetoscope.outputs.convert import convert as convert
from kinetoscope.outputs.report import report as report
from kinetoscope.outputs.summary import summary as summary
from kinetoscope.reading import read as read
from kinetoscope.record.profile import profile as profile
from kinetoscope.record.ranges import range as range  # noqa: A004
from kinetoscope.record.trace_handler import trace_handler as trace_handler
from kinetoscope.schema import Result as Result

HOMES: dict[str, str]
__all__: list[str]
__version__: str
