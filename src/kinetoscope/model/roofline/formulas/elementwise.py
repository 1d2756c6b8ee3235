"""What operators compute and move that compute each element by itself.

Compulsory are all inputs, each distinct element once (an expanded one is read once), and the result, of the shape that
the inputs broadcast to. An operator in place reads and writes the same tensor. One operation an element is counted, as
many as the mathematical formula has where it has more; a transcendental function is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from kinetoscope.model.roofline.formulas.arguments import Arguments, Cost, Entry, Formula, Tensor, traffic
from kinetoscope.model.roofline.formulas.result_types import BOOL, UINT8, as_float, broadcast, promoted
from kinetoscope.model.roofline.formulas.streams import StreamedArguments
from kinetoscope.model.trace.element_types import ElementType

Result = Literal["promoted", "float", "bool", "first"]
"""The type of a result: promoted, the same but never an integer, a truth value, that of the first tensor."""


@dataclass(frozen=True, slots=True)
class Elementwise:
    """A formula: tensors read, one of their common shape written.

    Attributes:
        inputs: how many arguments may be inputs; a tensor after them is the place for the result.
        result: the type of the result.
        operations: an element.
        in_place: is the result the first input?
        reads_result: does an operator in place read it, too?
    """

    inputs: int
    result: Result = "promoted"
    operations: int = 1
    in_place: bool = False
    reads_result: bool = True

    def __call__(self, given: Arguments) -> Cost | None:
        """What a call takes, None where its arguments do not tell."""
        inputs = [each for place in range(self.inputs) if (each := given.tensor(place)) is not None]
        shape = broadcast(*(each.shape for each in inputs)) if inputs else None
        if shape is None:
            return None
        places = [each for place in range(self.inputs, len(given.values)) if (each := given.tensor(place)) is not None]
        if self.in_place:
            out, inputs = inputs[0], inputs if self.reads_result else inputs[1:]
        else:
            out = places[-1] if places and places[-1].shape == shape else Tensor(shape, None, self._type(given, inputs))
        return Cost(vector_flop=self.operations * out.elements, bytes=traffic(*inputs, out), outputs=(out,))

    def _type(self, given: Arguments, inputs: list[Tensor]) -> ElementType | None:
        if self.result == "bool":
            return BOOL
        if self.result == "first":
            return inputs[0].type
        if self.inputs == 3 and inputs[0].type == BOOL and len(inputs) > 1:
            inputs = inputs[1:]  # the condition of `where`
        numbers = [given.text(place) for place in range(self.inputs) if given.tensor(place) is None]
        kind = promoted(inputs, numbers)
        return as_float(kind) if self.result == "float" else kind


_UNARY: Final = (
    "abs angle bitwise_not ceil celu clone conj_physical elu floor frac hardshrink hardsigmoid hardswish hardtanh"
    " leaky_relu lgamma mish nan_to_num neg positive relu relu6 round selu sgn sign silu softshrink"
    " square threshold trunc bernoulli prelu roll flip log_sigmoid_forward _prelu_kernel rrelu_with_noise"
)
_FLOATING: Final = (
    "acos acosh asin asinh atan atanh cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 gelu i0 log log10 log1p"
    " log2 logit rad2deg reciprocal rsqrt sigmoid sin sinc sinh softplus special_entr special_erfcx special_i0e"
    " special_i1 special_log_ndtr special_ndtri sqrt tan tanh"
)
_BINARY: Final = (
    "add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor clamp_max clamp_min copysign"
    " floor_divide fmax fmin fmod gcd heaviside hypot lcm ldexp logaddexp logaddexp2 maximum minimum mul nextafter pow"
    " remainder rsub sub xlogy __and__ __or__ __xor__ __lshift__ __rshift__ mse_loss smooth_l1_loss huber_loss"
    " masked_fill _masked_scale igamma igammac float_power fake_quantize_per_tensor_affine_cachemask_backward"
)
_COMPARISONS: Final = "eq ne lt le gt ge logical_and logical_or logical_xor"
_TESTS: Final = "isfinite isinf isnan isneginf isposinf signbit logical_not"
_TERNARY: Final = "addcdiv addcmul clamp lerp where"
_BACKWARD: Final = {
    "elu_backward": 6, "gelu_backward": 2, "hardsigmoid_backward": 2, "hardshrink_backward": 2,
    "hardswish_backward": 2, "hardtanh_backward": 2, "huber_loss_backward": 3, "leaky_relu_backward": 2,
    "log_sigmoid_backward": 2, "logit_backward": 2, "mish_backward": 2, "mse_loss_backward": 3,
    "native_dropout_backward": 2, "sigmoid_backward": 2, "silu_backward": 2, "smooth_l1_loss_backward": 3,
    "softplus_backward": 2, "softshrink_backward": 2, "tanh_backward": 2, "threshold_backward": 2,
    "binary_cross_entropy_backward": 4, "binary_cross_entropy": 3,
}  # fmt: skip
"""Backward passes and losses with the number of arguments that may be inputs."""

_OPERATIONS: Final = {
    "addcdiv": 3, "addcmul": 3, "lerp": 3, "mse_loss": 2, "mse_loss_backward": 3, "sigmoid_backward": 3, "silu": 4,
    "silu_backward": 6, "gelu": 8, "gelu_backward": 12, "tanh_backward": 3, "clone": 0, "roll": 0, "flip": 0,
    "where": 0, "masked_fill": 0, "native_dropout_backward": 2,
}  # fmt: skip
"""Operations an element, where they are not one."""

_WRITTEN: Final = (
    "fill_ zero_ uniform_ normal_ random_ bernoulli_ exponential_ cauchy_ geometric_ log_normal_"
    " _fill_mem_eff_dropout_mask_"
)


def _families() -> dict[str, Entry]:
    """All operators of the tables above, and their forms in place."""
    groups: tuple[tuple[dict[str, int], Result], ...] = (
        (dict.fromkeys(_UNARY.split(), 1), "first"),
        (dict.fromkeys(_FLOATING.split(), 1), "float"),
        (dict.fromkeys(_BINARY.split(), 2), "promoted"),
        (dict.fromkeys(_COMPARISONS.split(), 2), "bool"),
        (dict.fromkeys(_TESTS.split(), 1), "bool"),
        (dict.fromkeys(_TERNARY.split(), 3), "promoted"),
        (dict.fromkeys(("div", "true_divide"), 2), "float"),
        (_BACKWARD, "promoted"),
    )
    entries = {}
    for names, result in groups:
        for name, inputs in names.items():
            operations = _OPERATIONS.get(name, 1)
            entries[f"aten::{name}"] = Entry(Elementwise(inputs, result, operations))
            if not name.endswith("ward"):
                entries[f"aten::{name}_"] = Entry(Elementwise(inputs, result, operations, in_place=True))
    for name in _WRITTEN.split():
        entries[f"aten::{name}"] = Entry(Elementwise(1, operations=0, in_place=True, reads_result=False))
    return entries


def _copied(given: Arguments) -> Cost | None:
    """`copy_`: the source read, the destination written. Copies between memories are transfers instead."""
    to, source = given.tensor(0), given.tensor(1)
    return None if to is None or source is None else Cost(bytes=traffic(to, source), outputs=(to,))


def _triangle(given: Arguments) -> Cost | None:
    """`tril`, `triu`: the result is written; of the input about a half is read, depending on the diagonal."""
    source = given.tensor(0)
    if source is None:
        return None
    out = Tensor(source.shape, None, source.type)
    return Cost(bytes=out.bytes, bytes_most=traffic(source, out), outputs=(out,))


def _dropout(mask: ElementType) -> Formula:
    """Dropout, or rounding as quantization does, with its result and a mask of a byte an element."""

    def formula(given: Arguments) -> Cost | None:
        source = given.tensor(0)
        if source is None:
            return None
        out, kept = Tensor(source.shape, None, source.type), Tensor(source.shape, None, mask)
        return Cost(vector_flop=2 * out.elements, bytes=traffic(source, out, kept), outputs=(out, kept))

    return formula


def _gated(given: Arguments) -> Cost | None:
    """`glu`: one half of a dimension times a function of the other."""
    source, dimension = given.tensor(0), given.integer(1)
    if source is None or not source.shape:
        return None
    place = (-1 if dimension is None else dimension) % len(source.shape)
    out = Tensor(tuple(size // 2 if k == place else size for k, size in enumerate(source.shape)), None, source.type)
    return Cost(vector_flop=5 * out.elements, bytes=traffic(source, out), outputs=(out,))


def _counted_up(given: Arguments) -> Cost | None:
    """`arange`: only the result is written; where its place is still empty, the bounds tell its size."""
    out = next((each for each in reversed(given.values) if isinstance(each, Tensor)), None)
    if out is None:
        return None
    bounds = [each for place in range(3) if (each := given.integer(place)) is not None]
    start, end, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3] if len(bounds) > 1 else (0, 0, 1)
    sizes = out.shape if out.elements or not step else (max(0, -((start - end) // step)),)
    out = Tensor(sizes, None, out.type)
    return Cost(bytes=traffic(out), outputs=(out,))


OPERATIONS_OF_LISTS: Final = {
    name: _OPERATIONS.get(name, 1) for name in [*_UNARY.split(), *_FLOATING.split(), *_BINARY.split(), "div"]
}
"""Operations an element of the operators that also take lists of tensors (`_foreach_…`), and of others."""

ELEMENTWISE: Final[dict[str, Entry]] = {
    **_families(),
    "aten::copy_": Entry(_copied),
    "aten::native_dropout": Entry(_dropout(BOOL)),
    "aten::_fused_dropout": Entry(_dropout(UINT8)),
    "aten::fake_quantize_per_tensor_affine_cachemask": Entry(_dropout(BOOL)),
    "aten::_prelu_kernel_backward": Entry(StreamedArguments((1, 1), (0, 1, 2), operations=3)),
    # Gates of a cell: those of input and hidden state read, new states and what the backward pass needs written.
    "aten::_thnn_fused_lstm_cell": Entry(StreamedArguments((2, 2, 0), (0, 1, 2, 3, 4), operations=30)),
    "aten::_thnn_fused_lstm_cell_backward_impl": Entry(StreamedArguments((4, 2), (0, 1, 2, 3, 4), operations=10)),
    "aten::_thnn_fused_gru_cell": Entry(StreamedArguments((2,) * 6, (0, 1, 2, 3, 4), operations=25)),
    "aten::glu": Entry(_gated),
    "aten::glu_backward": Entry(StreamedArguments((1,), (0, 1), operations=6)),
    "aten::arange": Entry(_counted_up),
    "aten::tril": Entry(_triangle),
    "aten::triu": Entry(_triangle),
}
"""Operators that compute each element by itself."""
