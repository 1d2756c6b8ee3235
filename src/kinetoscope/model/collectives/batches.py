"""Kernels of several calls at once, which `batch_isend_irecv` and coalesced collectives launch at their end.

Each call of such a batch has a record of its own on the host (`record_param_comms`) that launches nothing; the kernel
comes later on the same thread and stands in no record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Int32s, Int64s
from kinetoscope.algorithms.trees import tree
from kinetoscope.model.collectives.attributes import KINDS, kind_named
from kinetoscope.model.execution.call_tree import call_tree
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.event_kinds import COMMUNICATION_RECORD, EventKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.model.trace.trace import Trace

_SEND_RECV: Final = ("send", "recv", "send_recv", "all_to_all")
"""Kinds of the calls of a kernel of NCCL that is called SendRecv."""


@dataclass(frozen=True)
class CallBatches:
    """Arguments that kernels without a record take from the calls before them.

    Attributes:
        first: int32 [kernels], the first of the calls that a kernel ends, −1 where it has a record of its own, or none.
        kind: int64 [kernels], place in KINDS of all calls together, −1 likewise.
        elements, peers: int64 [kernels] by the name of an argument: the sum of elements; the other rank if it is the
            same in all calls that name one, else −1. Empty where there are no batches.
    """

    first: Int32s
    kind: Int64s
    elements: dict[str, Int64s]
    peers: dict[str, Int64s]

    def argument(self, name: str, own: Int64s) -> Int64s:
        """An argument by name: the batch's value if the kernel is the batch's last, else the kernel's own."""
        of_batch = self.elements.get(name, self.peers.get(name))
        return own if of_batch is None else np.where(self.first >= 0, of_batch, own)


def joined_calls(trace: Trace, row: Int32s, launch: Int32s, parameters: Int32s) -> CallBatches:
    """For each kernel the calls that it was launched for together.

    `row` and `launch` are the kernels and the calls of the runtime that launched them, `parameters` their records, −1
    for none.
    """
    batches = CallBatches(np.full(len(row), -1, np.int32), np.full(len(row), -1, np.int64), {}, {})
    kernels = np.flatnonzero((parameters < 0) & (launch >= 0) & (arguments.codes(trace, "collective", row) < 0))
    # A replayed graph launches many kernels at once, and none of them for calls of this time.
    launches, counts = np.unique(launch[kernels], return_counts=True)
    kernels = kernels[np.isin(launch[kernels], launches[counts == 1])]
    calls = _without_kernel(trace, parameters)
    if not len(kernels) or not len(calls):
        return batches
    batch, kernels = _batches(trace, kernels, launch[kernels], calls)
    chosen = batch >= 0
    if not chosen.any():
        return batches
    return _summed(trace, batches, calls[chosen], batch[chosen], kernels)


def _without_kernel(trace: Trace, parameters: Int32s) -> Int32s:
    """Records of collectives that launched no kernel: int32, in order of track and time."""
    records = rows_named(trace, COMMUNICATION_RECORD.__eq__, EventKind.HOST_OP, holding=(COMMUNICATION_RECORD,))
    calls = np.flatnonzero(records).astype(np.int32)
    calls = calls[~np.isin(calls, parameters)]
    # A barrier holds an all-reduce: the outer one of two records stands for none.
    outer = tree.ancestor(call_tree(trace).parent, records)
    inside = call_tree(trace).parent[np.flatnonzero(records)]
    around = np.where(inside >= 0, outer[inside], -1)
    calls = calls[~np.isin(calls, around)]
    named = arguments.codes(trace, "collective", calls)
    codes = np.unique(named[named >= 0]).tolist()
    known = [code for code in codes if kind_named(trace.strings.label(code)) is not None]
    calls = calls[np.isin(named, known)]
    return calls[np.lexsort((calls, trace.start[calls], trace.track[calls]))]


def _batches(trace: Trace, kernels: Int64s, launch: Int32s, calls: Int32s) -> tuple[Int64s, Int64s]:
    """For each call the next kernel of its thread, as a place in the kernels that come back; −1 for none."""
    order = np.lexsort((launch, trace.start[launch], trace.track[launch]))
    kernels, launch = kernels[order], launch[order]
    batch = np.full(len(calls), -1, np.int64)
    for track in np.unique(trace.track[calls]).tolist():
        mine = np.flatnonzero(trace.track[calls] == track)
        here = np.flatnonzero(trace.track[launch] == track)
        after = np.searchsorted(trace.start[launch[here]], trace.start[calls[mine]], side="left")
        has = after < len(here)
        batch[mine[has]] = here[after[has]]
    return batch, kernels


def _summed(trace: Trace, batches: CallBatches, calls: Int32s, batch: Int64s, kernels: Int64s) -> CallBatches:
    codes = arguments.codes(trace, "collective", calls)
    kind_of = {code: kind_named(trace.strings.label(code)) for code in np.unique(codes).tolist()}
    elements = {name: np.full(len(batches.first), -1, np.int64) for name in ("elements_in", "elements_out")}
    peers = {name: np.full(len(batches.first), -1, np.int64) for name in ("source_rank", "destination_rank")}
    sizes = {name: arguments.integers(trace, name, calls) for name in elements}
    others = {name: arguments.integers(trace, name, calls) for name in peers}
    begins = np.flatnonzero(np.concatenate([[True], batch[1:] != batch[:-1]]))
    for low, high in zip(begins.tolist(), [*begins[1:].tolist(), len(batch)], strict=True):
        kernel = kernels[batch[low]]
        kinds = {kind_of[code] for code in codes[low:high].tolist()}
        kind = _together({each for each in kinds if each is not None})
        batches.first[kernel] = calls[low]
        batches.kind[kernel] = KINDS.index(kind) if kind else -1
        for name, values in sizes.items():
            given = values[low:high]
            elements[name][kernel] = given.sum() if (given >= 0).all() and (given < 1 << 50).all() else -1
        for name, values in others.items():
            named = np.unique(values[low:high][values[low:high] >= 0])
            peers[name][kernel] = named[0] if len(named) == 1 else -1
    return CallBatches(batches.first, batches.kind, elements, peers)


def _together(kinds: set[str]) -> str | None:
    """The kind of a kernel of calls of these kinds; None where they do not belong together."""
    if len(kinds) == 1:
        return next(iter(kinds))
    return "send_recv" if kinds <= set(_SEND_RECV) else None
