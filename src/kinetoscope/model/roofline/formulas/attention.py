"""Formulas of attention, in all its spellings.

Each query meets the keys that the mask lets it see, once for the scores and once for the values; soft-max, scaling and
dropout count nothing. Of packed sequences a file has the sum of the lengths and the longest, which gives a range.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from math import prod
from typing import Final, Literal

from kinetoscope.model.execution.engines import PartOfBatch, ServingStep
from kinetoscope.model.roofline.formulas.arguments import Arguments, Cost, Shape, Tensor, traffic
from kinetoscope.model.roofline.formulas.family import Family
from kinetoscope.model.trace.element_types import scalar_type

Layout = Literal["heads first", "heads after"]
"""[batch, heads, length, size], or [batch, length, heads, size] and of packed sequences [length, heads, size]."""

_BF16: Final = scalar_type(15)
_FP32: Final = scalar_type(6)


# --- pairs of a query and a key


@dataclass(frozen=True, slots=True)
class Mask:
    """The keys that a query sees by its position: those from `left` before it to `right` after it; None: all of a side.

    from_end: are the positions aligned at the last query and key (bottom-right), or at the first (top-left)?
    """

    left: int | None = None
    right: int | None = None
    from_end: bool = False

    def pairs(self, queries: int, keys: int) -> int:
        """Number of pairs of a query and a key that meet."""
        offset = keys - queries if self.from_end else 0
        upper = queries * keys if self.right is None else _clipped_sum(offset + self.right + 1, queries, keys)
        lower = 0 if self.left is None else _clipped_sum(offset - self.left, queries, keys)
        return max(upper - lower, 0)

    def seen(self, queries: int, keys: int) -> int:
        """Number of keys that any query sees."""
        offset = keys - queries if self.from_end else 0
        last = keys if self.right is None else min(keys, queries + offset + self.right)
        first = 0 if self.left is None else max(0, offset - self.left)
        return max(last - first, 0) if queries else 0

    @property
    def width(self) -> int | None:
        """The most keys that a query can see; None where nothing limits them."""
        return None if self.left is None or self.right is None else self.left + self.right + 1


def _clipped_sum(first: int, count: int, most: int) -> int:
    """The sum of `count` integers from `first` on, each clipped to 0 and `most`."""

    def below(end: int) -> int:
        inside = min(end, most)
        return inside * (inside - 1) // 2 + (end - inside) * most if end > 0 else 0

    return below(first + count) - below(first)


def packed_pairs(queries: int, keys: int, sequences: int, longest: tuple[int, int], mask: Mask) -> tuple[int, int]:
    """The least and the most pairs of packed sequences, of which we know sums, number and longest lengths.

    Where queries and keys agree in sum and longest, each sequence is taken to attend to itself. Otherwise each sequence
    has a query at least, and under a causal mask no fewer keys than queries, as when a cache precedes them.
    """
    if min(queries, keys, sequences, *longest) < 1:
        return 0, 0
    if queries == keys and longest[0] == longest[1]:
        return _split(lambda length: mask.pairs(length, length), queries, sequences, longest[0])
    most = min(queries * longest[1], keys * longest[0], sequences * longest[0] * longest[1])
    least = max(queries, keys)
    if mask.right == 0:
        below, _ = _split(lambda length: length * (length - 1) // 2, queries, sequences, longest[0])
        least, most = max(least, below + queries), most - below
    if mask.left is not None or mask.right:
        least, most = queries, min(most, queries * mask.width) if mask.width is not None else most
    return min(least, most), max(least, most)


def _split(pairs: Callable[[int], int], total: int, sequences: int, longest: int) -> tuple[int, int]:
    """The least and the most that lengths with this sum and this longest give, of a convex function of each.

    The least is where all but the longest are alike, the most where as many as possible are as long.
    """
    longest = min(longest, total) if sequences > 1 else total
    each, more = divmod(total - longest, max(sequences - 1, 1))
    least = pairs(longest) + (max(sequences - 1, 1) - more) * pairs(each) + more * pairs(each + 1)
    return least, max(least, total // longest * pairs(longest) + pairs(total % longest))


# --- operators


@dataclass(frozen=True, slots=True)
class _Tensors:
    """Inputs of attention, as an operator has them.

    Attributes:
        query, key, value: these.
        layout: of all three.
        from_end: are the positions of query and key aligned at the last one?
        backward: is it the backward pass? It computes the scores anew, and the gradients of value, probabilities, query
            and key.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    layout: Layout
    from_end: bool
    backward: bool


@dataclass(frozen=True, slots=True)
class _Extent:
    """The part of an attention that is computed: the least and the most each.

    Attributes:
        pairs: of a query and a key, over all heads.
        keys: that are read, of each head.
        held: of which that is a part, as the key's shape has it.
    """

    pairs: tuple[int, int]
    keys: tuple[int, int]
    held: int


_NAMES: Final = {
    "gradient": "grad_out grad_out_ dout",
    "causal": "is_causal custom_mask_type",
    "left": "window_size_left",
    "right": "window_size_right",
    "bias": "attn_bias attn_mask",
    "lengths": "cu_seqlens_q cum_seq_q",
    "longest": "max_seqlen_q max_q",
    "longest_keys": "max_seqlen_k max_k",
    "pages": "block_table page_table",
    "statistics": "compute_log_sumexp",
}
"""Arguments by the names that we ask for, and what operators call them. What has no such name is

- gradient: of the output, which the backward pass begins with;
- causal: a flag, or the kind of mask: 1 is causal from the first position on, 2 up to the last;
- left, right: sizes of a window, −1 is without end; window_size: of a causal one with the query itself (xFormers);
- bias: a mask or bias that is added to the scores;
- lengths: the ends of packed sequences of queries; longest, longest_keys: the longest lengths;
- pages: the table of pages, where keys and values are a cache of which a part is read;
- result: the output, where the caller gives it;
- statistics: a flag whether the logarithm of the sums is written, which is so without it.
"""

formula = Family("Attention", is_product=True, needs=("batch",), names=_NAMES)

_UNPACKED: Final = {"lengths": "", "longest": "", "longest_keys": ""}
_INPLACE: Final = {"result": "out"}


@formula(
    "scaled_dot_product_attention _scaled_dot_product_attention_math_for_mps _scaled_dot_product_cudnn_attention"
    " _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_efficient_attention _cudnn_attention_forward"
    " _scaled_dot_product_fused_attention_overrideable _cudnn_attention_backward"
)
@formula(
    "_scaled_dot_product_flash_attention_for_cpu_backward _scaled_dot_product_efficient_attention_backward"
    " _scaled_dot_product_cudnn_attention_backward _scaled_dot_product_fused_attention_overrideable_backward",
    names=_UNPACKED,
)
@formula("_scaled_dot_product_flash_attention", from_end=True)
@formula("_scaled_dot_product_flash_attention_backward", names=_UNPACKED, from_end=True)
@formula(
    "_efficient_attention_forward _efficient_attention_backward xformers::efficient_attention_forward_cutlass",
    layout="heads after",
)
@formula(
    "_flash_attention_forward _flash_attention_backward flash_attn::_flash_attn_forward ::FlashAttnFunc"
    " flash_attn::_flash_attn_backward flash_attn::_flash_attn_varlen_forward flash_attn::_flash_attn_varlen_backward"
    " aiter::_flash_attn_forward aiter::_flash_attn_backward aiter::mha_fwd aiter::mha_bwd aiter::fmha_v3_fwd"
    " aiter::mha_batch_prefill",
    layout="heads after",
    from_end=True,
)
@formula(
    "_flash_attention_forward_no_dropout_inplace flash_attn_3::fwd _vllm_fa3_C::fwd sgl_kernel::fwd"
    " _vllm_fa2_C::varlen_fwd",
    names=_INPLACE,
    layout="heads after",
    from_end=True,
)
def attention(
    given: Arguments, query: Tensor, key: Tensor, value: Tensor, layout: Layout = "heads first", from_end: bool = False
) -> Cost | None:
    """Each query with the keys that its mask lets it see, of sequences of one length or packed ones."""
    backward = "gradient" in given.places
    tensors = _Tensors(query, key, value, layout, from_end, backward)
    ends, pages = given.shape("lengths"), given.shape("pages")
    if any(pages) or prod(ends) > 1:  # empty ones are as good as none
        extent = _packed(given, tensors, ends if prod(ends) > 1 else (), pages if any(pages) else ())
    else:
        extent = _padded(given, tensors)
    return None if extent is None or not value.shape else _cost(given, tensors, extent)


def _padded(given: Arguments, of: _Tensors) -> _Extent | None:
    """Sequences of one length."""
    query, key, value = of.query, of.key, of.value
    axis, dimensions = (-3, (4,)) if of.layout == "heads after" else (-2, (2, 3, 4, 5))
    if len(query.shape) not in dimensions or not len(query.shape) == len(key.shape) == len(value.shape):
        return None
    queries, keys = query.shape[axis], key.shape[axis]
    if query.shape[-1] != key.shape[-1] or keys != value.shape[axis]:
        return None
    mask = _mask(given, from_end=of.from_end)
    pairs = query.elements // max(queries * query.shape[-1], 1) * mask.pairs(queries, keys)
    seen = mask.seen(queries, keys)
    return _Extent((pairs, pairs), (seen, seen), keys)


def _packed(given: Arguments, of: _Tensors, ends: Shape, pages: Shape) -> _Extent | None:
    """Sequences one after the other, [length, heads, size] or [1, length, heads, size]; keys perhaps in pages."""
    query, key = of.query, of.key
    if min(len(query.shape), len(key.shape)) < 3 or query.shape[-1] != key.shape[-1] or 0 in query.shape[-2:]:
        return None
    sequences = prod(ends) - 1 if ends else query.shape[0]
    queries = query.elements // (query.shape[-1] * query.shape[-2])
    held = key.elements // max(key.shape[-1] * key.shape[-2], 1)
    longest = (
        given.integer("longest") or (queries if ends else query.shape[-3]),
        given.integer("longest_keys") or held,
    )
    if min(sequences, queries, held, *longest) < 1:
        return None
    mask = _mask(given, from_end=of.from_end)
    heads = query.shape[-2]
    part = None if mask.width is not None or mask.left is not None else _part_of(given.batch, queries)
    if part is not None and (mask.right is None or of.from_end):
        pairs = heads * (part.causal_pairs if mask.right == 0 else part.pairs)
        return _Extent((pairs, pairs), (min(part.keys, held), min(part.keys, held)), held)
    keys = (held, held)
    if pages:
        most = min(held, sequences * longest[1], prod(pages) * (key.shape[-3] if len(key.shape) > 3 else 1))
        least = max(sequences - 1 + longest[1], queries if mask.right == 0 else 0)
        keys = (min(least, most), most)
    ends_of = [packed_pairs(queries, each, sequences, longest, mask) for each in keys]
    least_read = keys[0] if mask.width is None else min(keys[0], mask.width)
    return _Extent((heads * ends_of[0][0], heads * ends_of[1][1]), (least_read, keys[1]), held)


def _mask(given: Arguments, *, from_end: bool) -> Mask:
    """The mask by the arguments; what they do not say hides nothing."""
    kind = given.text("causal")
    is_causal, from_end = kind in ("True", "1", "2"), from_end or kind == "2"
    band = given.integer("window_size")
    if is_causal and band is not None and band > 0:
        return Mask(band - 1, 0, from_end)
    left, right = (None if side is None or side < 0 else side for side in map(given.integer, ("left", "right")))
    return Mask(left, 0 if is_causal else right, from_end)


def _cost(given: Arguments, of: _Tensors, extent: _Extent) -> Cost:
    query, key, value = of.query, of.key, of.value
    size, out_size = query.shape[-1], value.shape[-1]
    kind = _BF16 if query.type is not None and query.type.bytes == 1 else query.type  # of FP8 the result is wider
    out = given.tensor("result") or Tensor((*query.shape[:-1], out_size), None, kind)
    statistics = Tensor(query.shape[:-1], None, _FP32) if given.flag("statistics") is not False else None
    each = 2 * (3 * size + 2 * out_size if of.backward else size + out_size)
    flop = [each * pairs for pairs in extent.pairs]
    cache = traffic(key, value)
    once = traffic(query, out)
    read = traffic(statistics, given.tensor("bias"))
    moved: list[int | None] = [None, None]
    if cache is not None and once is not None and read is not None:
        passes = 2 if of.backward else 1  # each of query, key, value and output, and the gradient of each
        moved = [passes * (once + cache * keys // max(extent.held, 1)) + read for keys in extent.keys]
    is_range = extent.pairs[0] != extent.pairs[1] or extent.keys[0] != extent.keys[1]
    outputs = (query.new(), key.new(), value.new()) if of.backward else (out,)
    most = (flop[1], moved[1]) if is_range else (None, None)
    return Cost(flop[0], bytes=moved[0], flop_most=most[0], bytes_most=most[1], outputs=outputs)


@formula(
    "vllm::unified_attention_with_output vllm::unified_attention",
    "Tensor query, Tensor key, Tensor value, Tensor? output",
)
def unified_attention(
    given: Arguments, query: Tensor, key: Tensor, value: Tensor, output: Tensor | None
) -> Cost | None:
    """The new tokens of all sequences; neither what a cache holds nor a window is recorded.

    At least each token sees itself. At most, without a window, it sees all before it, of which the engine's name of the
    step may give the sums.
    """
    if len(query.shape) != 3 or len(key.shape) != 3:
        return None
    tokens, heads, size = query.shape
    each = 2 * heads * (size + value.shape[-1]) if value.shape else 0
    out = output or query.new()
    once, new = traffic(query, out), traffic(key, value)
    least = None if once is None or new is None else once + new
    part = _part_of(given.batch, tokens, padded=True)
    if part is None or once is None or new is None:
        return Cost(tokens * each, bytes=least, is_least=True, outputs=(out,))
    read = once + max(new * part.keys // max(tokens, 1), new)
    # Tokens that fill up a graph see nothing.
    return Cost(
        min(part.tokens, part.causal_pairs) * each,
        bytes=least,
        flop_most=part.causal_pairs * each,
        bytes_most=read,
        outputs=(out,),
    )


@dataclass(frozen=True, slots=True)
class _Lengths:
    """Sums over sequences: of new tokens, of pairs of each with all keys and with those up to its own, of keys."""

    tokens: int
    pairs: int
    causal_pairs: int
    keys: int


def _part_of(step: ServingStep | None, tokens: int, *, padded: bool = False) -> _Lengths | None:
    """The sums of the part of a batch that a call with so many new tokens computes; None where they are not known.

    A call is for the requests in prefill, for those in decode, or for all. A graph that is replayed may be for more
    tokens than there are: so are those of decode steps, and of any step where the call says so (`padded`).
    """
    if step is None:
        return None
    parts = [(step.prefill,), (step.decode,), (step.prefill, step.decode)]
    known = [each for each in map(_sums, parts) if each is not None]
    fitting = [each for each in known if each.tokens == tokens]
    if not fitting and (padded or step.prefill.requests == 0) and _sums(parts[-1]):
        fitting = [each for each in known[-1:] if 0 < each.tokens < tokens]
    return fitting[0] if fitting else None


def _sums(parts: tuple[PartOfBatch, ...]) -> _Lengths | None:
    """Each of q new tokens sees those before it and itself: q·kv − q·(q − 1)/2 pairs."""
    lengths = [_Lengths(0, 0, 0, 0)]
    for part in parts:
        if part.sq is None or part.sk is None or part.sqsq is None or part.sqsk is None:
            return None
        causal = max(part.sqsk - (part.sqsq - part.sq) // 2, 0)
        lengths.append(_Lengths(part.sq, part.sqsk, causal, part.sk))
    return _Lengths(*(sum(getattr(each, field.name) for each in lengths) for field in fields(_Lengths)))
