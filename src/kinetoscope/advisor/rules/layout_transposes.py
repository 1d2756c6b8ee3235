"""DEVICE004: images are turned from one layout to another around convolutions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.stakes import leave_only, unblocked_launches, with_pauses
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.saving import saving
from kinetoscope.advisor.wording import quoted, share
from kinetoscope.algorithms.arrays import Bools
from kinetoscope.model.roofline.calls import costed_calls
from kinetoscope.model.roofline.formulas.arguments import Tensor
from kinetoscope.model.roofline.fusion import contiguous, tensors_of
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.model.trace.trace import Trace
from kinetoscope.views.sentences import say

_WORDS: Final = ("chwToN", "hwcToN", "batched_transpose_", "nchw2nhwc", "nhwc2nchw")
_NAME: Final = re.compile(
    r"(?:^|[^a-z])(?:nchwToNhwc|nhwcToNchw|ncdhwToNdhwc|ndhwcToNcdhw|nchw2nhwc|nhwc2nchw|batched_transpose_\d)",
    re.IGNORECASE,
)

_FEW_CHANNELS: Final = 4
"""Channels that images from files have at most."""

_TIME_LEFT: Final = 0.15
"""Share that remains at most: where the images come in and where something else needs the other layout."""


def layout_transposes(rank: RankView) -> Iterator[Finding]:
    """Does the device transpose images between channels first and channels last around convolutions?

    What it checks. Kernels of cuDNN and MIOpen that only change the layout (`nchwToNhwc`, `nhwcToNchw`,
    `batched_transpose`); and copies of torch from one layout to the other, of tensors with more than four channels: to
    turn images with fewer once, as they come, is right.

    Why it matters. Tensor cores need the channels last. If tensors have them first, each convolution transposes its
    inputs and outputs, so that the image is read and written twice more. At stake is the time that the steps gain
    without these kernels; 85 % of it are the lower end.

    What to do. Keep model and images in the layout that the convolutions want.
    """
    is_transpose = rows_named(rank.trace, lambda name: _NAME.search(name) is not None, EventKind.KERNEL, holding=_WORDS)
    turns = (is_transpose[rank.work.rows] | _copies_between_layouts(rank.trace)) & rank.scope.device_work_mask
    work = np.flatnonzero(turns)
    if not len(work):
        return
    low, high = unblocked_launches(rank), unblocked_launches(rank)
    leave_only(low, turns, _TIME_LEFT)
    leave_only(high, turns, 0.0)
    spans = with_pauses(rank, turns)
    saved = saving(rank, low, high, spans)
    if saved is None:
        return
    longest = int(work[np.argmax(rank.work.duration[work])])
    row = int(rank.work.rows[longest])
    name = rank.trace.strings.glance(int(rank.trace.name[row]))
    yield saved.finding(
        message=say(
            "Images change their layout around convolutions. {kernels} such as {name} take {takes} of each"
            " step.{limit}",
            kernels=rank.each_step(len(work), "kernel"),
            name=quoted(name),
            takes=saved.per_step,
            limit=saved.limit(saved.took),
        ),
        change="- model, images = model.cuda(), images.cuda()\n"
        "+ model = model.cuda().to(memory_format=torch.channels_last)\n"
        "+ images = images.cuda().to(memory_format=torch.channels_last)",
        why=say("These kernels go; at most {remains} of their time remains.", remains=share(_TIME_LEFT, 1)),
        evidence=rank.event(row, "the longest of them", "kernels"),
    )


def _copies_between_layouts(trace: Trace) -> Bools:
    """Work of copies of images from channels first to channels last, or back: bool [work]."""
    costed = costed_calls(trace)
    turns = [
        variant.name == "aten::copy_"
        and len(tensors) == 2
        and _layouts(*tensors) in (("first", "last"), ("last", "first"))
        for variant, tensors in zip(costed.variants, tensors_of(trace), strict=True)
    ]
    return costed.at(costed.call, turns) > 0


def _layouts(*images: Tensor) -> tuple[str, ...]:
    """The place of the channels of images of one shape: "first" or "last" for each, () where that means nothing."""
    shape = images[0].shape
    if any(each.shape != shape for each in images) or len(shape) not in (4, 5):
        return ()
    if shape[1] <= _FEW_CHANNELS or prod(shape[2:]) <= 1:
        return ()
    turned = contiguous((shape[0], *shape[2:], shape[1]))
    names = {contiguous(shape): "first", (turned[0], turned[-1], *turned[1:-1]): "last"}
    return tuple(names.get(each.strides or (), "") for each in images)


RULE = Rule("DEVICE004", "Layouts change around convolutions", layout_transposes, needs="steps")
