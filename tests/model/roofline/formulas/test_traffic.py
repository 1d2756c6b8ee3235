"""Bytes of operators that are bound by memory, against numbers worked out by hand and against counted addresses."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kinetoscope.model.roofline.formulas.arguments import Cost, Tensor, arguments_of
from kinetoscope.model.roofline.formulas.registry import ENTRIES, cost
from kinetoscope.model.roofline.formulas.result_types import kernel_type

F, H, L, I, B, S = "float", "c10::BFloat16", "long int", "int", "bool", "Scalar"  # noqa: E741


def costs(name: str, dims: Any, types: list[str], concrete: list[str] | None = None, kernel: str = "") -> Cost:
    strides = [[prod(each[k + 1 :]) for k in range(len(each))] for each in dims] if concrete is not None else None
    arguments = replace(arguments_of(dims, types, strides, concrete), kernel=kernel)
    found = ENTRIES[name].formula(arguments)
    assert found is not None
    return found


N, ADAM = (
    1000,
    "void multi_tensor_apply_kernel<TensorListMetadata<4>, FusedAdamMathFunctor<float, 4, ADAM_MODE>, float>",
)

BY_HAND: list[tuple[str, Any, list[str], list[str], int]] = [
    # elementwise
    ("aten::add", [[8, 5], [5], []], [F, F, S], ["", "", "1"], 4 * (40 + 5 + 40)),
    ("aten::add_", [[8, 5], [5], []], [F, F, S], ["", "", "1"], 4 * (40 + 5 + 40)),
    ("aten::mul", [[8, 5], [], [8, 5]], [H, "double", H], ["", "", ""], 2 * 80 + 8),  # a place for the result
    ("aten::gt", [[8, 5], []], [F, S], ["", "0"], 5 * 40),
    ("aten::add", [[8, 5], [8, 5], []], [H, F, S], ["", "", "1"], 40 * (2 + 4 + 4)),
    ("aten::where", [[8, 5], [8, 5], []], [B, H, H], ["", "", ""], 40 * (1 + 2 + 2) + 2),
    ("aten::fill_", [[8, 5], []], [F, S], ["", "0"], 160),
    ("aten::copy_", [[8, 5], [8, 5], []], [H, F, S], ["", "", "False"], 40 * 6),
    ("aten::native_dropout", [[8, 5], [], []], [H, S, S], ["", "0.1", "True"], 40 * (2 + 2 + 1)),
    ("aten::threshold_backward", [[8, 5], [8, 5], []], [F, F, S], ["", "", "0"], 480),
    # normalization, with statistics in FP32
    ("aten::native_layer_norm", [[6, 8], [], [8], [8], []], [H, "", H, H, S], ["", "[8]", "", "", "1e-5"],
     2 * (48 + 48 + 8 + 8) + 2 * 6 * 4),
    ("aten::native_layer_norm_backward", [[6, 8], [6, 8], [], [6, 1], [6, 1], [8], [8], []],
     [H, H, "", F, F, H, H, ""], ["", "", "[8]", "", "", "", "", "[True, True, False]"],
     2 * 3 * 48 + 2 * 6 * 4 + 2 * 2 * 8),
    ("aten::_softmax", [[6, 8], [], []], [H, S, S], ["", "-1", "True"], 48 * (2 + 4)),
    ("aten::_log_softmax_backward_data", [[6, 8], [6, 8], [], []], [F, F, S, S], ["", "", "1", "15"], 48 * (4 + 4 + 2)),
    ("aten::native_batch_norm", [[2, 3, 5, 5], [3], [3], [3], [3], [], [], []], [F, F, F, F, F, S, S, S],
     ["", "", "", "", "", "True", "0.1", "1e-5"], 4 * (2 * 150 + 4 * 3 + 4 * 3)),
    ("aten::cudnn_batch_norm_backward", [[2, 3, 5, 5], [2, 3, 5, 5], [3], [3], [3], [3], [3], [], [0]],
     [F, F, F, F, F, F, F, S, "unsigned char"], [""] * 9, 4 * (3 * 150 + 3 * 3 + 2 * 3)),
    # reductions: the input, and what is left of it
    ("aten::sum", [[6, 8], [], [], []], [F, "ScalarList", S, ""], ["", "[0]", "True", ""], 4 * (48 + 8)),
    ("aten::argmax", [[6, 8], [], []], [F, S, S], ["", "-1", "False"], 4 * 48 + 8 * 6),
    ("aten::max", [[6, 8]], [F], [""], 4 * 49),
    ("aten::max", [[6, 8], [6, 1]], [F, F], ["", ""], 4 * (48 + 6 + 48)),
    ("aten::max_pool2d_with_indices", [[2, 3, 8, 8], [], [], [], [], []], [F, *["ScalarList"] * 4, S],
     ["", "[3, 3]", "[2, 2]", "[1, 1]", "[1, 1]", "False"], 4 * 2 * 3 * 64 + 12 * 2 * 3 * 16),
    ("aten::max_pool2d_with_indices_backward", [[2, 3, 4, 4], [2, 3, 8, 8], [], [], [], [], [], [2, 3, 4, 4]],
     [F, F, *["ScalarList"] * 4, S, L], [""] * 8, 6 * 16 * (4 + 8) + 6 * 64 * 4),
    ("aten::upsample_nearest2d", [[2, 3, 4, 4], [], [], []], [F, "ScalarList", S, S], ["", "[8, 8]", "2.", "2."],
     4 * 6 * (16 + 64)),
    ("aten::upsample_nearest2d", [[2, 3, 8, 8], [], [], []], [F, "ScalarList", S, S], ["", "[2, 2]", ".25", ".25"],
     4 * 6 * (4 + 4)),  # only the elements taken are read
    ("aten::avg_pool2d", [[2, 3, 8, 8], [], [], []], [F, *["ScalarList"] * 3], ["", "[1, 1]", "[2, 2]", "[0, 0]"],
     4 * 6 * (16 + 16)),
    # what an index names is read at most once for each
    ("aten::index_select", [[100, 8], [], [10]], [H, S, L], ["", "0", ""], 10 * 8 + 2 * 80),
    ("aten::cat", [[[6, 8], [6, 4]], []], ["TensorList", S], ["", "1"], 2 * 4 * (48 + 24)),
    ("aten::constant_pad_nd", [[6, 8], [], []], [F, "ScalarList", S], ["", "[1, 1]", "0"], 4 * (48 + 60)),
    ("aten::topk", [[6, 8], [], [], [], []], [F, S, S, S, S], ["", "2", "-1", "True", "True"], 4 * 48 + 12 * 12),
    ("aten::nll_loss_forward", [[6, 8], [6], [], [], []], [F, L, "", S, S], ["", "", "", "1", "-100"], 6 * (8 + 4)),
    # optimizers: 28 bytes a parameter for AdamW, 12 for SGD
    ("aten::_fused_adamw_", [[[N]], [[N]], [[N]], [[N]], [], [[]], [], []],
     [*["TensorList"] * 6, S, S], [""] * 8, 28 * N),
    ("aten::_fused_sgd_", [[[N]], [[N]], [], [], []], ["TensorList", "TensorList", "", S, S], [""] * 5, 12 * N),
    ("aten::_foreach_mul_", [[[N], [2]], []], ["TensorList", S], ["", "0.9"], 8 * (N + 2)),
    ("aten::_foreach_lerp_", [[[N]], [[N]], []], ["TensorList", "TensorList", S], ["", "", "0.1"], 12 * N),
    ("aten::_foreach_addcdiv_", [[[N]], [[N]], [[N]], []], [*["TensorList"] * 3, S], [""] * 4, 12 * N),
    ("aten::_foreach_norm", [[[N]], [], []], ["TensorList", S, ""], ["", "2", ""], 4 * N),
    ("aten::_foreach_zero_", [[[N]]], ["TensorList"], [""], 4 * N),
    # other libraries
    ("_C::fused_add_rms_norm", [[6, 8], [6, 8], [8], []], [H, H, H, S], ["", "", "", "1e-5"], 2 * (4 * 48 + 8)),
    ("_C::silu_and_mul", [[6, 8], [6, 16]], [H, H], ["", ""], 2 * (48 + 96)),
    ("_C_cache_ops::reshape_and_cache_flash", [[6, 1, 4], [6, 1, 4], [99, 16, 1, 4], [99, 16, 1, 4], [6], []],
     [H, H, "unsigned char", "unsigned char", L, ""], [""] * 6, 2 * 24 * (2 + 1) + 6 * 8),
    ("aiter::add_rmsnorm", [*[[6, 8]] * 4, [8], []], [*[H] * 5, S], [""] * 6, 2 * (4 * 48 + 8)),
    ("fbgemm::FloatToFP8RowwiseQuantized", [[6, 8], []], [F, S], ["", "True"], 6 * (8 * 4 + 16)),
    ("fbgemm::bounds_check_indices", [[3], [50], [10], [], [1], []], [L, L, L, S, L, ""], [""] * 6, 8 * 64),
]  # fmt: skip


@pytest.mark.parametrize(("name", "dims", "types", "concrete", "expected"), BY_HAND)
def test_bytes_are_those_worked_out_by_hand(
    name: str, dims: Any, types: list[str], concrete: list[str], expected: int
) -> None:
    assert costs(name, dims, types, None if "List" in types[0] else concrete, ADAM).bytes == expected


@st.composite
def views(draw: st.DrawFn) -> list[tuple[list[int], list[int]]]:
    """Shapes and strides of tensors that broadcast, some of them transposed or expanded."""
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    result = []
    for _ in range(draw(st.integers(2, 3))):
        sizes = [draw(st.sampled_from([size, 1])) for size in shape[draw(st.integers(0, len(shape))) :]]
        order = draw(st.permutations(range(len(sizes))))
        strides, step = [0] * len(sizes), 1
        for place in order:
            strides[place] = draw(st.sampled_from([step, 0]))
            step *= sizes[place]
        result.append((sizes, strides))
    return result


def distinct(shape: list[int], strides: list[int]) -> int:
    """Addresses that a tensor has, counted one by one."""
    places = np.indices(shape).reshape(len(shape), prod(shape))
    return len(np.unique((places * np.array(strides, np.int64)[:, None]).sum(axis=0)))


@given(inputs=views(), name=st.sampled_from(["aten::add", "aten::addcmul", "aten::lt"]))
def test_elementwise_traffic_is_each_address_once(inputs: list[tuple[list[int], list[int]]], name: str) -> None:
    assume(len(inputs) == 3 or name != "aten::addcmul")
    inputs = inputs if name == "aten::addcmul" else inputs[:2]
    arguments = arguments_of([each for each, _ in inputs], [F] * len(inputs), [each for _, each in inputs])
    found = cost(name, arguments)
    assert found is not None
    shape = np.broadcast_shapes(*(tuple(each) for each, _ in inputs))
    written = prod(shape) * (1 if name == "aten::lt" else 4)
    assert found.outputs[0].shape == shape
    assert found.bytes == 4 * sum(distinct(*each) for each in inputs) + written
    assert found.vector_flop == prod(shape) * (3 if name == "aten::addcmul" else 1)


@given(shape=st.lists(st.integers(1, 4), min_size=1, max_size=3), data=st.data())
def test_distinct_elements_are_never_fewer_than_addresses(shape: list[int], data: st.DataObject) -> None:
    strides = [data.draw(st.integers(0, 6)) for _ in shape]
    assert Tensor(tuple(shape), tuple(strides)).distinct >= distinct(shape, strides)


def test_windows_that_overlap_count_their_elements_once() -> None:
    assert Tensor((10, 3), (1, 1)).distinct == 12


@pytest.mark.parametrize(
    ("kernel", "name", "size"),
    [
        (ADAM, "float32", 4),
        ("void multi_tensor_apply_kernel<TensorListMetadata<2>, BinaryOp<c10::BFloat16, 2>>", "bfloat16", 2),
        ("void CatArrayBatchedCopy<at::native::(anonymous namespace)::OpaqueType<2u>, int, 3, 64>", "int16", 2),
        ("void CatArrayBatchedCopy<float, unsigned int, 2, 128, 1>", "float32", 4),
        ("void multi_tensor_apply_kernel<TensorListMetadata<1>, UnaryOpFunctor<long, 1>>", "int64", 8),
    ],
)  # fmt: skip
def test_a_kernels_name_tells_the_type_of_lists(kernel: str, name: str, size: int) -> None:
    kind = kernel_type(replace(arguments_of([[]]), kernel=kernel))
    assert kind is not None
    assert (kind.name, kind.bytes) == (name, size)


def test_without_a_kernel_the_type_of_a_list_is_unknown() -> None:
    assert costs("aten::cat", [[[6, 8]], []], ["TensorList", S], None).bytes is None


def test_a_gathers_range_ends_where_all_rows_differ_or_the_table_does() -> None:
    few = costs("aten::embedding", [[1000, 8], [10]], [F, L], ["", ""])
    many = costs("aten::embedding", [[5, 8], [10]], [F, L], ["", ""])
    assert (few.bytes, few.bytes_most) == (400, 400 + 320)
    assert (many.bytes, many.bytes_most) == (400, 400 + 5 * 8 * 4)


def test_factors_of_one_shape_may_be_one_tensor() -> None:
    found = costs("aten::_foreach_addcmul_", [[[N]], [[N]], [[N]], []], [*["TensorList"] * 3, S], None, ADAM)
    assert (found.bytes, found.bytes_most) == (12 * N, 16 * N)


def test_a_mixture_of_experts_multiplies_for_each_token_and_each_of_its_experts() -> None:
    dims = [[10, 8], [64, 12, 8], [64, 8, 6], [10, 2], [10, 2]]
    found = costs("vllm::inplace_fused_experts", dims, [H, H, H, F, I], [""] * 5)
    expert = 2 * (12 * 8 + 8 * 6)
    assert found.flop == 2 * 20 * (12 * 8 + 8 * 6)
    assert found.bytes == 2 * 2 * 80 + 2 * 20 * 4 + 2 * expert
    assert found.bytes_most == 2 * 2 * 80 + 2 * 20 * 4 + 20 * expert


def test_where_the_dimensions_were_not_recorded_a_reduction_is_a_range() -> None:
    found = costs("aten::sum", [[6, 8], [], [], []], [F, "GenericList", "Bool", ""], None)
    assert (found.bytes, found.bytes_most) == (4 * 48, 4 * 96)
