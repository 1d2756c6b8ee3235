"""What operators of vLLM, SGLang, AITER and FBGEMM move, and what the experts of a mixture compute.

Their schemas are those of `csrc/torch_bindings.cpp` of vLLM, of `sgl-kernel`, of `aiter` and of `fbgemm_gpu`: those of
the first three take the place for their result as an argument.
"""

from __future__ import annotations

from typing import Final

from kinetoscope.model.roofline.formulas.arguments import Arguments, Cost, Entry, Formula, Tensor, traffic
from kinetoscope.model.roofline.formulas.result_types import FLOAT, UINT8, category
from kinetoscope.model.roofline.formulas.streams import StreamedArguments
from kinetoscope.model.trace.element_types import ElementType

_NORM: Final = StreamedArguments((0,), (1, 2), operations=4)
_ADDED_NORM: Final = StreamedArguments((0, 1), (0, 1, 2), operations=5)

_VLLM: Final[dict[str, Formula]] = {
    "rms_norm": _NORM,
    "fused_add_rms_norm": _ADDED_NORM,
    "rms_norm_static_fp8_quant": StreamedArguments((0,), (1, 2, 3), operations=6),
    "fused_add_rms_norm_static_fp8_quant": StreamedArguments((0, 2), (1, 2, 3, 4), operations=7),
    "rms_norm_dynamic_per_token_quant": StreamedArguments((0, 3), (1, 2), operations=7),
    "rotary_embedding": StreamedArguments((1, 2), (1, 2, 0), operations=3),
    **{
        name: StreamedArguments((0,), (1,), operations=operations)
        for name, operations in (
            ("silu_and_mul", 5), ("mul_and_silu", 5), ("gelu_and_mul", 9), ("gelu_tanh_and_mul", 9),
            ("fatrelu_and_mul", 2), ("swigluoai_and_mul", 8), ("gelu_new", 8), ("gelu_fast", 8), ("gelu_quick", 5),
        )
    },
    "silu_and_mul_quant": StreamedArguments((0,), (1, 2), operations=6),
    "static_scaled_fp8_quant": StreamedArguments((0,), (1, 2)),
    "dynamic_scaled_fp8_quant": StreamedArguments((0, 2), (1,), operations=3),
    "dynamic_per_token_scaled_fp8_quant": StreamedArguments((0, 2), (1,), operations=3),
    "static_scaled_int8_quant": StreamedArguments((0,), (1, 2)),
    "dynamic_scaled_int8_quant": StreamedArguments((0, 2), (1,), operations=3),
    "per_token_group_fp8_quant": StreamedArguments((1, 2), (0,), operations=3),
    "per_token_group_quant_8bit": StreamedArguments((1, 2), (0,), operations=3),
    "scaled_fp4_quant": StreamedArguments((0, 2), (1, 3), operations=3),
    "merge_attn_states": StreamedArguments((0, 1), (2, 3, 4, 5), operations=4),
}  # fmt: skip

_SGLANG: Final[dict[str, Formula]] = {
    "rotary_embedding": _VLLM["rotary_embedding"],
    "rmsnorm": _NORM,
    "gemma_rmsnorm": _NORM,
    "fused_add_rmsnorm": _ADDED_NORM,
    "gemma_fused_add_rmsnorm": _ADDED_NORM,
    "silu_and_mul": _VLLM["silu_and_mul"],
    "gelu_and_mul": _VLLM["gelu_and_mul"],
    "gelu_tanh_and_mul": _VLLM["gelu_tanh_and_mul"],
    "sgl_per_token_quant_fp8": StreamedArguments((1, 2), (0,), operations=3),
    "sgl_per_token_group_quant_fp8": StreamedArguments((1, 2), (0,), operations=3),
    "sgl_per_tensor_quant_fp8": StreamedArguments((1,), (0, 2), operations=3),
}


def _cached(count: int) -> Formula:
    """Keys and values read, and written to their slots of the cache in its type; the cache comes after them."""

    def formula(given: Arguments) -> Cost | None:
        new = [each for place in range(count) if (each := given.tensor(place)) is not None]
        cache = given.tensor(count)
        if not new or cache is None:
            return None
        written = [Tensor(each.shape, None, cache.type) for each in new]
        slots = next(
            (each for place in range(count + 1, count + 3) if (each := given.tensor(place)) and len(each.shape) == 1),
            None,
        )
        return Cost(bytes=traffic(*new, *written, slots))

    return formula


def _experts(given: Arguments) -> Cost | None:
    """Two products for each token and each of its experts: hidden states, the weights of both, how much of whom, whom.

    A token's experts differ, so that at least so many have their weights read, and at most all of them.
    """
    hidden, first, second, chosen = given.tensor(0), given.tensor(1), given.tensor(2), given.tensor(4)
    if hidden is None or first is None or second is None or chosen is None:
        return None
    if [len(each.shape) for each in (hidden, first, second, chosen)] != [2, 3, 3, 2] or not first.elements:
        return None
    experts, rows, packed = first.shape
    in_a_place = hidden.shape[1] // packed  # numbers of 4 bits share a byte
    pairs = chosen.elements
    flop = 2 * pairs * (rows * hidden.shape[1] + second.shape[1] * second.shape[2] * in_a_place)
    weights, out = traffic(first, second), Tensor(hidden.shape, None, hidden.type)
    rest = traffic(hidden, chosen, given.tensor(3), out)
    if weights is None or rest is None:
        return Cost(flop, outputs=(out,))
    least, most = (weights // experts * min(experts, count) for count in (chosen.shape[1] if pairs else 0, pairs))
    return Cost(flop, bytes=rest + least, bytes_most=rest + most, outputs=(out,))


# --- FBGEMM


def _integers(given: Arguments) -> list[Tensor]:
    """Indices, offsets and how tables lie in memory."""
    tensors = (each for each in given.values if isinstance(each, Tensor))
    return [each for each in tensors if each.type is not None and category(each.type) == 1]


def _checked(given: Arguments) -> Cost | None:
    """All integers are read."""
    read = _integers(given)
    return Cost(bytes=traffic(*read)) if read else None


def _looked_up(given: Arguments) -> Cost | None:
    """A lookup in embedding tables: all integers are read, indices, offsets and how the tables lie in memory.

    The gradient tells the size of the result. How many different rows are read was not recorded: the least has none.
    """
    read = _integers(given)
    gradient = given.node.tensor(0) if given.node is not None else None
    outputs = () if gradient is None else (Tensor(gradient.shape, None, gradient.type),)
    return Cost(bytes=traffic(*read, *outputs), is_least=True, outputs=outputs) if read else None


def _permuted(given: Arguments) -> Cost | None:
    """`permute_2D_sparse_data`: lengths and indices in another order.

    Which features are taken is not recorded, so that of the indices only those count that must move: all, where as many
    features leave as come in; else none.
    """
    order, lengths, indices = given.tensor(0), given.tensor(1), given.tensor(2)
    if order is None or lengths is None or indices is None or not lengths.shape or not lengths.shape[0]:
        return None
    out = Tensor((order.elements, *lengths.shape[1:]), None, lengths.type)
    least, moved = traffic(order, out, out), traffic(indices, indices, given.tensor(3), given.tensor(3))
    if least is None or moved is None:
        return None
    is_all = order.elements >= lengths.shape[0]
    return Cost(bytes=least + (moved if is_all else 0), bytes_most=None if is_all else least + moved, outputs=(out,))


_OPTIMIZERS: Final = (
    "adagrad", "adam", "approx_rowwise_adagrad", "approx_sgd", "dense", "lamb", "lars_sgd", "none",
    "partial_rowwise_adam", "partial_rowwise_lamb", "rowwise_adagrad", "rowwise_adagrad_with_counter",
    "rowwise_adagrad_with_weight_decay", "rowwise_weighted_adagrad", "sgd",
)  # fmt: skip

_REORDERED_COPY: Final = StreamedArguments((0,), (0,), operations=0)


def _quantized(kind: ElementType, more: int) -> Formula:
    """Rows in another type, each with so many more elements, which hold its scale."""

    def formula(given: Arguments) -> Cost | None:
        source = given.tensor(0)
        if source is None or not source.shape:
            return None
        out = Tensor((*source.shape[:-1], max(0, source.shape[-1] + more)), None, kind)
        return Cost(vector_flop=2 * source.elements, bytes=traffic(source, out), outputs=(out,))

    return formula


_FBGEMM: Final[dict[str, Formula]] = {
    "FloatToFP8RowwiseQuantized": _quantized(UINT8, 8),
    "FP8RowwiseQuantizedToFloat": _quantized(FLOAT, -8),
    "FloatToHFP8Quantized": _quantized(UINT8, 0),
    "HFP8QuantizedToFloat": _quantized(FLOAT, 0),
    "block_bucketize_sparse_features": StreamedArguments((1,), (0, 1, 4)),
    **{
        f"split_embedding_codegen_lookup_{name}_function{tail}": _looked_up
        for name in _OPTIMIZERS
        for tail in ("", "_pt2")
    },
    "dense_embedding_codegen_lookup_function": _looked_up,
    "bounds_check_indices": _checked,
    **dict.fromkeys(("permute_sparse_features", "permute_2D_sparse_data", "permute_1D_sparse_data"), _permuted),
    **dict.fromkeys(
        (
            "permute_pooled_embs", "permute_pooled_embs_auto_grad", "recat_embedding_grad_output",
            "recat_embedding_grad_output_mixed_D", "recat_embedding_grad_output_mixed_D_batch",
            "asynchronous_complete_cumsum", "asynchronous_inclusive_cumsum", "asynchronous_exclusive_cumsum",
        ),
        _REORDERED_COPY,
    ),
}  # fmt: skip


def _gradient(given: Arguments) -> Cost | None:
    """The backward pass of a lookup with the step of its optimizer: the gradient read; which rows change is unknown."""
    gradient = given.tensor(0)
    if gradient is None:
        return None
    return Cost(vector_flop=gradient.elements, bytes=traffic(gradient), is_least=True)


_NODE: Final = "torch::autograd::CppNode"

_UNTOLD: Final = {
    "vllm::moe_forward": "the experts' weights are no arguments",
    "vllm::moe_forward_shared": "the experts' weights are no arguments",
    "CompiledFunction": "operators in compiled code are not recorded",
    "CompiledFunctionBackward": "operators in compiled code are not recorded",
}
"""Operators whose arguments never tell what they cost, and why."""

CUSTOM: Final[dict[str, Entry]] = {
    **{name: Entry(lambda _: None, untold=why) for name, why in _UNTOLD.items()},
    **{f"{space}::{name}": Entry(formula) for space in ("_C", "vllm") for name, formula in _VLLM.items()},
    **{f"sgl_kernel::{name}": Entry(formula) for name, formula in _SGLANG.items()},
    **{f"_C_cache_ops::{name}": Entry(_cached(2)) for name in ("reshape_and_cache", "reshape_and_cache_flash")},
    "_C_cache_ops::concat_and_cache_mla": Entry(_cached(2)),
    "sglang::store_cache": Entry(_cached(2)),
    **{
        f"{space}::{place}_fused_experts": Entry(_experts, is_product=True)
        for space in ("vllm", "sglang")
        for place in ("inplace", "outplace")
    },
    "aiter::rmsnorm": Entry(_NORM),
    "aiter::add_rmsnorm": Entry(StreamedArguments((0, 3), (1, 2, 4), operations=5)),
    "aiter::silu_and_mul": Entry(_VLLM["silu_and_mul"]),
    "_moe_C::topk_softmax": Entry(StreamedArguments((0, 1, 2), (3,), operations=5)),
    "_moe_C::moe_sum": Entry(StreamedArguments((1,), (0,))),
    **{
        f"{space}::{name}": Entry(formula, needs=("node",) if formula is _looked_up else ())
        for space in ("fbgemm", "fb")
        for name, formula in _FBGEMM.items()
    },
    **{f"{_NODE}<SplitLookupFunction_{name}_Op>": Entry(_gradient) for name in _OPTIMIZERS},
    f"{_NODE}<SplitLookupFunction_Dense_Op>": Entry(_gradient),
    f"{_NODE}<fbgemm_gpu::PermutePooledEmbsFunction<&fbgemm_gpu::permute_pooled_embs_gpu> >": Entry(_REORDERED_COPY),
}
"""Operators of libraries besides torch."""
