"""Formulas of operators of vLLM, SGLang, AITER and FBGEMM.

Their schemas are those of `csrc/torch_bindings.cpp` of vLLM, of `sgl-kernel`, of `aiter` and of `fbgemm_gpu`: those of
the first three take the place for their result as an argument.
"""

from __future__ import annotations

from typing import Final

from kinetoscope.model.roofline.formulas.arguments import Arguments, Cost, Entry, Tensor, traffic
from kinetoscope.model.roofline.formulas.family import Family
from kinetoscope.model.roofline.formulas.result_types import FLOAT, UINT8, category
from kinetoscope.model.roofline.formulas.streams import streamed, streaming
from kinetoscope.model.trace.element_types import ElementType

formula = Family("Libraries")

_STREAMED: Final = {
    # vLLM has each operator under two names.
    "_C vllm": {
        "rms_norm": ("=result input weight", 4),
        "fused_add_rms_norm": ("+input +residual weight", 5),
        "rms_norm_static_fp8_quant": ("=result input weight scale", 6),
        "fused_add_rms_norm_static_fp8_quant": ("=result input +residual weight scale", 7),
        "rms_norm_dynamic_per_token_quant": ("=result input weight =scale", 7),
        "rotary_embedding": ("positions +query +key", 3),
        "silu_and_mul mul_and_silu gelu_quick": ("=out input", 5),
        "gelu_and_mul gelu_tanh_and_mul": ("=out input", 9),
        "swigluoai_and_mul gelu_new gelu_fast": ("=out input", 8),
        "fatrelu_and_mul": ("=out input", 2),
        "silu_and_mul_quant": ("=result input scale", 6),
        "static_scaled_fp8_quant static_scaled_int8_quant": ("=result input scale", 1),
        "dynamic_scaled_fp8_quant dynamic_per_token_scaled_fp8_quant dynamic_scaled_int8_quant":
            ("=result input =scale", 3),
        "per_token_group_fp8_quant per_token_group_quant_8bit": ("input =output_q =output_s", 3),
        "scaled_fp4_quant": ("=output input =output_scale input_scale", 3),
        "merge_attn_states": ("=output =output_lse prefix_output prefix_lse suffix_output suffix_lse", 4),
    },
    "sgl_kernel": {
        "rotary_embedding": ("positions +query +key", 3),
        "rmsnorm gemma_rmsnorm": ("=result input weight", 4),
        "fused_add_rmsnorm gemma_fused_add_rmsnorm": ("+input +residual weight", 5),
        "silu_and_mul": ("=out input", 5),
        "gelu_and_mul gelu_tanh_and_mul": ("=out input", 9),
        "sgl_per_token_quant_fp8 sgl_per_token_group_quant_fp8": ("input =output_q =output_s", 3),
        "sgl_per_tensor_quant_fp8": ("input =output_q scale", 3),
    },
    "aiter": {
        "rmsnorm": ("=result input weight", 4),
        "add_rmsnorm": ("=out input residual =residual_out weight", 5),
        "silu_and_mul": ("=out input", 5),
    },
    "_moe_C": {
        "topk_softmax": ("=topk_weights =topk_ids =token_expert_indices gating_output", 5),
        "moe_sum": ("input =output", 1),
    },
    "fbgemm fb": {
        "permute_pooled_embs permute_pooled_embs_auto_grad recat_embedding_grad_output"
        " recat_embedding_grad_output_mixed_D recat_embedding_grad_output_mixed_D_batch asynchronous_complete_cumsum"
        " asynchronous_inclusive_cumsum asynchronous_exclusive_cumsum": ("+input", 0),
    },
}  # fmt: skip
"""Operators that read and write some of their arguments once, by library: the arguments with a mark for what is written
(=), or read and written (+); and the operations an element."""


def _every(libraries: str, names: str) -> str:
    """The operators of some names in some libraries."""
    return " ".join(f"{library}::{name}" for library in libraries.split() for name in names.split())


for _libraries, _operators in _STREAMED.items():
    for _names, (_marked, _operations) in _operators.items():
        _arguments = _marked.split()
        formula(
            _every(_libraries, _names),
            ", ".join(each.strip("=+") for each in _arguments),
            written=" ".join(each[1:] for each in _arguments if each[0] in "=+"),
            read=" ".join(each.strip("+") for each in _arguments if each[0] != "="),
            operations=_operations,
        )(streaming)


@formula(
    "_C_cache_ops::reshape_and_cache _C_cache_ops::reshape_and_cache_flash sglang::store_cache",
    names={"cache": "key_cache"},
)
@formula("_C_cache_ops::concat_and_cache_mla", names={"key": "kv_c", "value": "k_pe", "cache": "kv_cache"})
def reshape_and_cache(
    key: Tensor | None, value: Tensor | None, cache: Tensor, slot_mapping: Tensor | None
) -> Cost | None:
    """Keys and values read, and written to their slots of the cache in its type."""
    new = [each for each in (key, value) if each is not None]
    return Cost(bytes=traffic(*new, *(cache.new(each.shape) for each in new), slot_mapping)) if new else None


# --- FBGEMM

_OPTIMIZERS: Final = [
    "adagrad",
    "adam",
    "approx_rowwise_adagrad",
    "approx_sgd",
    "dense",
    "lamb",
    "lars_sgd",
    "none",
    "partial_rowwise_adam",
    "partial_rowwise_lamb",
    "rowwise_adagrad",
    "rowwise_adagrad_with_counter",
    "rowwise_adagrad_with_weight_decay",
    "rowwise_weighted_adagrad",
    "sgd",
]


def _integers(given: Arguments) -> list[Tensor]:
    """Indices, offsets and how tables lie in memory."""
    tensors = (each for each in given.values if isinstance(each, Tensor))
    return [each for each in tensors if each.type is not None and category(each.type) == 1]


@formula(_every("fbgemm fb", "bounds_check_indices"))
def bounds_check_indices(given: Arguments) -> Cost | None:
    """All integers are read."""
    read = _integers(given)
    return Cost(bytes=traffic(*read)) if read else None


@formula(
    _every(
        "fbgemm fb",
        "dense_embedding_codegen_lookup_function "
        + " ".join(
            f"split_embedding_codegen_lookup_{name}_function{tail}" for name in _OPTIMIZERS for tail in ("", "_pt2")
        ),
    ),
    needs=("backward_node",),
)
def embedding_lookup(given: Arguments) -> Cost | None:
    """A lookup in embedding tables: all integers are read, indices, offsets and how the tables lie in memory.

    The gradient tells the size of the result. How many different rows are read was not recorded: the least has none.
    """
    read = _integers(given)
    gradient = given.backward_node.tensor(0) if given.backward_node is not None else None
    outputs = () if gradient is None else (gradient.new(),)
    return Cost(bytes=traffic(*read, *outputs), is_least=True, outputs=outputs) if read else None


@formula(_every("fbgemm fb", "permute_sparse_features permute_2D_sparse_data permute_1D_sparse_data"))
def permute_sparse_data(permute: Tensor, lengths: Tensor, indices: Tensor, weights: Tensor | None) -> Cost | None:
    """Lengths and indices in another order.

    Which features are taken is not recorded, so that of the indices only those count that must move: all, where as many
    features leave as come in; else none.
    """
    if not lengths.shape or not lengths.shape[0]:
        return None
    out = lengths.new((permute.elements, *lengths.shape[1:]))
    least, moved = traffic(permute, out, out), traffic(indices, indices, weights, weights)
    if least is None or moved is None:
        return None
    is_all = permute.elements >= lengths.shape[0]
    return Cost(bytes=least + (moved if is_all else 0), bytes_most=None if is_all else least + moved, outputs=(out,))


@formula(_every("fbgemm fb", "FloatToFP8RowwiseQuantized"), kind=UINT8, more=8)
@formula(_every("fbgemm fb", "FP8RowwiseQuantizedToFloat"), kind=FLOAT, more=-8)
@formula(_every("fbgemm fb", "FloatToHFP8Quantized"), kind=UINT8)
@formula(_every("fbgemm fb", "HFP8QuantizedToFloat"), kind=FLOAT)
def quantized(input: Tensor, kind: ElementType, more: int = 0) -> Cost | None:
    """Rows in another type, each with so many more elements, which hold its scale."""
    if not input.shape:
        return None
    out = Tensor((*input.shape[:-1], max(0, input.shape[-1] + more)), None, kind)
    return streamed(input, out=out, flop=2 * input.elements)


formula(_every("fbgemm fb", "block_bucketize_sparse_features"), written="indices", read="lengths indices block_sizes")(
    streaming
)

_NODE: Final = "torch::autograd::CppNode"


@formula([f"{_NODE}<SplitLookupFunction_{name}_Op>" for name in (*_OPTIMIZERS, "Dense")], "grad_output")
def lookup_backward(grad_output: Tensor) -> Cost:
    """The backward pass of a lookup with the step of its optimizer: the gradient read; which rows change is unknown."""
    return Cost(vector_flop=grad_output.elements, bytes=traffic(grad_output), is_least=True)


formula(
    [f"{_NODE}<fbgemm_gpu::PermutePooledEmbsFunction<&fbgemm_gpu::permute_pooled_embs_gpu> >"],
    "grad_output",
    written="grad_output",
    read="grad_output",
    operations=0,
)(streaming)

_NO_FORMULA: Final = {
    "vllm::moe_forward": "the experts' weights are no arguments",
    "vllm::moe_forward_shared": "the experts' weights are no arguments",
    "CompiledFunction": "operators in compiled code are not recorded",
    "CompiledFunctionBackward": "operators in compiled code are not recorded",
}
"""Operators whose cost does not follow from their arguments, with the reason."""

formula.entries.update({name: Entry(lambda _: None, no_formula=why) for name, why in _NO_FORMULA.items()})
