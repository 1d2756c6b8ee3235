"""DEVICE004: images are turned from one layout to another around convolutions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.phrases import each_step, quoted
from kinetoscope.advisor.evidence.stakes import is_worth_it, nothing_changes, stake_over, without
from kinetoscope.advisor.finding import Claim, Evidence
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.algorithms.intervals.intervals import intersection, union
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.views.numbers import shown

_WORDS: Final = ("chwToN", "hwcToN", "batched_transpose_", "nchw2nhwc", "nhwc2nchw")
_NAME: Final = re.compile(
    r"(?:^|[^a-z])(?:nchwToNhwc|nhwcToNchw|ncdhwToNdhwc|ndhwcToNcdhw|nchw2nhwc|nhwc2nchw|batched_transpose_\d)",
    re.IGNORECASE,
)

_LEFT: Final = 0.15
"""What part is left at most: where the images come in and where something else needs the other layout."""


def layout_transposes(look: RankView) -> Iterator[Claim]:
    """Does the device turn images from channels first to channels last, and back, around convolutions?

    What it checks. Kernels of cuDNN and MIOpen that only change the layout (`nchwToNhwc`, `nhwcToNchw`,
    `batched_transpose`).

    Why it matters. Tensor cores want the channels last. If tensors have them first, each convolution turns its inputs
    and outputs: the image is read and written twice more. At stake is what the steps gain if these kernels go, surely
    85 % of them.

    What to do. Keep model and images in the layout that the convolutions want.
    """
    found = rows_named(look.trace, lambda name: _NAME.search(name) is not None, EventKind.KERNEL, holding=_WORDS)
    work = np.flatnonzero(found[look.work.rows] & look.view.work)
    if not len(work) or not look.count:
        return
    low, high = nothing_changes(look), nothing_changes(look)
    without(low, found[look.work.rows] & look.view.work, _LEFT)
    without(high, found[look.work.rows] & look.view.work, 0.0)
    spans = intersection(union(look.work.start[work], look.work.end[work]), look.inside)
    stake = stake_over(look, look.gains(low), look.gains(high), spans)
    if not is_worth_it(look, stake):
        return
    longest = int(work[np.argmax(look.work.duration[work])])
    row = int(look.work.rows[longest])
    start, end = look.shown(look.work.start[longest], look.work.end[longest])
    name = look.trace.strings.glance(int(look.trace.name[row]))
    yield Claim(
        message=f"Images change their layout around convolutions. {each_step(len(work) / look.count, 'kernel')} such as"
        f" {quoted(name)} take {shown(look.each_step(spans.length), 'ns')} of each step.",
        stake=stake,
        change="- model, images = model.cuda(), images.cuda()\n"
        "+ model = model.cuda().to(memory_format=torch.channels_last)\n"
        "+ images = images.cuda().to(memory_format=torch.channels_last)",
        why=f"These kernels go; {_LEFT:.0%} of them stays at most.",
        evidence=(Evidence("the longest of them", "kernels", start=start, end=end, row=row),),
        time=spans,
    )  # fmt: skip


RULE = Rule("DEVICE004", "Layouts change around convolutions", of_rank=layout_transposes)
