"""MEMORY010: the optimizer's state takes much of the peak, and may be smaller."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kinetoscope.advisor.evidence.peak_owners import peak_owners
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import quoted, share
from kinetoscope.views.sentences import EMPTY, measured, say

_MIN_SHARE: Final = 0.1
"""Share of the peak from which on the state is reported."""

_TWO_MOMENTS_RATIO: Final = 1.9
"""State / parameters of two values for each parameter in its own type; momentum alone has 1, 8-bit states 0.5 to 1."""

_FP32_STATE_RATIO: Final = 3.5
"""Ratio from which on the state has more bits than the parameters: two FP32 values for 16 bits have 4."""

_LEFT_IN_8_BITS: Final = 0.25
"""Share of FP32 that 8 bits take; the scales of blocks of 256 values add a hundredth."""


def large_optimizer_state(rank: RankView) -> Iterator[Finding]:
    """Does the optimizer's state take much of the memory, though 8 bits or sharding would do?

    What it checks. Optimizer state at the peak of a memory snapshot: a tenth of it or more, and about twice the bytes
    of the parameters or more, as the two moments of Adam in FP32 are. Where the device is known to have much memory
    left, nothing is reported.

    Why it matters. Two FP32 values for each parameter are eight bytes; in 8 bits with a scale for each block they are
    two. Sharded over n data-parallel ranks, each holds the n-th part. No time is at stake, so it is a note.

    What to do. Use an optimizer with 8-bit states, or shard the state over the ranks. Both keep what the optimizer
    computes: the first nearly, the second exactly.
    """
    for peak in peak_owners(rank):
        state, parameters = peak.size_of("optimizer state"), peak.size_of("parameter")
        if state < _MIN_SHARE * peak.size or not parameters or state < _TWO_MOMENTS_RATIO * parameters:
            continue
        left, held, whole = int(_LEFT_IN_8_BITS * state), peak.quantity("optimizer state"), peak.quantity()
        if_fp32 = EMPTY if state >= _FP32_STATE_RATIO * parameters else say(", if it is FP32")
        yield Finding(
            message=say(
                "The optimizer's state takes {state} of the {peak} in use at the peak of {device} ({part}), {ratio}"
                " times the parameters. In 8 bits it takes {left}{if_fp32}.",
                state=held,
                peak=whole,
                device=quoted(peak.device),
                part=(held / whole).words(share(state, peak.size).text),
                ratio=measured(state / parameters).words(f"{state / parameters:.1f}"),
                left=measured(left, "bytes"),
                if_fp32=if_fp32,
            ),
            change="- optimizer = torch.optim.AdamW(parameters)\n+ optimizer = bitsandbytes.optim.AdamW8bit(parameters)"
            "  # or torchao's\n+ # several ranks: ZeroRedundancyOptimizer or fully_shard give each its part",
            why="No time is at stake. Adam has eight bytes of state for each parameter in FP32, and two in eight bits.",
            confidence="medium",
            evidence=(peak.evidence("what memory is used for at the peak"),),
            key=peak.device,
        )


RULE = Rule("MEMORY010", "Optimizer state that could be smaller", large_optimizer_state, unfit=frozenset())
