"""Traffic of optimizers: what an update moves, and what its fused form would move."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Floats
from kinetoscope.algorithms.trees.tree import ancestor
from kinetoscope.model.execution.call_tree import call_tree
from kinetoscope.model.execution.optimizers import optimizer_steps
from kinetoscope.model.roofline.calls import costed_calls
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace

_FUSED_PASSES: Final = {"Adam": 7, "AdamW": 7, "Adagrad": 5, "SGD": 5}
"""How often an update in one kernel reads or writes a number for each parameter: Adam reads parameter, gradient and two
states, and writes all but the gradient. SGD without momentum has no state."""

_PLAIN_SGD_PASSES: Final = 3
_MOMENTUM_PASSES: Final = 6.5
"""From so many reads and writes of each parameter on, SGD has momentum."""

_RARE_CALL_SHARE: Final = 0.1
"""Share of the most frequent operator's calls below which an operator is not called for each parameter."""

_CLASS: Final = re.compile(r"Optimizer\.step#(\w+)\.step")


class UpdateTraffic(NamedTuple):
    """Bytes of some updates: as they ran, and in the fused form."""

    moved: float
    fused: float


def update_traffic(trace: Trace, within: Bools, optimizer: str) -> UpdateTraffic | None:
    """The traffic of the updates in some calls (bool [events]) of an optimizer; None for one that has no fused form."""
    costed = costed_calls(trace)
    moved = costed.of_calls([variant.bytes for variant in costed.variants])
    mine = within[costed.rows] & ~np.isnan(moved)
    passes = _FUSED_PASSES.get(optimizer)
    if passes is None or not mine.any():
        return None
    _, name, counts = np.unique(trace.name[costed.rows[mine]], return_inverse=True, return_counts=True)
    sums = np.bincount(name, moved[mine])[counts >= _RARE_CALL_SHARE * counts.max()]
    total, parameters = float(moved[mine].sum()), float(sums.min()) / 2  # the shortest pass reads and writes each once
    if optimizer == "SGD" and total < _MOMENTUM_PASSES * parameters:
        passes = _PLAIN_SGD_PASSES
    return UpdateTraffic(total, passes * parameters)


@derived
def saved_by_fused_updates(trace: Trace) -> Floats:
    """Bytes of each costed call that the fused form of its optimizer spares: float64 [costed calls]."""
    costed = costed_calls(trace)
    saved = np.zeros(len(costed))
    spans = optimizer_steps(trace)
    steps = np.flatnonzero(spans.rows)
    around = np.where(spans.inside, ancestor(call_tree(trace).parent, spans.rows), -1)
    code = np.where(around >= 0, trace.name[around], -1) if len(trace) else around
    for name in np.unique(trace.name[steps]).tolist():
        match = _CLASS.fullmatch(trace.strings.label(name))
        traffic = update_traffic(trace, code == name, match[1]) if match else None
        if traffic is not None and traffic.fused < traffic.moved:
            mine = code[costed.rows] == name
            moved = costed.of_calls([variant.bytes for variant in costed.variants])
            saved[mine] = np.nan_to_num(moved[mine]) * (1.0 - traffic.fused / traffic.moved)
    return saved
