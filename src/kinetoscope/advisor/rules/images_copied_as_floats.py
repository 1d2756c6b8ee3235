"""DATA006: images are copied to the device as floating-point numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from kinetoscope.advisor.evidence.copies_to_device import QUEUED_BYTES, ToDevice, copies_to_device, running, selected
from kinetoscope.advisor.evidence.source_location import event_evidence
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import share
from kinetoscope.algorithms.arrays import Floats, Int64s
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.element_types import element_type
from kinetoscope.views.sentences import measured, say

_COLORS: Final = 3
_CHANNELS: Final = (1, _COLORS, 4)
_MIN_IMAGE_PIXELS: Final = 16
"""Pixels of an image's side."""

_CERTAIN_SHARE: Final = 0.8
"""Certain share of the gain of smaller copies: the device then converts the numbers to floating point."""


def images_copied_as_floats(rank: RankView) -> Iterator[Finding]:
    """Are images copied to the device in a wider type than they need?

    What it checks. Copies from the host to a device by operators whose input has the shape of images or video (a batch,
    1, 3 or 4 channels in front of two sides of 16 pixels or more, or behind them) and a floating-point type.

    Why it matters. Most images have 8 bits a channel: as float32 four times as much is copied, and the loader's workers
    convert, pickle and pin four times as much. At stake is the time that the steps gain if these copies take a quarter
    of their time (half for 16 bits). Eight tenths of it are the lower end, as the device then has to convert. The
    images are assumed to have had 8 bits; with one channel or four, which may be anything (spectrograms, masks, latents
    of an autoencoder), it is a note.

    What to do. Send the bytes, and convert and normalize on the device, where it costs next to nothing.
    """
    trace = rank.trace
    to_device = copies_to_device(trace)
    likely = (
        selected(rank, to_device) & (to_device.op >= 0) & ((to_device.bytes >= QUEUED_BYTES) | (to_device.bytes < 0))
    )
    factor, channels = _shrunk(rank, to_device, np.flatnonzero(likely))
    which = np.flatnonzero(factor < 1)
    if not len(which):
        return
    place = to_device.work[which]
    factors = rank.factors()
    factors.work[place] = factor[which]
    alone = which[to_device.pageable[which]]  # the host is in these calls as long as the copies last
    factors.host[to_device.call[alone]] = factor[alone]
    gains = rank.gains(factors)
    took = rank.work.end[place] - rank.work.start[place]
    call = int(to_device.call[which[np.argmax(took)]])
    size = int(np.maximum(to_device.bytes[which], 0).sum())
    yield Finding(
        message=say(
            "Images are copied to the device as floating-point numbers. {size} take {took} of each step.",
            size=measured(rank.per_step(size), "bytes"),
            took=rank.time_per_step(int(took.sum())),
        ),
        takes=rank.per_step(int(took.sum())),
        stake=rank.stake(_CERTAIN_SHARE * gains, gains),
        factors=factors,
        change="- transforms.ToTensor(), transforms.Normalize(mean, std)  # in the dataset\n"
        "+ transforms.PILToTensor()  # uint8\n"
        "+ images = (images.to(device, non_blocking=True).float() / 255 - mean) / std",
        why=say(
            "With {bits} bits a channel the copies are shorter; the conversion on the device is assumed to cost {part}"
            " of that at most.",
            bits=measured(8),
            part=share(1 - _CERTAIN_SHARE, 1.0),
        ),
        confidence="medium" if (channels[which] == _COLORS).any() else "low",
        evidence=(event_evidence(rank, call, "the call of the longest of them", "memory_bandwidth"),),
        time=running(rank, to_device, which, 1.0 - factor[which]),
    )


def _shrunk(rank: RankView, copies: ToDevice, which: Int64s) -> tuple[Floats, Int64s]:
    """The share of its time that each copy would take with 8 bits a channel, 1 for what is no image; the channels."""
    factor, channels = np.ones(len(copies)), np.zeros(len(copies), np.int64)
    trace, ops = rank.trace, copies.op[which]
    dims, types = (arguments.codes(trace, name, ops) for name in ("input_dims", "input_types"))
    for dim, kind in {*zip(dims.tolist(), types.tolist(), strict=True)}:
        if dim < 0 or kind < 0:
            continue
        here = which[(dims == dim) & (types == kind)]
        seen_channels = _channels(trace.strings.nested(dim))
        size = _float_bytes(trace.strings.nested(kind))
        if seen_channels and size > 1:
            factor[here], channels[here] = 1 / size, seen_channels
    return factor, channels


def _channels(dims: Any) -> int:
    """Channels of images or video; 0 for what has another shape. The source of a copy is its second input."""
    shapes = [each for each in dims if isinstance(each, list) and each] if isinstance(dims, list) else []
    if not shapes or len(shapes[0]) not in (4, 5) or not all(isinstance(size, int) for size in shapes[0]):
        return 0
    shape = shapes[0]
    first = [shape[1], *shape[2:3]][: len(shape) - 3]  # [N, C, H, W]; video: [N, C, T, H, W] or [N, T, C, H, W]
    if min(shape[-2:]) >= _MIN_IMAGE_PIXELS:
        return next((size for size in first if size in _CHANNELS), 0)
    return shape[-1] if shape[-1] in _CHANNELS and min(shape[-3:-1]) >= _MIN_IMAGE_PIXELS else 0


def _float_bytes(types: Any) -> int:
    """Bytes of the first input's elements if they are floating-point numbers; 0 if not."""
    first = types[0] if isinstance(types, list) and types and isinstance(types[0], str) else ""
    copies = element_type(first)
    return copies.bytes if copies is not None and copies.name.startswith(("float", "bfloat")) else 0


RULE = Rule("DATA006", "Images are copied as floating-point numbers", images_copied_as_floats)
