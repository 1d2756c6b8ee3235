"""DATA008: sequences of a batch are padded to the longest, and much is computed for the padding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from kinetoscope.advisor.evidence.optimizers import optimizer_steps
from kinetoscope.advisor.evidence.source_location import in_source, inside, launched_in, user_source_of
from kinetoscope.advisor.evidence.stakes import is_worth_reporting, shows_computation, stake_by_time
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import share
from kinetoscope.model.execution.marks import is_data_loading
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_named

_PAD: Final = "aten::pad_sequence"
_MIN_PADDING: Final = 0.1
"""Share of a batch that is padding, from which on it is reported."""


_CERTAIN_SHARE: Final = 0.5
"""Certain share of the gain: some padding remains, and some work does not grow with the length."""


def padded_sequences(rank: RankView) -> Iterator[Finding]:
    """Are sequences padded that differ much in length?

    What it checks. Calls of `pad_sequence` in the recorded process, which record the length of each sequence: what
    share of the batches is padding. Batches that a loader's workers pad are not seen.

    Why it matters. The model computes for the padding, too. At most, device work (on the host alone: operators) shrinks
    by the share of padding, but for the optimizer's. Some padding remains, and some work does not grow with the length
    of sequences, so half of that counts as sure.

    What to do. Put sequences of similar length into a batch (sort, or sample by length), or pack them (nested tensors,
    attention for variable lengths).
    """
    if not shows_computation(rank) or not rank.step_count:
        return
    trace = rank.trace
    rows = np.flatnonzero(rows_named(trace, _PAD.__eq__, EventKind.HOST_OP) & rank.scope.host_mask)
    codes = arguments.codes(trace, "input_dims", rows.astype(np.int32))
    sizes = [_sizes(trace.strings.nested(code)) if code >= 0 else (0, 0) for code in codes.tolist()]
    used, padded = (sum(each) for each in zip(*sizes, strict=True)) if sizes else (0, 0)
    padding = 1 - used / padded if padded else 0.0
    if padding < _MIN_PADDING:
        return
    factors = rank.factors()
    others = optimizer_steps(trace).inside | inside(trace, is_data_loading(trace))
    if rank.has_device:
        factors.work[~launched_in(trace, others)] = 1 - padding
    else:
        factors.host[(trace.kind == EventKind.HOST_OP) & ~others] = 1 - padding
    gains = rank.gains(factors)
    stake = stake_by_time(rank, _CERTAIN_SHARE * gains, gains, rank.time)
    if not is_worth_reporting(rank, stake):
        return
    longest = rank.longest(rows)
    where = user_source_of(trace, longest)
    yield Finding(
        message=f"{share(padding, 1.0)} of the batches is padding{in_source(where)}. `pad_sequence` pads"
        f" {rank.each_step(len(rows), 'batch', 'batches')} to the longest of their sequences.",
        stake=stake,
        change="- DataLoader(dataset, shuffle=True, collate_fn=pad)\n"
        "+ DataLoader(dataset, batch_sampler=by_length, collate_fn=pad)  # similar lengths in a batch",
        why="At most, the computation for sequences shrinks by the share of padding; half of that counts as sure.",
        confidence="medium",
        evidence=(rank.event(longest, "the longest call that pads", "operators", where),),
    )


def _sizes(dims: Any) -> tuple[int, int]:
    """Elements of all sequences of a batch along their first dimension, and the same padded to the longest."""
    shapes = dims[0] if isinstance(dims, list) and dims and isinstance(dims[0], list) else []
    lengths = [each[0] for each in shapes if isinstance(each, list) and each and isinstance(each[0], int)]
    return sum(lengths), len(lengths) * max(lengths, default=0)


RULE = Rule("DATA008", "Sequences are padded that differ in length", of_rank=padded_sequences)
