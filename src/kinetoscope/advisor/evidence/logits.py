"""Logits of a large vocabulary that are made FP32 for the loss though the products before it compute in 16 bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools
from kinetoscope.model.roofline.calls import costed_calls
from kinetoscope.model.roofline.formulas.arguments import Tensor
from kinetoscope.model.roofline.fusion import tensors_of
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace

_MIN_VOCABULARY: Final = 8_192
"""Length of a soft-max from which on it is one over a vocabulary, and its logits are worth a look."""

_SOFTMAX: Final = "aten::_log_softmax"


@dataclass(frozen=True)
class LogitsInFP32:
    """Operators on logits in FP32, and their sizes.

    Attributes:
        work: bool [work], device work of calls that read or write them.
        casts: bool [work], of these the copies that make 16 bits FP32, or FP32 16 bits.
        softmax: bool [events], the soft-maxes of losses.
        vocabulary, elements: length of the largest soft-max, and all its elements.
    """

    work: Bools
    casts: Bools
    softmax: Bools
    vocabulary: int
    elements: int


@derived
def logits_in_fp32(trace: Trace) -> LogitsInFP32:
    """Find them: FP32 input of a soft-max over a vocabulary, of a size that is also cast from or to 16 bits."""
    costed = costed_calls(trace)
    tensors = tensors_of(trace)
    losses = {
        _size(each[0])
        for each, variant in zip(tensors, costed.variants, strict=True)
        if variant.name == _SOFTMAX and each and _is_fp32(each[0]) and _size(each[0])[0] >= _MIN_VOCABULARY
    }
    is_cast = np.array([_is_cast(each, losses) for each in tensors], np.bool_)
    losses &= {_size(each[0]) for each, cast in zip(tensors, is_cast, strict=True) if cast}
    is_about = np.array([any(_is_fp32(one) and _size(one) in losses for one in each) for each in tensors], np.bool_)
    is_about &= ~np.array([variant.is_product for variant in costed.variants], np.bool_)
    is_softmax = np.array([variant.name == _SOFTMAX for variant in costed.variants], np.bool_) & is_about
    softmax = np.zeros(len(trace), np.bool_)
    vocabulary, elements = max(losses, key=lambda size: size[1], default=(0, 0))
    if not len(costed):
        nothing = np.zeros(len(costed.call), np.bool_)
        return LogitsInFP32(nothing, nothing, softmax, 0, 0)
    softmax[costed.rows[is_softmax[costed.variant]]] = True
    of_call = np.append(costed.variant, 0)[costed.call]
    known = costed.call >= 0
    return LogitsInFP32(known & is_about[of_call], known & (is_cast & is_about)[of_call], softmax, vocabulary, elements)


def _size(tensor: Tensor) -> tuple[int, int]:
    """Length of the last dimension, and elements."""
    return (tensor.shape[-1] if tensor.shape else 0), tensor.elements


def _is_fp32(tensor: Tensor) -> bool:
    return tensor.type is not None and tensor.type.name == "float32"


def _is_cast(tensors: tuple[Tensor, ...], losses: set[tuple[int, int]]) -> bool:
    """Is it a copy of logits between FP32 and 16 bits?"""
    if len(tensors) != 2 or _size(tensors[0]) not in losses or _size(tensors[1]) != _size(tensors[0]):
        return False
    sizes = sorted(each.type.bytes if each.type is not None else 0 for each in tensors)
    return sizes == [2, 4] and any(_is_fp32(each) for each in tensors)
