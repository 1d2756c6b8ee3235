"""Graphs of autograd that were dropped without a backward pass: what a forward pass keeps for nobody."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinetoscope.model.memory.categories import ACTIVATION
from kinetoscope.model.snapshot import sites
from kinetoscope.model.snapshot.owners import owners
from kinetoscope.model.snapshot.replay import history, level
from kinetoscope.model.snapshot.sites import stack_sites
from kinetoscope.model.snapshot.snapshot import ALLOC, NONE
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class KeptGraph:
    """Bytes that graphs hold at the peak of a device on which no backward pass runs.

    Attributes:
        size: bytes of activations.
        before: bytes of those that an earlier forward pass made: they go before another one begins, the others stay.
        line: the line of the program that lets them go; "" where that is not recorded.
    """

    size: int
    before: int
    line: str


@derived
def kept_graph(trace: Trace, device: int) -> KeptGraph | None:
    """None unless the history has graphs dropped (`release_variables`), and no event of autograd's engine.

    A history that ends in the first forward pass shows neither: it may be of a training.
    """
    past, owned, known = history(trace, device), owners(trace, device), stack_sites(trace)
    if not len(past.events) or (known.marks & sites.BACKWARD).any():
        return None
    end = np.where(past.free_requested_at != NONE, past.free_requested_at, past.freed_at)
    is_dropped = (end != NONE) & ((known.marks[past.events.stack[end]] & sites.GRAPH_RELEASE) != 0)
    if not is_dropped.any():
        return None
    peak = int(level(trace, device, "requested").argmax()) - 1
    held = past.active_after(peak) & (owned.category == ACTIVATION)
    in_module = (past.events.action == ALLOC) & ((known.marks[past.events.stack] & sites.MODULE_CALL) != 0)
    following = np.flatnonzero(in_module[peak + 1 :])
    next_pass = peak + 1 + int(following[0]) if len(following) else len(past.events)
    goes = held & is_dropped & (end < next_pass)
    stays = held & ~goes
    before = goes if stays.any() else np.zeros_like(goes)
    lines = known.user[past.events.stack[end[before]]]
    lines = lines[lines != NONE]
    line = known.line_of(int(np.bincount(lines).argmax())) if len(lines) else ""
    return KeptGraph(int(past.requested[held].sum()), int(past.requested[before].sum()), line)
