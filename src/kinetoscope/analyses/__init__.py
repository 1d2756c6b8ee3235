"""The questions that can be asked of a job: one module each, one line each here."""

from __future__ import annotations

from typing import Final

from kinetoscope.analyses.kernels import ANALYSIS as _kernels
from kinetoscope.analyses.kernels import kernels
from kinetoscope.analyses.operators import ANALYSIS as _operators
from kinetoscope.analyses.operators import operators
from kinetoscope.analyses.step_breakdown import ANALYSIS as _step_breakdown
from kinetoscope.analyses.step_breakdown import step_breakdown
from kinetoscope.analyses.temporal_breakdown import ANALYSIS as _temporal_breakdown
from kinetoscope.analyses.temporal_breakdown import temporal_breakdown
from kinetoscope.analyses.trace_info import ANALYSIS as _trace_info
from kinetoscope.analyses.trace_info import trace_info
from kinetoscope.schema import Analysis

ANALYSES: Final[tuple[Analysis, ...]] = (
    _trace_info,
    _step_breakdown,
    _temporal_breakdown,
    _operators,
    _kernels,
)
"""All analyses, in the order in which people ask."""

__all__ = ["ANALYSES", "kernels", "operators", "step_breakdown", "temporal_breakdown", "trace_info"]
