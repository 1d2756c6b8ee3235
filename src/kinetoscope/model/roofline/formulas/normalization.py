"""What normalizations and soft-max compute and move, forward and backward.

Compulsory is the input once and the result once, with weights and statistics; implementations may read the input twice,
where it does not stay in the cache. The operations an element are those of the usual one-pass formulas.
"""

from __future__ import annotations

from typing import Final

from kinetoscope.model.roofline.formulas.arguments import Arguments, Cost, Entry, Formula, Tensor, traffic
from kinetoscope.model.roofline.formulas.result_types import FLOAT, accumulated
from kinetoscope.model.roofline.formulas.streams import StreamedArguments


def _layer_norm(*, statistics: int, weights: tuple[int, ...], operations: int) -> Formula:
    """Normalization of the last dimensions: of each row some statistics are kept for the backward pass."""

    def formula(given: Arguments) -> Cost | None:
        source = given.tensor(0)
        if source is None:
            return None
        parts = [each for place in weights if (each := given.tensor(place)) is not None]
        normalized = len(given.integers(1)) or (len(parts[0].shape) if parts else 1)
        rows = source.shape[: max(0, len(source.shape) - normalized)]
        kept = Tensor((*rows, *(1,) * (len(source.shape) - len(rows))), None, accumulated(source.type))
        out = Tensor(source.shape, None, source.type)
        moved = traffic(source, out, *parts, *(kept,) * statistics)
        return Cost(vector_flop=operations * source.elements, bytes=moved, outputs=(out, *(kept,) * statistics))

    return formula


def _group_norm(given: Arguments) -> Cost | None:
    """`native_group_norm`: two statistics a group of channels and image."""
    source, images, groups = given.tensor(0), given.integer(3), given.integer(6)
    if source is None:
        return None
    kept = Tensor((max(0, images or 0), max(0, groups or 0)), None, source.type)
    out = Tensor(source.shape, None, source.type)
    moved = traffic(source, out, given.tensor(1), given.tensor(2), kept, kept)
    return Cost(vector_flop=8 * source.elements, bytes=moved, outputs=(out, kept, kept))


def _softmax(given: Arguments) -> Cost | None:
    """Soft-max or its logarithm: the third argument turns half precision into FP32."""
    source = given.tensor(0)
    if source is None:
        return None
    out = Tensor(source.shape, None, FLOAT if given.flag(2) else source.type)
    return Cost(vector_flop=5 * source.elements, bytes=traffic(source, out), outputs=(out,))


def _softmax_backward(given: Arguments) -> Cost | None:
    """Gradient and result read; the fourth argument is the type of the gradient of the input."""
    gradient, result = given.tensor(0), given.tensor(1)
    if gradient is None or result is None:
        return None
    out = Tensor(gradient.shape, None, given.scalar_type(3) or gradient.type)
    return Cost(vector_flop=4 * gradient.elements, bytes=traffic(gradient, result, out), outputs=(out,))


def _batch_norm(training: bool | int) -> Formula:
    """Batch normalization; in training it keeps the statistics of each channel and updates the running ones.

    training: does it train, or the place of the argument that says so.
    """

    def formula(given: Arguments) -> Cost | None:
        source = given.tensor(0)
        if source is None or len(source.shape) < 2:
            return None
        of_channels = [given.tensor(place) for place in (1, 2, 3, 4)]
        trains = training if isinstance(training, bool) else given.flag(training) is True
        kept = (Tensor(source.shape[1:2], None, accumulated(source.type)),) * 2 if trains else ()
        out = Tensor(source.shape, None, source.type)
        updated = of_channels[2:] if trains else ()
        moved = traffic(source, out, *of_channels, *updated, *kept)
        return Cost(vector_flop=8 * source.elements, bytes=moved, outputs=(out, *kept))

    return formula


NORMALIZATIONS: Final[dict[str, Entry]] = {
    "aten::native_layer_norm": Entry(_layer_norm(statistics=2, weights=(2, 3), operations=8)),
    "aten::_fused_rms_norm": Entry(_layer_norm(statistics=1, weights=(2,), operations=4)),
    "aten::native_layer_norm_backward": Entry(StreamedArguments((1, 5, 6), (0, 1, 3, 4, 5), operations=14, mask=7)),
    "aten::_fused_rms_norm_backward": Entry(StreamedArguments((1, 4), (0, 1, 3, 4), operations=10, mask=5)),
    "aten::native_group_norm": Entry(_group_norm),
    "aten::native_group_norm_backward": Entry(StreamedArguments((1, 4, 4), (0, 1, 2, 3, 4), operations=14, mask=9)),
    **{
        f"aten::{name}": Entry(_batch_norm(training=5))
        for name in ("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm", "_native_batch_norm_legit")
    },
    "aten::_batch_norm_with_update": Entry(_batch_norm(training=True)),
    **{
        f"aten::{name}": Entry(_batch_norm(training=False))
        for name in ("_native_batch_norm_legit_no_training", "_batch_norm_no_update", "batch_norm_elemt")
    },
    "aten::native_batch_norm_backward": Entry(StreamedArguments((1, 2, 2), (0, 1, 2, 5, 6), operations=12, mask=9)),
    "aten::batch_norm_backward": Entry(StreamedArguments((1, 2, 2), (0, 1, 2, 5, 6), operations=12, mask=9)),
    "aten::cudnn_batch_norm_backward": Entry(StreamedArguments((0, 2, 2), (0, 1, 2, 5, 6), operations=12)),
    "aten::miopen_batch_norm_backward": Entry(StreamedArguments((0, 2, 2), (0, 1, 2, 5, 6), operations=12)),
    "aten::batch_norm_stats": Entry(lambda given: _read_only(given, 0)),
    "aten::batch_norm_backward_reduce": Entry(lambda given: _read_only(given, 0, 1)),
    "aten::batch_norm_backward_elemt": Entry(StreamedArguments((1,), (0, 1, 2, 3, 4, 5, 6), operations=6)),
    "aten::_softmax": Entry(_softmax),
    "aten::_log_softmax": Entry(_softmax),
    "aten::_softmax_backward_data": Entry(_softmax_backward),
    "aten::_log_softmax_backward_data": Entry(_softmax_backward),
    "aten::_masked_softmax": Entry(StreamedArguments((0,), (0, 1), operations=5)),
    "aten::_masked_softmax_backward": Entry(StreamedArguments((0,), (0, 1, 2), operations=4)),
    "aten::_weight_norm_interface": Entry(StreamedArguments((0, 1), (0, 1), operations=4)),
    "aten::_weight_norm_interface_backward": Entry(StreamedArguments((1, 2), (0, 1, 2, 3), operations=8)),
}  # fmt: skip
"""Normalizations, soft-max and their backward passes."""


def _read_only(given: Arguments, *places: int) -> Cost | None:
    """Statistics of images: next to the images themselves they are nothing."""
    images = [each for place in places if (each := given.tensor(place)) is not None]
    return Cost(vector_flop=3 * images[0].elements, bytes=traffic(*images)) if images else None
