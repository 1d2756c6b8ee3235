"""Bytes in use by category over time, as torch's profiler computed them: what its memory timeline files hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.model.memory.categories import (
    ACTIVATION,
    AUTOGRAD_DETAIL,
    GRADIENT,
    INPUT,
    PARAMETER,
    STATE,
    TEMPORARY,
    UNKNOWN,
)
from kinetoscope.model.trace.trace import Trace

TORCH_CATEGORIES: Final = (PARAMETER, STATE, INPUT, TEMPORARY, ACTIVATION, GRADIENT, AUTOGRAD_DETAIL, UNKNOWN)
"""Torch's categories, in its order: `_CATEGORY_TO_INDEX` of torch/profiler/_memory_profiler.py."""

SERIES_KEY: Final = "category series"
"""With the URL, under what a trace keeps its series."""


@dataclass(frozen=True)
class CategorySeries:
    """The memory of one device, which the file does not name.

    Attributes:
        time: int64 [instants], ns since 1970, ascending.
        levels: int64 [instants, categories], bytes from each instant on.
    """

    time: Int64s
    levels: Int64s


def series_of(trace: Trace) -> CategorySeries | None:
    """The series of a trace that is a memory timeline file; None for any other."""
    key = SERIES_KEY, trace.source.url
    return trace.keep(key, lambda: None) if trace.source.reader == SERIES_KEY else None
