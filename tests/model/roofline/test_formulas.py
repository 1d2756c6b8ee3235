"""FLOPs of operators, against numbers worked out by hand and against plain counting."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.model.roofline.arguments import Arguments, Cost, Tensor, arguments_of
from kinetoscope.model.roofline.registry import ENTRIES, cost
from kinetoscope.model.trace.element_types import element_type

FLOAT = element_type("float")
Dims = list[list[int]]


def flop(name: str, dims: Dims, concrete: list[str] | None = None) -> int | None:
    found = cost(name, arguments_of(dims, concrete=concrete))
    return None if found is None else found.flop


PRODUCTS: list[tuple[str, Dims, int]] = [
    ("aten::mm", [[3, 4], [4, 5]], 2 * 3 * 4 * 5),
    ("aten::addmm", [[5], [3, 4], [4, 5], [], []], 120),
    ("aten::addmm", [[5], [3, 4], [4, 5], [], [], [3, 5]], 120),  # the overload with a place for the output
    ("aten::bmm", [[7, 3, 4], [7, 4, 5]], 7 * 120),
    ("aten::baddbmm", [[7, 3, 5], [7, 3, 4], [7, 4, 5]], 7 * 120),
    ("aten::matmul", [[2, 1, 3, 4], [7, 4, 5]], 14 * 120),
    ("aten::matmul", [[4], [4, 5]], 40),
    ("aten::mv", [[3, 4], [4]], 24),
    ("aten::dot", [[9], [9]], 18),
    ("aten::linear", [[2, 3, 4], [5, 4], [5]], 2 * 120),
    ("aten::_scaled_mm", [[3, 4], [4, 5], [], []], 120),
    ("aten::_int_mm", [[3, 4], [4, 5]], 120),
    ("mkl::_mkl_linear", [[3, 4], [99, 1], [5, 4], [5]], 120),
    # 6 rows that groups share among themselves; 3 groups of everything; the inner dimension shared.
    ("aten::_grouped_mm", [[6, 4], [3, 4, 5], [3]], 2 * 6 * 4 * 5),
    ("aten::_grouped_mm", [[3, 6, 4], [3, 4, 5]], 3 * 2 * 6 * 4 * 5),
    ("aten::_grouped_mm", [[6, 4], [4, 5], [3]], 2 * 6 * 4 * 5),
    ("aten::_grouped_mm", [[3, 6, 4], [4, 5], [3]], 2 * 6 * 4 * 5),
    ("aten::mm", [[0, 4], [4, 5]], 0),
]


@pytest.mark.parametrize(("name", "dims", "expected"), PRODUCTS)
def test_matrix_products(name: str, dims: Dims, expected: int) -> None:
    assert flop(name, dims) == expected


shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4)


@given(shapes, shapes)
def test_matmul_is_numpys(a: list[int], b: list[int]) -> None:
    found = cost("aten::matmul", arguments_of([a, b], ["float", "float"]))
    try:
        out = np.matmul(np.zeros(a), np.zeros(b))
    except ValueError:
        assert found is None
        return
    expected = Cost(2 * out.size * a[-1], bytes=4 * (prod(a) + prod(b) + out.size))
    assert found is not None
    assert (found.flop, found.bytes, found.outputs[0].shape) == (expected.flop, expected.bytes, out.shape)


# ResNet's first layer: 64 filters of 3 × 7 × 7 at 112 × 112 positions of 32 images.
RESNET = 2 * 32 * 112 * 112 * 64 * 3 * 7 * 7
IMAGE, WEIGHT = [32, 3, 224, 224], [64, 3, 7, 7]

CONVOLUTIONS: list[tuple[str, Dims, list[str], int]] = [
    ("aten::conv2d", [IMAGE, WEIGHT], ["", "", "", "[2, 2]", "[3, 3]", "[1, 1]", "1"], RESNET),
    ("aten::conv2d", [IMAGE[1:], WEIGHT], ["", "", "", "[2, 2]", "[3, 3]", "[1, 1]", "1"], RESNET // 32),
    (
        "aten::convolution",
        [IMAGE, WEIGHT],
        ["", "", "", "[2, 2]", "[3, 3]", "[1, 1]", "False", "[0, 0]", "1"],
        RESNET,
    ),
    ("aten::cudnn_convolution", [IMAGE, WEIGHT], ["", "", "[3, 3]", "[2, 2]", "[1, 1]", "1", "False"], RESNET),
    ("aten::miopen_convolution", [IMAGE, WEIGHT], ["", "", "", "[3, 3]", "[2, 2]", "[1, 1]", "1"], RESNET),
    ("aten::mkldnn_convolution", [IMAGE, WEIGHT], ["", "", "", "[3, 3]", "[2, 2]", "[1, 1]", "1"], RESNET),
    ("aten::cudnn_convolution_relu", [IMAGE, WEIGHT], ["", "", "", "[2, 2]", "[3, 3]", "[1, 1]", "1"], RESNET),
    # One number stands for all dimensions; padding by name.
    ("aten::conv2d", [[1, 8, 10, 10], [4, 8, 3, 3]], ["", "", "", "1", "same", "1"], 2 * 100 * 4 * 8 * 9),
    ("aten::conv2d", [[1, 8, 10, 10], [4, 8, 3, 3]], ["", "", "", "1", "valid", "1"], 2 * 64 * 4 * 8 * 9),
    # Four groups: each filter sees two of the eight channels.
    ("aten::conv2d", [[1, 8, 10, 10], [4, 2, 3, 3]], ["", "", "", "1", "1", "1", "4"], 2 * 100 * 4 * 2 * 9),
    ("aten::conv1d", [[2, 6, 50], [5, 6, 3]], ["", "", "", "[1]", "[0]", "[2]", "1"], 2 * 2 * 46 * 5 * 6 * 3),
    ("aten::conv3d", [[1, 2, 4, 4, 4], [3, 2, 2, 2, 2]], ["", "", "", "1", "0", "1"], 2 * 27 * 3 * 2 * 8),
    # A transposed convolution puts the whole kernel down at each position of its input.
    (
        "aten::conv_transpose2d",
        [[1, 8, 5, 5], [8, 4, 3, 3]],
        ["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "1", "[1, 1]"],
        2 * 25 * 8 * 4 * 9,
    ),
    (
        "aten::convolution",
        [[1, 8, 5, 5], [8, 4, 3, 3]],
        ["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "True", "[1, 1]", "1"],
        2 * 25 * 8 * 4 * 9,
    ),
    (
        "aten::cudnn_convolution_transpose",
        [[1, 8, 5, 5], [8, 4, 3, 3]],
        ["", "", "[1, 1]", "[1, 1]", "[2, 2]", "[1, 1]", "1"],
        2 * 25 * 8 * 4 * 9,
    ),
]


@pytest.mark.parametrize(("name", "dims", "concrete", "expected"), CONVOLUTIONS)
def test_convolutions(name: str, dims: Dims, concrete: list[str], expected: int) -> None:
    assert flop(name, dims, concrete) == expected


def backward(mask: str, *, transposed: str = "False") -> list[str]:
    return ["", "", "", "[64]", "[2, 2]", "[3, 3]", "[1, 1]", transposed, "[0, 0]", "1", mask]


@pytest.mark.parametrize(
    ("mask", "products"),
    [("[True, True, False]", 2), ("[False, True, True]", 1), ("[True, False, True]", 1), ("[False, False, True]", 0)],
)
def test_a_convolutions_backward_pass_is_as_much_for_each_gradient_that_is_wanted(mask: str, products: int) -> None:
    dims = [[32, 64, 112, 112], IMAGE, WEIGHT]
    assert flop("aten::convolution_backward", dims, backward(mask)) == products * RESNET


def test_a_transposed_convolutions_backward_pass_goes_by_its_input() -> None:
    dims = [[1, 4, 10, 10], [1, 8, 5, 5], [8, 4, 3, 3]]
    found = flop("aten::convolution_backward", dims, backward("[True, True, False]", transposed="True"))
    assert found == 2 * (2 * 25 * 8 * 4 * 9)


@given(
    size=st.integers(1, 12), kernel=st.integers(1, 4), stride=st.integers(1, 3), padding=st.integers(0, 2),
    dilation=st.integers(1, 3),
)  # fmt: skip
def test_a_convolution_has_the_positions_at_which_its_kernel_fits(
    size: int, kernel: int, stride: int, padding: int, dilation: int
) -> None:
    reach = dilation * (kernel - 1)
    starts = [x for x in range(-padding, size + padding, stride) if x + reach < size + padding]
    concrete = ["", "", "", f"[{stride}]", f"[{padding}]", f"[{dilation}]", "1"]
    found = flop("aten::conv1d", [[3, 2, size], [5, 2, kernel]], concrete)
    if size + 2 * padding > reach:
        assert found == 2 * 3 * len(starts) * 5 * 2 * kernel
    else:
        assert found in (None, 0)


QUERY, KEY, VALUE = [2, 8, 10, 64], [2, 8, 20, 64], [2, 8, 20, 32]
SCORES = 2 * 2 * 8 * 10 * 20
"""FLOPs for each element of a row of the query or the value."""


@pytest.mark.parametrize("name", ["aten::scaled_dot_product_attention", "aten::_scaled_dot_product_flash_attention"])
def test_attention_is_two_products(name: str) -> None:
    assert flop(name, [QUERY, KEY, VALUE, []]) == SCORES * (64 + 32)


def test_attentions_backward_pass_is_five_products() -> None:
    dims = [[2, 8, 10, 32], QUERY, KEY, VALUE, [2, 8, 10, 32], [2, 8, 10]]
    expected = SCORES * (64 + 32 + 32 + 64 + 64)  # scores anew; gradients of probabilities, value, query, key
    assert flop("aten::_scaled_dot_product_efficient_attention_backward", dims) == expected


def after(shape: list[int]) -> list[int]:
    return [shape[0], shape[2], shape[1], shape[3]]


def test_attention_with_heads_after_the_length_is_the_same() -> None:
    dims = [after(QUERY), after(KEY), after(VALUE)]
    assert flop("aten::_flash_attention_forward", [*dims, [], [], []]) == SCORES * 96
    assert flop("aten::_efficient_attention_forward", [*dims, [], [], []]) == SCORES * 96
    assert flop("flash_attn::_flash_attn_backward", [after(QUERY), *dims]) == SCORES * 256


def test_of_packed_sequences_only_the_sum_of_the_lengths_is_known() -> None:
    dims = [after(QUERY), after(KEY), after(VALUE)]
    assert flop("aten::_efficient_attention_forward", [*dims, [], [5], [5]]) is None
    assert flop("aten::_flash_attention_forward", [[20, 8, 64], [20, 8, 64], [20, 8, 64], [5], [5]]) is None


def test_grouped_queries_share_their_keys() -> None:
    assert flop("aten::scaled_dot_product_attention", [QUERY, [2, 2, 20, 64], [2, 2, 20, 32]]) == SCORES * 96


NOT_TOLD: list[tuple[str, object, object]] = [
    ("aten::conv2d", [IMAGE, WEIGHT], None),  # in older files strides were not recorded
    ("aten::conv2d", [IMAGE, WEIGHT], ["", "", "", "[0, 0]", "[3, 3]", "[1, 1]"]),
    ("aten::conv2d", [IMAGE, WEIGHT], ["", "", "", "[2, 2, 2]", "[3, 3]", "[1, 1]"]),
    ("aten::conv2d", [[1, 5, 9, 9], [4, 2, 3, 3]], ["", "", "", "1", "1", "1"]),
    ("aten::conv2d", [[1, 5, 9, 9], [4, 0, 3, 3]], ["", "", "", "1", "1", "1"]),
    ("aten::convolution", [IMAGE, WEIGHT], ["", "", "", "[2, 2]", "[3, 3]", "[1, 1]", "maybe"]),
    ("aten::convolution_backward", [[32, 64, 112, 112], IMAGE, WEIGHT], None),
    ("aten::mm", [[3, 4], [5, 6]], None),
    ("aten::mm", [[3, 4]], None),
    ("aten::mm", [], None),
    ("aten::mm", "text", None),
    ("aten::mm", None, None),
    ("aten::mm", [[3, -4], [-4, 5]], None),
    ("aten::mm", [[3, 4.5], [4.5, 5]], None),
    ("aten::mm", [[3, True], [True, 5]], None),
    ("aten::mm", [[3, 1 << 60], [1 << 60, 5]], None),
    ("aten::linear", [[3, 4], [2, 5, 4]], None),
    ("aten::_grouped_mm", [[6, 4], [3, 5, 5]], None),
    ("aten::_flash_attention_forward", [[2, 3], [2, 3], [2, 3]], None),
    ("aten::_cudnn_rnn", [[3, 4], [4, 5]], None),
    ("custom::relu", [[3, 4]], None),
]


@pytest.mark.parametrize(("name", "dims", "concrete"), NOT_TOLD)
def test_what_the_arguments_do_not_tell_is_not_counted(name: str, dims: object, concrete: object) -> None:
    assert cost(name, arguments_of(dims, concrete=concrete)) is None


sizes = st.lists(st.integers(0, 5), max_size=5)
dims = st.none() | sizes | st.lists(sizes, max_size=3)
types = st.sampled_from(["float", "c10::BFloat16", "long int", "bool", "Scalar", "ScalarList", "TensorList", "", "x"])
texts = st.sampled_from(["", "[1, 1]", "[2]", "1", "0", "-1", "True", "False", "[True, False, True]", "same", "x"])


@st.composite
def calls(draw: st.DrawFn) -> Arguments:
    """Arguments as no operator has them."""
    one = arguments_of(*(draw(st.lists(each, max_size=12)) for each in (dims, types, dims, texts)))
    other = arguments_of(draw(st.lists(dims, max_size=8)), draw(st.lists(types, max_size=8)))
    return replace(one, outer=other, later=other, kernel=draw(st.sampled_from(["", "multi_tensor_apply<float>"])))


@given(st.sampled_from(sorted(ENTRIES)), calls())
def test_no_arguments_break_a_formula(name: str, arguments: Arguments) -> None:
    found = cost(name, arguments)
    assert found is None or (min(found.flop, found.vector_flop) >= 0 and (found.bytes is None or found.bytes >= 0))


def test_expanded_elements_count_once() -> None:
    assert arguments_of([[4, 5, 6]], ["float"], [[0, 6, 1]]).values[0] == Tensor((4, 5, 6), (0, 6, 1), FLOAT)
    assert Tensor((4, 5, 6), (0, 6, 1), FLOAT).bytes == 4 * 30


def test_only_its_type_tells_a_number_from_a_tensor_without_dimensions() -> None:
    given = arguments_of([[], [], [[2], [3, 4]]], ["Scalar", "float", "TensorList"])
    assert given.tensor(0) is None
    assert given.tensor(1) == Tensor((), None, FLOAT)
    assert [each.shape for each in given.tensors(2)] == [(2,), (3, 4)]
