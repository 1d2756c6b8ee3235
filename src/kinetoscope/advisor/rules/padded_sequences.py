"""DATA008: sequences of a batch are padded to the longest, and much is computed for the padding."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from kinetoscope.advisor.evidence.source_location import in_source, user_evidence
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.saving import saving
from kinetoscope.advisor.wording import share
from kinetoscope.algorithms.arrays import Bools
from kinetoscope.algorithms.intervals.intervals import Intervals, intersection, union
from kinetoscope.model.critical_path.what_if import Factors
from kinetoscope.model.execution.call_tree import inside, outermost_ops
from kinetoscope.model.execution.device_work import launched_by
from kinetoscope.model.execution.marks import is_data_loading
from kinetoscope.model.execution.optimizers import optimizer_steps
from kinetoscope.model.operators.unfused_attention import unfused_attention
from kinetoscope.model.roofline.floors import Bound, floors
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.model.trace.trace import Trace
from kinetoscope.views.sentences import say

_PAD: Final = "aten::pad_sequence"
_ATTENTION: Final = re.compile(r"attention|flash|fmha", re.IGNORECASE)
_MIN_PADDING: Final = 0.1
"""Share of a batch that is padding, from which on it is reported."""


_CERTAIN_SHARE: Final = 0.5
"""Certain share of the gain: some padding remains, and some work does not grow with the length."""


def padded_sequences(rank: RankView) -> Iterator[Finding]:
    """Are sequences padded that differ much in length?

    What it checks. Calls of `pad_sequence` in the recorded process, which record the length of each sequence: what
    share of the batches is padding. Batches that a loader's workers pad are not seen.

    Why it matters. The model computes for the padding, too. At most, device work (on the host alone: operators) shrinks
    by the share of padding, attention by that of the squares of the lengths, but for the optimizer's. Some padding
    remains, and some work does not grow with the length of sequences, so half of that is the lower end, and none of
    kernels whose floor is shorter than a kernel can be.

    What to do. Put sequences of similar length into a batch (sort, or sample by length), or pack them (nested tensors,
    attention for variable lengths).
    """
    trace = rank.trace
    rows = np.flatnonzero(rows_named(trace, _PAD.__eq__, EventKind.HOST_OP) & rank.scope.host_mask)
    codes = arguments.codes(trace, "input_dims", rows.astype(np.int32))
    sizes = [_sizes(trace.strings.nested(code)) if code >= 0 else (0, 0, 0, 0) for code in codes.tolist()]
    used, padded, squares, squared = (sum(each) for each in zip(*sizes, strict=True)) if sizes else (0, 0, 0, 0)
    padding = 1 - used / padded if padded else 0.0
    if padding < _MIN_PADDING:
        return
    others = optimizer_steps(trace).inside | inside(trace, is_data_loading(trace))
    low, high = rank.factors(), rank.factors()
    if rank.has_device:
        of_lengths = ~launched_by(trace, others)
        limits = floors(trace)
        short = (limits.bound == Bound.LATENCY)[limits.unit]
        low.work[of_lengths & ~short] = 1 - padding
        high.work[of_lengths] = 1 - padding
        high.work[of_lengths & _of_attention(trace)] = min(squares / squared, 1.0)
    else:
        for factors in (low, high):
            factors.host[(trace.kind == EventKind.HOST_OP) & ~others] = 1 - padding
    gone = _part(rank, high)
    saved = saving(rank, _CERTAIN_SHARE * rank.gains(low), high, rank.time, took=gone.length, goes=gone)
    if saved is None:
        return
    longest = rank.longest(rows)
    shown = user_evidence(rank, longest, "the longest call that pads", "operators")
    yield saved.finding(
        message=say(
            "{padding} of the batches is padding{where}. `pad_sequence` pads {batches} to the longest of their"
            " sequences, and what is computed for that takes up to {took} of each step.",
            padding=share(padding, 1.0),
            where=in_source(shown),
            batches=rank.each_step(len(rows), "batch", "batches"),
            took=saved.per_step,
        ),
        change="- DataLoader(dataset, shuffle=True, collate_fn=pad)\n"
        "+ DataLoader(dataset, batch_sampler=by_length, collate_fn=pad)  # similar lengths in a batch",
        why=say(
            "At most, work shrinks by the share of padding, attention by that of the squares; half of it is likely."
        ),
        confidence="medium",
        evidence=shown,
    )


def _part(rank: RankView, factors: Factors) -> Intervals:
    """The part that goes of what computes in the selected steps: the beginning of each piece."""
    trace, work = rank.trace, rank.work
    if rank.has_device:
        start, end, left = work.start, work.end, factors.work
    else:
        rows = np.flatnonzero(outermost_ops(trace) & rank.scope.host_mask)
        start, end, left = trace.start[rows], trace.end[rows], factors.host[rows]
    return intersection(union(start, start + np.rint((end - start) * (1 - left)).astype(np.int64)), rank.time)


def _of_attention(trace: Trace) -> Bools:
    """Work of attention, fused or not, which grows with the square of the length: bool [work]."""
    limits, unfused = floors(trace), unfused_attention(trace)
    fused = [float(_ATTENTION.search(each.name) is not None) for each in limits.calls.variants]
    is_fused = limits.calls.at(limits.call, fused) > 0
    return np.asarray((is_fused | (unfused.products | unfused.between)[limits.row])[limits.unit])


def _sizes(dims: Any) -> tuple[int, int, int, int]:
    """Lengths of the sequences of a batch, summed, and as padded to the longest; the same of their squares."""
    shapes = dims[0] if isinstance(dims, list) and dims and isinstance(dims[0], list) else []
    lengths = [each[0] for each in shapes if isinstance(each, list) and each and isinstance(each[0], int)]
    longest = max(lengths, default=0)
    return sum(lengths), len(lengths) * longest, sum(each**2 for each in lengths), len(lengths) * longest**2


RULE = Rule("DATA008", "Sequences are padded that differ in length", padded_sequences, needs="computation")
