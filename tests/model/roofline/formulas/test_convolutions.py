"""Convolutions, against numbers worked out by hand and against counting each element."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.model.roofline.formulas.arguments import Arguments, arguments_of
from kinetoscope.model.roofline.formulas.convolutions import Window
from kinetoscope.model.roofline.formulas.registry import cost
from tests.model.roofline.formulas.costs import Dims, cost_of, flop_of

# ResNet's first layer: 64 filters of 3 × 7 × 7 at 112 × 112 positions of 32 images.
RESNET = 2 * 32 * 112 * 112 * 64 * 3 * 7 * 7
IMAGE, WEIGHT, OUT = [32, 3, 224, 224], [64, 3, 7, 7], [32, 64, 112, 112]
SMALL, DEEP = [1, 8, 10, 10], [1, 8, 5, 5]


def after(start: int, *values: str) -> dict[int, str]:
    """Values at the places from `start` on."""
    return dict(enumerate(values, start))


CONVOLUTIONS: list[tuple[str, Dims, dict[int, str], int]] = [
    ("aten::conv2d", [IMAGE, WEIGHT], after(3, "[2, 2]", "[3, 3]", "[1, 1]", "1"), RESNET),
    ("aten::conv2d", [IMAGE[1:], WEIGHT], after(3, "[2, 2]", "[3, 3]", "[1, 1]", "1"), RESNET // 32),
    ("aten::convolution", [IMAGE, WEIGHT], after(3, "[2, 2]", "[3, 3]", "[1, 1]", "False", "[0, 0]", "1"), RESNET),
    ("aten::cudnn_convolution", [IMAGE, WEIGHT], after(2, "[3, 3]", "[2, 2]", "[1, 1]", "1", "False"), RESNET),
    ("aten::miopen_convolution", [IMAGE, WEIGHT], after(3, "[3, 3]", "[2, 2]", "[1, 1]", "1"), RESNET),
    ("aten::mkldnn_convolution", [IMAGE, WEIGHT], after(3, "[3, 3]", "[2, 2]", "[1, 1]", "1"), RESNET),
    ("aten::_slow_conv2d_forward", [IMAGE, WEIGHT, ""], after(4, "[2, 2]", "[3, 3]"), RESNET),
    ("aten::cudnn_convolution_relu", [IMAGE, WEIGHT], after(3, "[2, 2]", "[3, 3]", "[1, 1]", "1"), RESNET),
    ("mkldnn::_convolution_pointwise", [IMAGE, WEIGHT, [64]], after(3, "[3, 3]", "[2, 2]", "[1, 1]", "1"), RESNET),
    ("mkldnn::_convolution_pointwise", [IMAGE, OUT, WEIGHT, [64]], after(4, "[3, 3]", "[2, 2]", "[1, 1]"), RESNET),
    # One number stands for all dimensions; padding by name.
    ("aten::conv2d", [SMALL, [4, 8, 3, 3]], after(3, "1", "same", "1"), 2 * 100 * 4 * 8 * 9),
    ("aten::conv2d", [SMALL, [4, 8, 3, 3]], after(3, "1", "valid", "1"), 2 * 64 * 4 * 8 * 9),
    # Four groups: each filter sees two of the eight channels.
    ("aten::conv2d", [SMALL, [4, 2, 3, 3]], after(3, "1", "1", "1", "4"), 2 * 100 * 4 * 2 * 9),
    ("aten::conv1d", [[2, 6, 50], [5, 6, 3]], after(3, "[1]", "[0]", "[2]", "1"), 2 * 2 * 46 * 5 * 6 * 3),
    ("aten::conv3d", [[1, 2, 4, 4, 4], [3, 2, 2, 2, 2]], after(3, "1", "0", "1"), 2 * 27 * 3 * 2 * 8),
    # A transposed convolution puts the whole kernel down at each position of its input.
    ("aten::conv_transpose2d", [DEEP, [8, 4, 3, 3]], after(3, "[2, 2]", "[1, 1]", "[1, 1]", "1", "[1, 1]"),
     2 * 25 * 8 * 4 * 9),
    ("aten::convolution", [DEEP, [8, 4, 3, 3]], after(3, "[2, 2]", "[1, 1]", "[1, 1]", "True", "[1, 1]", "1"),
     2 * 25 * 8 * 4 * 9),
    ("aten::cudnn_convolution_transpose", [DEEP, [8, 4, 3, 3]], after(2, "[1, 1]", "[1, 1]", "[2, 2]", "[1, 1]", "1"),
     2 * 25 * 8 * 4 * 9),
]  # fmt: skip


@pytest.mark.parametrize(("name", "dims", "concrete", "expected"), CONVOLUTIONS)
def test_operations(name: str, dims: Dims, concrete: dict[int, str], expected: int) -> None:
    assert flop_of(name, dims, concrete) == expected


def test_bytes_are_those_of_image_weight_bias_and_output() -> None:
    found = cost_of("aten::conv2d", [IMAGE, WEIGHT, [64]], after(3, "[2, 2]", "[3, 3]", "[1, 1]", "1"), "c10::Half")
    assert found is not None
    assert found.bytes == 2 * (prod(IMAGE) + prod(WEIGHT) + 64 + prod(OUT))
    assert [list(each.shape) for each in found.outputs] == [OUT]


def test_a_transposed_convolution_writes_what_it_spreads() -> None:
    arguments = after(3, "[2, 2]", "[1, 1]", "[1, 1]", "4", "[1, 1]")
    found = cost_of("aten::conv_transpose2d", [[1, 8, 5, 5], [8, 3, 3, 3]], arguments)
    assert found is not None
    assert found.outputs[0].shape == (1, 12, 10, 10)  # 4 groups of 3 channels
    assert found.bytes == 4 * (200 + 8 * 3 * 9 + 1200)


def test_a_kernel_of_one_position_that_moves_by_two_reads_a_quarter() -> None:
    found = cost_of("aten::conv2d", [[32, 256, 56, 56], [512, 256, 1, 1]], after(3, "2", "0", "1", "1"))
    assert found is not None
    assert found.bytes == 4 * (32 * 256 * 28 * 28 + 512 * 256 + 32 * 512 * 28 * 28)


windows = st.builds(Window, st.integers(1, 5), st.integers(1, 4), st.integers(0, 3), st.integers(1, 4))


@given(st.integers(1, 14), windows)
def test_a_kernel_takes_the_positions_at_which_it_fits_and_meets_what_lies_under_them(
    size: int, window: Window
) -> None:
    reach = window.dilation * (window.kernel - 1)
    starts = [x for x in range(-window.padding, size + window.padding, window.stride)
              if x + reach < size + window.padding]  # fmt: skip
    met = {x + window.dilation * k for x in starts for k in range(window.kernel)} & set(range(size))
    assert max(window.outputs(size), 0) == len(starts)
    if window.stride == 1 or window.dilation == 1:
        assert not starts or window.met(size, len(starts)) == len(met)
    else:
        assert not starts or window.met(size, len(starts)) <= len(met)


@given(st.tuples(st.integers(1, 6), st.integers(1, 6)), windows, windows, st.integers(1, 2), st.integers(1, 2))
def test_a_convolution_is_what_loops_over_its_elements_count(
    size: tuple[int, int], first: Window, second: Window, groups: int, filters: int
) -> None:
    """Each output of each filter meets each element of its kernel, in its group's channels, also in the padding."""
    starts = [
        [x for x in range(-w.padding, n + w.padding, w.stride) if x + w.dilation * (w.kernel - 1) < n + w.padding]
        for n, w in zip(size, (first, second), strict=True)
    ]
    loops = 0
    for _image, _filter in product(range(3), range(groups * filters)):
        for _position in product(*starts):
            for _channel, _element in product(range(2), product(range(first.kernel), range(second.kernel))):
                loops += 1
    concrete = after(
        3,
        *(str([getattr(first, name), getattr(second, name)]) for name in ("stride", "padding", "dilation")),
        str(groups),
    )
    dims: Dims = [[3, 2 * groups, *size], [groups * filters, 2, first.kernel, second.kernel]]
    found = flop_of("aten::conv2d", dims, concrete)
    assert found == 2 * loops if all(starts) else found in (None, 0)


# --- backward


def backward(mask: str, *, transposed: str = "False") -> dict[int, str]:
    return after(3, "[64]", "[2, 2]", "[3, 3]", "[1, 1]", transposed, "[0, 0]", "1", mask)


@pytest.mark.parametrize(
    ("mask", "products"),
    [("[True, True, False]", 2), ("[False, True, True]", 1), ("[True, False, True]", 1), ("[False, False, True]", 0)],
)
def test_the_backward_pass_is_as_much_for_each_gradient_that_is_wanted(mask: str, products: int) -> None:
    found = cost_of("aten::convolution_backward", [OUT, IMAGE, WEIGHT], backward(mask))
    assert found is not None
    image, weight, bias = ("True" in each for each in mask.split(","))
    elements = prod(OUT) + (prod(WEIGHT) + prod(IMAGE)) * (image + weight) + 64 * bias
    assert (found.flop, found.bytes) == (products * RESNET, 4 * elements)
    assert len(found.outputs) == image + weight + bias


def test_a_transposed_convolutions_backward_pass_goes_by_its_input() -> None:
    dims: Dims = [[1, 4, 10, 10], [1, 8, 5, 5], [8, 4, 3, 3]]
    found = flop_of("aten::convolution_backward", dims, backward("[True, True, False]", transposed="True"))
    assert found == 2 * (2 * 25 * 8 * 4 * 9)


# --- files without strides (before torch 2.1)


def read(*dims: list[int]) -> Arguments:
    return arguments_of(list(dims), ["float"] * len(dims))


def test_without_strides_the_gradient_tells_the_size_of_the_output() -> None:
    old = read(IMAGE, WEIGHT, [], [])
    assert cost("aten::cudnn_convolution", old) is None
    assert (
        cost("aten::cudnn_convolution", replace(old, backward_args=read([], []))) is None
    )  # another operator came next
    assert cost("aten::cudnn_convolution", replace(old, backward_args=read([32, 65, 112, 112]))) is None
    found = cost("aten::cudnn_convolution", replace(old, backward_args=read(OUT)))
    assert found is not None
    assert (found.flop, found.bytes) == (RESNET, 4 * (prod(IMAGE) + prod(WEIGHT) + prod(OUT)))


def test_gradients_of_old_operators_have_their_sizes_around_them() -> None:
    around = read(IMAGE, OUT, WEIGHT)
    of_image = cost("aten::cudnn_convolution_backward_input", replace(read([], OUT, WEIGHT), parent_op=around))
    of_weight = cost("aten::cudnn_convolution_backward_weight", replace(read([], OUT, IMAGE), parent_op=around))
    assert of_image is not None
    assert of_weight is not None
    moved = 4 * (prod(OUT) + prod(WEIGHT) + prod(IMAGE))
    assert [(each.flop, each.bytes) for each in (of_image, of_weight)] == [(RESNET, moved)] * 2
    assert [each.outputs[0].shape for each in (of_image, of_weight)] == [tuple(IMAGE), tuple(WEIGHT)]


def test_without_a_mask_one_gradient_or_both_are_wanted() -> None:
    found = cost("aten::convolution_backward", read(OUT, IMAGE, WEIGHT))
    assert found is not None
    assert (found.flop, found.flop_most) == (RESNET, 2 * RESNET)
    least = prod(OUT) + prod(WEIGHT) + prod(IMAGE)
    assert (found.bytes, found.bytes_most) == (4 * least, 4 * (least + prod(WEIGHT) + prod(IMAGE) + 64))


# --- algorithms


@pytest.mark.parametrize(
    ("kernel", "share"),
    [
        ("", None),
        ("volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1", (4, 9)),  # 4² multiplications for 2² · 3²
        ("void cudnn::winograd_nonfused::winogradForwardOutput4x4<float, float>(…)", (1, 4)),  # 6² for 4² · 3²
        ("void cudnn::winograd_nonfused::winogradForwardData9x9_5x5<float, float>(…)", (81, 625)),
        ("miopenSp3AsmConv_v21_1_3_gfx9_fp32_f3x2_stride1", (4, 9)),
        ("void fft2d_c2r_32x32<float, false, false, 0u, false, false>(…)", (0, 1)),
    ],
)
def test_an_algorithm_that_multiplies_less_takes_less(kernel: str, share: tuple[int, int] | None) -> None:
    old = replace(read(IMAGE, WEIGHT), backward_args=read(OUT), algorithm=kernel)
    found = cost("aten::cudnn_convolution", old)
    assert found is not None
    assert found.flop == RESNET
    assert found.reduced_flop == (None if share is None else RESNET * share[0] // share[1])
