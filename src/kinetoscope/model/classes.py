"""Which kind each event of a trace is, and what kind of work each piece of device work does: whole columns at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kinetoscope.model.kinds import DEVICE_WORK, MEMORY_NAME, WAITS_ON_DEVICE, kind_of
from kinetoscope.model.trace import Trace


def event_kinds(trace: Trace) -> NDArray[np.int8]:
    """The `EventKind` of each event: int8 [events]. One look at `kind_of` for each phase and category that occurs."""
    dense = np.zeros(len(trace.strings) + 1, np.int32)
    dense[trace.category + 1] = 1
    categories = np.flatnonzero(dense) - 1
    dense[categories + 1] = np.arange(len(categories), dtype=np.int32)
    pairs = dense[trace.category + 1] * 256 + trace.ph
    present = np.zeros(len(categories) * 256, np.bool_)
    present[pairs] = True
    kinds = np.zeros(len(present), np.int8)
    for pair in np.flatnonzero(present).tolist():
        kinds[pair] = kind_of(pair & 255, trace.strings.label(int(categories[pair >> 8])), "")
    kind = kinds[pairs]
    for name in (MEMORY_NAME, *WAITS_ON_DEVICE):  # the names that decide
        code = trace.strings.code(name)
        if code >= 0:
            rows = np.flatnonzero(trace.name == code)
            for pair in np.unique(pairs[rows]).tolist():
                category = trace.strings.label(int(categories[pair >> 8]))
                kind[rows[pairs[rows] == pair]] = kind_of(pair & 255, category, name)
    kind.flags.writeable = False
    return kind


def is_device_work(trace: Trace) -> NDArray[np.bool_]:
    """Is each event a kernel, a copy or a set on a device?"""
    return np.isin(trace.kind, DEVICE_WORK)

