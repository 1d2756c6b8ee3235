"""What attention computes and moves, in all its spellings."""

from __future__ import annotations

from math import prod
from typing import Final, Literal

from kinetoscope.model.roofline.arguments import Arguments, Cost, Entry, Formula, Tensor, traffic

Layout = Literal["heads first", "heads after"]
"""[batch, heads, length, size] or [batch, length, heads, size]."""


def _attention(layout: Layout, *, first: int = 0, lengths: int = -1, backward: bool = False) -> Formula:
    """Every query with every key, and the same again with the values.

    first: place of the query, after which key and value come.
    lengths: place of the cumulative lengths; where they are given, the sequences are packed and their lengths unknown.
    The backward pass computes the scores anew and four more products: gradients of value, probabilities, query, key.
    """

    def formula(given: Arguments) -> Cost | None:
        tensors = tuple(given.tensor(first + place) for place in range(3))
        query, key, value = (given.shape(first + place) for place in range(3))
        if lengths >= 0 and given.shape(lengths):
            return None
        if layout == "heads after":
            if not len(query) == len(key) == len(value) == 4:
                return None
            query, key, value = ((b, heads, length, size) for b, length, heads, size in (query, key, value))
        if min(len(query), len(key), len(value)) < 2 or query[-1] != key[-1] or key[-2] != value[-2]:
            return None
        products = (3 * query[-1] + 2 * value[-1]) if backward else (query[-1] + value[-1])
        out = Tensor((*query[:-1], value[-1]), None, tensors[0].type if tensors[0] else None)
        once = traffic(*tensors, out)
        flop = 2 * prod(query[:-1]) * key[-2] * products
        return Cost(flop, bytes=None if once is None else once * (2 if backward else 1), outputs=(out,))

    return formula


_FORMULAS: Final[dict[str, Formula]] = {
    # (query, key, value, …)
    **dict.fromkeys(
        ("aten::scaled_dot_product_attention", "aten::_scaled_dot_product_flash_attention",
         "aten::_scaled_dot_product_flash_attention_for_cpu", "aten::_scaled_dot_product_efficient_attention",
         "aten::_scaled_dot_product_cudnn_attention", "aten::_scaled_dot_product_fused_attention_overrideable",
         "aten::_scaled_dot_product_attention_math_for_mps"), _attention("heads first")
    ),
    "aten::_flash_attention_forward": _attention("heads after", lengths=3),
    "aten::_efficient_attention_forward": _attention("heads after", lengths=4),
    "flash_attn::_flash_attn_forward": _attention("heads after"),
    # (gradient, query, key, value, …)
    **dict.fromkeys(
        ("aten::_scaled_dot_product_flash_attention_backward",
         "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
         "aten::_scaled_dot_product_efficient_attention_backward",
         "aten::_scaled_dot_product_cudnn_attention_backward",
         "aten::_scaled_dot_product_fused_attention_overrideable_backward"),
        _attention("heads first", first=1, backward=True),
    ),
    "aten::_flash_attention_backward": _attention("heads after", first=1, lengths=6, backward=True),
    "aten::_efficient_attention_backward": _attention("heads after", first=1, lengths=6, backward=True),
    "flash_attn::_flash_attn_backward": _attention("heads after", first=1, backward=True),
    **dict.fromkeys(
        ("flash_attn::_flash_attn_varlen_forward", "flash_attn::_flash_attn_varlen_backward"), lambda _: None
    ),
}  # fmt: skip

ATTENTION: Final = {name: Entry(formula, is_product=True) for name, formula in _FORMULAS.items()}
"""Operators of attention, forward and backward."""
