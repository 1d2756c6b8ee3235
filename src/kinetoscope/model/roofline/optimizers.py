"""What fused optimizers compute and move: each parameter, gradient and state read once and, but for gradients, written.

Optimizers made of `_foreach_*` operators are counted operator by operator (see `elementwise`). Lists of tensors are
recorded without types: the kernel's name tells that of the parameters, which is taken for all lists, so that states in
FP32 beside parameters in BF16 count for less than they are.
"""

from __future__ import annotations

from typing import Final

from kinetoscope.model.roofline.arguments import Arguments, Cost, Entry, Formula
from kinetoscope.model.roofline.result_types import FLOAT, kernel_type


def _fused(written: tuple[int, ...], read: tuple[int, ...], operations: int) -> Formula:
    """Lists of tensors that are read and written, and lists that are only read, by place."""

    def formula(given: Arguments) -> Cost | None:
        kind = kernel_type(given)
        if not given.tensors(written[0]):
            return None
        moved = sum(2 * tensor.elements for place in written for tensor in given.tensors(place))
        moved += sum(tensor.elements for place in read for tensor in given.tensors(place))
        flop = operations * sum(tensor.elements for tensor in given.tensors(written[0]))
        return Cost(vector_flop=flop, bytes=None if kind is None else moved * kind.bytes)

    return formula


def _norms(given: Arguments) -> Cost | None:
    """`_foreach_norm` and `_foreach_max`: all tensors read; the results are a number each."""
    kind, tensors = kernel_type(given), given.tensors(0)
    if not tensors:
        return None
    elements = sum(tensor.elements for tensor in tensors)
    return Cost(vector_flop=2 * elements, bytes=None if kind is None else elements * kind.bytes)


def _unscaled(given: Arguments) -> Cost | None:
    """Gradients divided by the scale of mixed precision, and looked through for infinite ones."""
    kind, tensors = kernel_type(given) or FLOAT, given.tensors(0)
    elements = sum(tensor.elements for tensor in tensors)
    return Cost(vector_flop=2 * elements, bytes=2 * elements * kind.bytes) if tensors else None


OPTIMIZERS: Final[dict[str, Entry]] = {
    **{
        f"aten::{name}": Entry(_fused((0, 2, 3, 4), (1,), 14), needs=("kernel",))
        for name in ("_fused_adam_", "_fused_adamw_")
    },
    "aten::_fused_sgd_": Entry(_fused((0, 2), (1,), 6), needs=("kernel",)),
    "aten::_fused_adagrad_": Entry(_fused((0, 2), (1,), 8), needs=("kernel",)),
    "aten::_amp_foreach_non_finite_check_and_unscale_": Entry(_unscaled, needs=("kernel",)),
    "aten::_foreach_norm": Entry(_norms, needs=("kernel",)),
    "aten::_foreach_max": Entry(_norms, needs=("kernel",)),
}
"""Fused optimizers, and what runs between the backward pass and them."""
