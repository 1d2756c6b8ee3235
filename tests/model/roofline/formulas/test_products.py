"""Products of matrices, against numbers worked out by hand and against numpy."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.model.roofline.formulas.arguments import arguments_of
from kinetoscope.model.roofline.formulas.registry import cost
from tests.model.roofline.formulas.costs import Dims, cost_of, flop_of

PRODUCTS: list[tuple[str, Dims, int]] = [
    ("aten::mm", [[3, 4], [4, 5]], 2 * 3 * 4 * 5),
    ("aten::addmm", [[5], [3, 4], [4, 5], "", ""], 120),
    ("aten::addmm", [[5], [3, 4], [4, 5], "", "", [3, 5]], 120),  # the overload with a place for the output
    ("aten::bmm", [[7, 3, 4], [7, 4, 5]], 7 * 120),
    ("aten::baddbmm", [[7, 3, 5], [7, 3, 4], [7, 4, 5]], 7 * 120),
    ("aten::addbmm", [[3, 5], [7, 3, 4], [7, 4, 5]], 7 * 120),
    ("aten::matmul", [[2, 1, 3, 4], [7, 4, 5]], 14 * 120),
    ("aten::matmul", [[4], [4, 5]], 40),
    ("aten::mv", [[3, 4], [4]], 24),
    ("aten::dot", [[9], [9]], 18),
    ("aten::linear", [[2, 3, 4], [5, 4], [5]], 2 * 120),
    ("aten::_scaled_mm", [[3, 4], [4, 5], [], []], 120),
    ("aten::_int_mm", [[3, 4], [4, 5]], 120),
    ("mkl::_mkl_linear", [[3, 4], [99, 1], [5, 4], [5]], 120),
    ("mkldnn::_linear_pointwise", [[3, 4], [5, 4], [5]], 120),
    ("mkldnn::_linear_pointwise", [[3, 4], [3, 5], [5, 4], [5]], 120),
    # 6 rows that groups share among themselves; 3 groups of everything; the inner dimension shared; 5 columns shared.
    ("aten::_grouped_mm", [[6, 4], [3, 4, 5], [3]], 2 * 6 * 4 * 5),
    ("aten::_grouped_mm", [[3, 6, 4], [3, 4, 5]], 3 * 2 * 6 * 4 * 5),
    ("aten::_grouped_mm", [[6, 4], [4, 5], [3]], 2 * 6 * 4 * 5),
    ("aten::_grouped_mm", [[3, 6, 4], [4, 5], [3]], 2 * 6 * 4 * 5),
    ("aten::mm", [[0, 4], [4, 5]], 0),
    # A weight of 64 columns in 4 bits: the scales [groups, columns, 2] say how many columns it has.
    ("aten::_weight_int4pack_mm", [[3, 128], [8, 1, 32, 4], "", [4, 64, 2]], 2 * 3 * 128 * 64),
    ("aten::_weight_int8pack_mm", [[3, 128], [64, 128], [64]], 2 * 3 * 128 * 64),
    ("bitsandbytes::int8_linear_matmul", [[3, 128], [64, 128]], 2 * 3 * 128 * 64),
    ("bitsandbytes::gemv_4bit", [[1, 128], [4096, 1], "", [128]], 2 * 128 * 64),
    # 2:4 sparsity keeps half of 16 × 64.
    ("aten::_sparse_semi_structured_linear", [[3, 64], [16, 32], [16, 4], [16]], 2 * 3 * 64 * 16 // 2),
    ("aten::_sparse_semi_structured_mm", [[16, 32], [16, 4], [64, 3]], 2 * 3 * 64 * 16 // 2),
    # An LSTM of 2 layers, 10 steps of 4 sequences: each step meets each element of each matrix.
    ("aten::_cudnn_rnn", [[10, 4, 8], [[64, 8], [64, 16], [64], [64], [64, 16], [64, 16], [64], [64]]],
     2 * 10 * 4 * 64 * (8 + 16 + 16 + 16)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "dims", "expected"), PRODUCTS)
def test_operations(name: str, dims: Dims, expected: int) -> None:
    last = 8 - len(dims) if "_linear_pointwise" in name else 7  # place of the last argument
    assert flop_of(name, dims, {last: "16", 2: "[64, 128]" if "gemv" in name else ""}) == expected


shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4)


@given(shapes, shapes)
def test_matmul_is_numpys(a: list[int], b: list[int]) -> None:
    found = cost_of("aten::matmul", [a, b])
    try:
        out = np.matmul(np.zeros(a), np.zeros(b))
    except ValueError:
        assert found is None
        return
    assert found is not None
    assert (found.flop, found.bytes) == (2 * out.size * a[-1], 4 * (prod(a) + prod(b) + out.size))
    assert found.outputs[0].shape == out.shape


BF16, FP8 = "c10::BFloat16", "c10::Float8_e4m3fn"


def moved(*args: object, **kwargs: object) -> int | None:
    found = cost_of(*args, **kwargs)  # type: ignore[arg-type]
    assert found is not None
    return found.bytes


def test_bytes_of_an_added_matrix_are_those_of_its_distinct_elements() -> None:
    product = 2 * (3 * 4 + 4 * 5 + 3 * 5)
    for added in ([5], [1, 5], [3, 5]):
        assert moved("aten::addmm", [added, [3, 4], [4, 5], "", ""], {3: "1", 4: "1"}, BF16) == product + 2 * prod(
            added
        )
    bias = arguments_of([[3, 5], [3, 4], [4, 5], [], []], [BF16] * 3 + ["Scalar"] * 2, [[0, 1], [4, 1], [5, 1], [], []])
    found = cost("aten::addmm", bias)
    assert found is not None
    assert found.bytes == product + 2 * 5


def test_what_is_added_with_the_factor_0_is_not_read() -> None:
    dims: Dims = [[3, 5], [3, 4], [4, 5], "", ""]
    for beta, added in (("1", 15), ("0", 0), ("0.", 0)):
        found = cost_of("aten::addmm", dims, {3: beta, 4: "1"})
        assert found is not None
        assert (found.bytes, found.vector_flop) == (4 * (12 + 20 + 15 + added), added)


def test_overloads_with_a_type_write_it() -> None:
    assert moved("aten::mm", [[3, 4], [4, 5], ""], {2: "6"}, BF16) == 2 * (12 + 20) + 4 * 15
    dims: Dims = [[5], [3, 4], [4, 5], "", "", ""]
    assert moved("aten::addmm", dims, {3: "6", 4: "1", 5: "1"}, BF16) == 2 * (12 + 20 + 5) + 4 * 15
    assert moved("aten::addmm", dims, {3: "6", 4: "0", 5: "1"}, BF16) == 2 * (12 + 20) + 4 * 15


def test_a_batch_that_shares_its_weight_reads_it_once() -> None:
    given = arguments_of([[7, 3, 4], [7, 4, 5]], ["float"] * 2, [[12, 4, 1], [0, 5, 1]])
    found = cost("aten::bmm", given)
    assert found is not None
    assert found.bytes == 4 * (7 * 12 + 20 + 7 * 15)


def test_integers_are_summed_in_32_bits() -> None:
    assert moved("aten::_int_mm", [[3, 4], [4, 5]], None, "signed char") == 12 + 20 + 4 * 15


@pytest.mark.parametrize(
    ("dims", "concrete"),
    [
        ([[32, 64], [64, 16], [32, 1], [1, 16], [16], "", "", ""], {6: "15", 7: "True"}),
        ([[32, 64], [64, 16], [16], "", [32, 1], [1, 16], "", ""], {3: "15", 7: "True"}),  # before torch 2.5
    ],
)
def test_a_scaled_product_reads_its_scales_and_bias_and_writes_the_wanted_type(
    dims: Dims, concrete: dict[int, str]
) -> None:
    bias = 4 if dims[4] == [16] else 2
    types = {0: FP8, 1: FP8, bias: BF16}
    assert moved("aten::_scaled_mm", dims, concrete, types) == 32 * 64 + 64 * 16 + 4 * (32 + 16) + 2 * 16 + 2 * 32 * 16


def test_scales_in_lists_have_the_size_of_their_recipe() -> None:
    # Of 16 elements each, in E4M3, and one of the whole.
    dims: Dims = [[32, 32], [32, 16], [[32, 4], []], "", "", [[16, 4], []], "", "", "", "", "", ""]
    concrete = {3: "[2, 0]", 6: "[2, 0]", 9: "15"}
    fp4 = "c10::Float4_e2m1fn_x2"
    found = cost_of("aten::_scaled_mm_v2", dims, concrete, fp4)
    assert found is not None
    assert found.bytes == 32 * 32 + 32 * 16 + 32 * 4 + 16 * 4 + 2 * 4 + 2 * 32 * 16


def test_of_experts_those_with_rows_are_read() -> None:
    """One of them has all rows, or each row has one of its own."""
    found = cost_of("aten::_grouped_mm", [[6, 4], [8, 4, 5], [8], "", ""], None, BF16)
    assert found is not None
    assert (found.bytes, found.bytes_most) == tuple(2 * (24 + 30 + experts * 20) for experts in (1, 6))
    assert found.outputs[0].shape == (6, 5)


def test_a_grouped_product_over_the_inner_dimension_writes_a_matrix_a_group() -> None:
    found = cost_of("aten::_grouped_mm", [[6, 40], [40, 5], [3]], None, BF16)
    assert found is not None
    assert (found.outputs[0].shape, found.bytes) == ((3, 6, 5), 2 * (240 + 200 + 90))


def test_a_packed_weight_is_read_as_it_is() -> None:
    dims: Dims = [[3, 128], [8, 1, 32, 4], "", [4, 64, 2]]  # 64 × 128 numbers of 4 bits in integers of 32
    found = moved("aten::_weight_int4pack_mm", dims, {2: "32"}, {0: BF16, 1: "int", 3: BF16})
    assert found == 2 * 3 * 128 + 64 * 128 // 2 + 2 * (4 * 64 * 2) + 2 * 3 * 64


def test_a_compressed_matrix_says_how_many_rows_it_has() -> None:
    kept = 16 * 64 * 9 // 16
    found = cost_of("aten::_cslt_sparse_mm", [[kept], [64, 3]], None, BF16)
    assert found is not None
    assert (found.flop, found.outputs[0].shape) == (2 * 16 * 64 * 3 // 2, (16, 3))
