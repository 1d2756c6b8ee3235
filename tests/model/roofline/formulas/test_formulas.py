"""Formulas take any arguments, and say nothing where the arguments tell nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.model.roofline.formulas.arguments import Arguments, Estimate, Gradients, Tensor, arguments_of
from kinetoscope.model.roofline.formulas.family import NamedFormula
from kinetoscope.model.roofline.formulas.registry import ENTRIES, cost
from kinetoscope.model.trace.element_types import element_type

FLOAT = element_type("float")
IMAGE, WEIGHT = [32, 3, 224, 224], [64, 3, 7, 7]

NOT_TOLD: list[tuple[str, object, object]] = [
    ("aten::conv2d", [IMAGE, WEIGHT], None),  # in older files strides were not recorded
    ("aten::conv2d", [IMAGE, WEIGHT], ["", "", "", "[0, 0]", "[3, 3]", "[1, 1]"]),
    ("aten::conv2d", [IMAGE, WEIGHT], ["", "", "", "[2, 2, 2]", "[3, 3]", "[1, 1]"]),
    ("aten::conv2d", [[1, 5, 9, 9], [4, 2, 3, 3]], ["", "", "", "1", "1", "1"]),
    ("aten::conv2d", [[1, 5, 9, 9], [4, 0, 3, 3]], ["", "", "", "1", "1", "1"]),
    ("aten::convolution", [IMAGE, WEIGHT], ["", "", "", "[2, 2]", "[3, 3]", "[1, 1]", "maybe"]),
    ("aten::convolution_backward", [[32, 64], IMAGE, WEIGHT], None),
    ("aten::cudnn_convolution_backward_input", [[], [32, 64, 112, 112], WEIGHT], None),  # without the call around it
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


KERNELS = (
    "", "multi_tensor_apply<float>", "winograd4x4", "fft2d", "Sp3AsmConv_f0x0",
    "apply<TensorListMetadata<2>, Add<float>>", "index_elementwise_kernel<128, 4, float>", "Cat<OpaqueType<16u>>",
)  # fmt: skip

FORMULAS = {
    (entry.formula.function, repr(entry.formula.constants)): name
    for name, entry in ENTRIES.items()
    if isinstance(entry.formula, NamedFormula)
}
"""An operator for each formula."""

GENERATED = ("triton_poi_fused_0", "triton_tem_1")


@st.composite
def calls(draw: st.DrawFn) -> Arguments:
    """Arguments as no operator has them."""
    one = arguments_of(*(draw(st.lists(each, max_size=12)) for each in (dims, types, dims, texts)))
    other = arguments_of(draw(st.lists(dims, max_size=8)), draw(st.lists(types, max_size=8)))
    kernel = draw(st.sampled_from(KERNELS))
    blocks, launches = draw(st.integers(0, 9)), draw(st.integers(0, 3))
    gradients = draw(st.none() | st.builds(Gradients, *[st.integers(0, 9)] * 3))
    estimate = draw(st.none() | st.builds(Estimate, st.integers(0, 9), st.integers(0, 9)))
    context = replace(one, parent_op=other, backward_args=other, backward_node=other, kernel=kernel, algorithm=kernel)
    return replace(context, blocks=blocks, launches=launches, gradients=gradients, estimate=estimate)


@given(arguments=calls())
def test_no_arguments_break_a_formula(arguments: Arguments) -> None:
    for name in (*FORMULAS.values(), *GENERATED):
        found = cost(name, arguments)
        if found is not None:
            assert min(found.flop, found.vector_flop, found.bytes or 0) >= 0, name
            assert found.flop_most is None or found.flop_most >= found.flop, name
            assert found.bytes_most is None or found.bytes is None or found.bytes_most >= found.bytes, name


def test_expanded_elements_count_once() -> None:
    assert arguments_of([[4, 5, 6]], ["float"], [[0, 6, 1]]).values[0] == Tensor((4, 5, 6), (0, 6, 1), FLOAT)
    assert Tensor((4, 5, 6), (0, 6, 1), FLOAT).bytes == 4 * 30


def test_only_its_type_tells_a_number_from_a_tensor_without_dimensions() -> None:
    given = arguments_of([[], [], [[2], [3, 4]]], ["Scalar", "float", "TensorList"])
    assert given.tensor(0) is None
    assert given.tensor(1) == Tensor((), None, FLOAT)
    assert [each.shape for each in given.tensors(2)] == [(2,), (3, 4)]
