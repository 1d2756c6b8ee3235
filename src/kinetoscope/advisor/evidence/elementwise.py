"""Operators and kernels that compute each element by itself: what a compiler can put into one loop."""

from __future__ import annotations

import re
from typing import Final

from kinetoscope.algorithms.arrays import Bools
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.model.trace.trace import Trace

_NAMES: Final = (
    "abs add addcdiv addcmul bitwise_and bitwise_not bitwise_or celu clamp clamp_max clamp_min clone copysign cos div"
    " dropout elu eq erf exp expm1 floor fmod ge gelu gt hardsigmoid hardswish hardtanh isnan le leaky_relu lerp log"
    " log1p log_sigmoid_forward logical_and logical_not logical_or lt masked_fill maximum minimum mish mul"
    " native_dropout ne neg pow reciprocal relu remainder round rsqrt rsub selu sigmoid sign silu sin softplus sqrt"
    " square sub tan tanh threshold tril triu true_divide where"
)
_FORWARD: Final = frozenset(f"aten::{name}{tail}" for name in _NAMES.split() for tail in ("", "_"))

_NODES: Final = (
    "Abs Add Addcdiv Addcmul Clamp ClampMax ClampMin Clone Cos Div Elu Erf Exp Expm1 Gelu Hardsigmoid Hardswish"
    " Hardtanh LeakyRelu Lerp Log Log1P MaskedFill Maximum Minimum Mish Mul NativeDropout Neg Pow Reciprocal Relu Rsqrt"
    " Rsub Sigmoid Sign Silu Sin Softplus Sqrt Sub Tan Tanh Threshold Where"
)
_NODE: Final = re.compile(rf"(?:autograd::engine::evaluate_function: )?(?:{'|'.join(_NODES.split())})Backward\d*")


def is_elementwise(name: str) -> bool:
    """Is this an operator that computes each element by itself, forward or backward?"""
    return name in _FORWARD or _NODE.fullmatch(name) is not None


@derived
def elementwise_ops(trace: Trace) -> Bools:
    """Which operators compute each element by itself: bool [events]."""
    return rows_named(trace, is_elementwise, EventKind.HOST_OP)


_VIEWS: Final = frozenset(
    f"aten::{name}"
    for name in [
        "alias",
        "as_strided",
        "chunk",
        "detach",
        "detach_",
        "expand",
        "expand_as",
        "flatten",
        "narrow",
        "permute",
        "reshape",
        "select",
        "slice",
        "split",
        "squeeze",
        "squeeze_",
        "t",
        "transpose",
        "unbind",
        "unflatten",
        "unsqueeze",
        "unsqueeze_",
        "view",
        "view_as",
        "_unsafe_view",
    ]
)


@derived
def changes_nothing(trace: Trace) -> Bools:
    """Which operators only look at the same elements in another way: bool [events]."""
    return rows_named(trace, _VIEWS.__contains__, EventKind.HOST_OP)
