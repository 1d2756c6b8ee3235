"""Hardware counters of kernels as ROCm's tools record them: values that belong to a dispatch."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetoscope.algorithms.arrays import Floats, Int64s
from kinetoscope.algorithms.grouping import distinct_sequences, group_in_order
from kinetoscope.model.trace.build import Coded, TraceBuilder, part


def add_counters(
    built: TraceBuilder,
    kernel: Int64s,
    counter: Coded,
    value: Floats,
    *,
    names: Coded,
    start: Int64s,
    end: Int64s,
    process: Any,
    thread: Any,
) -> None:
    """Add values of counters, as copies of the kernels that have them; those of several units are added up.

    Args:
        built: takes them.
        kernel: the kernel of each value, a row of what follows; −1 for none.
        counter: its name; "" where unknown.
        value: float64 [values].
        names: of the kernels.
        start: of the kernels, ns.
        end: of the kernels, ns.
        process: of the kernels.
        thread: of the kernels.
    """
    is_named = np.array([name != "" for name in counter.values], np.bool_)[counter.codes]
    known = np.flatnonzero((kernel >= 0) & np.isfinite(value) & is_named)
    cells, first = group_in_order(kernel[known], counter.codes[known])
    row, column = kernel[known][first], counter.codes[known][first]
    total = np.bincount(cells, value[known], len(first))
    begins = np.flatnonzero(np.diff(row, prepend=-1))
    same, patterns = distinct_sequences(np.append(begins, len(row)), column.astype(np.int32))
    for pattern, place in enumerate(patterns.tolist()):
        begin = begins[same == pattern]
        last = begins[place + 1] if place + 1 < len(begins) else len(row)
        some = row[begin]
        built.add_as_written(
            "X",
            "cuda_profiler_range",
            names.at(some),
            start[some],
            end[some],
            process=part(process, some),
            thread=part(thread, some),
            arguments={
                counter.values[code]: total[begin + offset]
                for offset, code in enumerate(column[begins[place] : last].tolist())
            },
        )
