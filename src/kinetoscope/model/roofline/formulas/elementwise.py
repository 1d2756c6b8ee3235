"""Formulas of operators that compute each element by itself.

Compulsory are all inputs, each distinct element once (an expanded one is read once), and the result, of the shape that
the inputs broadcast to. An operator in place reads and writes the same tensor. One operation an element is counted, as
many as the mathematical formula has where it has more; a transcendental function is one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from kinetoscope.model.roofline.formulas.arguments import Arguments, Cost, Tensor, traffic
from kinetoscope.model.roofline.formulas.family import Family
from kinetoscope.model.roofline.formulas.result_types import BOOL, UINT8, as_float, broadcast, promoted
from kinetoscope.model.roofline.formulas.streams import streamed, streaming
from kinetoscope.model.trace.element_types import ElementType

formula = Family("Elementwise")

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
        """The cost of a call, None where its arguments do not tell."""
        inputs = [each for place in range(self.inputs) if (each := given.tensor(place)) is not None]
        shape = broadcast(*(each.shape for each in inputs)) if inputs else None
        if shape is None:
            return None
        places = [each for place in range(self.inputs, len(given.values)) if (each := given.tensor(place)) is not None]
        if self.in_place:
            out, inputs = inputs[0], inputs if self.reads_result else inputs[1:]
        else:
            out = places[-1] if places and places[-1].shape == shape else Tensor(shape, None, self._type(given, inputs))
        return streamed(*inputs, out=out, flop=self.operations * out.elements)

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

_NEVER_IN_PLACE: Final = (
    "__and__ __lshift__ __or__ __rshift__ __xor__ _masked_scale _prelu_kernel angle binary_cross_entropy clone flip"
    " fmax fmin hardshrink huber_loss isfinite isinf isnan isneginf isposinf logaddexp logaddexp2 maximum minimum"
    " mse_loss positive prelu roll rsub signbit smooth_l1_loss softplus softshrink special_entr special_erfcx"
    " special_i0e special_i1 special_log_ndtr special_ndtri where"
)
"""Operators that torch does not have in place; nor has it any backward pass so."""

_WRITTEN: Final = (
    "fill_ zero_ uniform_ normal_ random_ bernoulli_ exponential_ cauchy_ geometric_ log_normal_"
    " _fill_mem_eff_dropout_mask_"
)


def _operators() -> Iterator[tuple[str, Elementwise]]:
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
    for names, result in groups:
        for name, inputs in names.items():
            operations = _OPERATIONS.get(name, 1)
            yield name, Elementwise(inputs, result, operations)
            if not name.endswith("ward") and name not in _NEVER_IN_PLACE.split():
                yield f"{name}_", Elementwise(inputs, result, operations, in_place=True)
    for name in _WRITTEN.split():
        yield name, Elementwise(1, operations=0, in_place=True, reads_result=False)


for _name, _elementwise in _operators():
    formula(_name)(_elementwise)


@formula("copy_", names={"src": "other"})
def copy_(input: Tensor, src: Tensor) -> Cost:
    """The source read, the destination written. Copies between memories are transfers instead."""
    return Cost(bytes=traffic(input, src), outputs=(input,))


@formula("tril triu")
def tril(input: Tensor) -> Cost:
    """The result is written; of the input about a half is read, depending on the diagonal."""
    out = input.new()
    return Cost(bytes=out.bytes, bytes_most=traffic(input, out), outputs=(out,))


@formula("native_dropout fake_quantize_per_tensor_affine_cachemask", mask=BOOL)
@formula("_fused_dropout", mask=UINT8)
def dropout(input: Tensor, mask: ElementType) -> Cost:
    """Dropout, or rounding as quantization does, with its result and a mask of a byte an element."""
    return streamed(input, out=(input.new(), Tensor(input.shape, None, mask)), flop=2 * input.elements)


@formula("glu")
def glu(input: Tensor, dim: int | None) -> Cost | None:
    """One half of a dimension times a function of the other."""
    if not input.shape:
        return None
    along = (-1 if dim is None else dim) % len(input.shape)
    out = input.new(tuple(size // 2 if k == along else size for k, size in enumerate(input.shape)))
    return streamed(input, out=out, flop=5 * out.elements)


@formula("arange")
def arange(given: Arguments) -> Cost | None:
    """Only the result is written; where its place is still empty, the bounds tell its size."""
    out = next((each for each in reversed(given.values) if isinstance(each, Tensor)), None)
    if out is None:
        return None
    bounds = [each for place in range(3) if (each := given.integer(place)) is not None]
    start, end, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3] if len(bounds) > 1 else (0, 0, 1)
    sizes = out.shape if out.elements or not step else (max(0, -((start - end) // step)),)
    return streamed(out=out.new(sizes))


# Gates of a cell: those of input and hidden state read, new states and what the backward pass needs written.
_GATES: Final = "input_gates hidden_gates"
formula("_thnn_fused_lstm_cell", written="cx cx input_gates", read=f"{_GATES} cx input_bias hidden_bias",
        operations=30)(streaming)  # fmt: skip
formula("_thnn_fused_lstm_cell_backward_impl", written="workspace cx", read="grad_hy grad_cy cx cy workspace",
        operations=10)(streaming)  # fmt: skip
formula("_thnn_fused_gru_cell", written="hx hx hx hx hx hx", read=f"{_GATES} hx input_bias hidden_bias",
        operations=25)(streaming)  # fmt: skip
formula("glu_backward", written="input", read="grad_output input", operations=6)(streaming)
formula("_prelu_kernel_backward", written="input input", read="grad_output input weight", operations=3)(streaming)

_OF_LISTS: Final = (
    "abs acos add asin atan ceil clamp_max clamp_min clone cos cosh div erf erfc exp expm1 floor frac lgamma log log10"
    " log1p log2 maximum minimum mul neg pow reciprocal round rsqrt sigmoid sign sin sinh sqrt sub tan tanh trunc"
)
OPERATIONS_OF_LISTS: Final = {name: _OPERATIONS.get(name, 1) for name in _OF_LISTS.split()}
"""Operations an element of the operators that also take lists of tensors (`_foreach_…`)."""
