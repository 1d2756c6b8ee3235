"""What operators write by our formulas against what torch writes: shape and type of each result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from kinetoscope.model.roofline.formulas.arguments import Cost, Tensor, arguments_of
from kinetoscope.model.roofline.formulas.registry import ENTRIES
from kinetoscope.model.roofline.formulas.result_types import promoted
from kinetoscope.model.trace.element_types import element_type

torch = pytest.importorskip("torch", reason="torch is not installed: `make test-recorder` installs it")
pytestmark = pytest.mark.torch

from torch.nn import functional as F  # noqa: E402, N812
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

TYPES = {
    "float32": "float", "float64": "double", "bfloat16": "c10::BFloat16", "float16": "c10::Half", "int64": "long int",
    "int32": "int", "int16": "short int", "uint8": "unsigned char", "int8": "signed char", "bool": "bool",
    "complex64": "c10::complex<float>",
}  # fmt: skip
"""Types of elements as the profiler writes them."""


OTHERWISE = {
    "aten::mse_loss": "its kernel writes all differences; their mean is an operator of its own",
    "aten::smooth_l1_loss": "likewise",
}


def name_of(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def recorded(argument: Any, value: Any) -> tuple[Any, str, Any, str]:
    """Dimensions, type, strides and text of an argument as the profiler records them."""
    if isinstance(value, torch.Tensor):
        return list(value.shape), TYPES[name_of(value.dtype)], list(value.stride()), ""
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], torch.Tensor):
        return [list(each.shape) for each in value], "TensorList", [list(each.stride()) for each in value], ""
    if isinstance(value, (bool, int, float)) and "Tensor" in str(argument.type):
        return [], {"bool": "bool", "int": "long int", "float": "double"}[type(value).__name__], [], ""
    if value is None:
        return [], "", [], ""
    if isinstance(value, torch.dtype):
        numbers = {torch.float32: "6", torch.float64: "7", torch.int64: "4", torch.bfloat16: "15", torch.float16: "5"}
        return [], "Scalar", [], numbers[value]
    return [], "ScalarList" if isinstance(value, (list, tuple)) else "Scalar", [], str(value)


class Comparison(TorchDispatchMode):  # type: ignore[misc]
    """All operators that run inside it, with what they wrote and what the formula says."""

    def __init__(self) -> None:
        super().__init__()
        self.compared: set[str] = set()
        self.differences: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        schema = func._schema
        values = [
            args[k] if k < len(args) else (kwargs or {}).get(each.name, each.default_value)
            for k, each in enumerate(schema.arguments)
        ]
        # On devices `arange` writes to a place that was made before; here it makes its own.
        if schema.name in ENTRIES and not ENTRIES[schema.name].is_product and schema.name != "aten::arange":
            columns = [recorded(argument, value) for argument, value in zip(schema.arguments, values, strict=True)]
            given = arguments_of(*([each[k] for each in columns] for k in range(4)))
            cost = ENTRIES[schema.name].formula(replace(given, kernel="void CatArrayBatchedCopy<float, unsigned int>"))
            self.compared.add(schema.name)
            self.compare(schema.name, cost, result, columns)
        return result

    def compare(self, name: str, cost: Cost | None, result: Any, columns: Any) -> None:
        written = [each for each in (result if isinstance(result, (tuple, list)) else [result]) if each is not None]
        wanted = [(tuple(each.shape), name_of(each.dtype)) for each in written]
        found = [(each.shape, each.type.name if each.type else "?") for each in cost.outputs] if cost else None
        if found is None or (found != wanted[: len(found)] and name not in OTHERWISE):
            self.differences.append(f"{name}: torch {wanted}, formula {found}, of {columns}")


def leaf(*shape: int, dtype: Any = torch.float32) -> Any:
    return torch.randn(*shape).to(dtype).requires_grad_()


X, Y, HALF, IMAGE = leaf(4, 6, 8), leaf(6, 1), leaf(4, 6, 8, dtype=torch.bfloat16), leaf(2, 4, 9, 10)
INTEGERS, FLAGS = torch.arange(48).reshape(6, 8) % 5, torch.arange(8) % 2 == 0

PROGRAMS: list[Callable[[], Any]] = [
    lambda: X + Y,
    lambda: X * 2 + INTEGERS * 0.5 + FLAGS,
    lambda: (
        HALF * X,
        HALF * 3.0,
        HALF + torch.tensor(2.0, dtype=torch.float64),
        INTEGERS + 1,
        INTEGERS / 2,
        FLAGS + 1,
    ),
    lambda: (INTEGERS.sqrt(), INTEGERS.exp(), X.sigmoid(), HALF.tanh(), X.abs(), X.rsqrt(), FLAGS.logical_not()),
    lambda: (X > Y, INTEGERS == 3, X.isnan(), FLAGS & FLAGS, INTEGERS // 2, INTEGERS % 3, X.pow(2), X**Y),
    lambda: (
        torch.where(X > 0, X, Y),
        torch.lerp(X, Y, 0.5),
        torch.addcmul(X, X, Y),
        X.clamp(0, 1),
        X.masked_fill(X > 0, 1),
    ),
    lambda: (F.relu(X), F.gelu(X), F.silu(X), F.elu(X), F.leaky_relu(X), F.hardtanh(X), F.softplus(X), F.mish(X)),
    lambda: sum(each.sum() for each in (F.relu(X), F.gelu(X), F.silu(X), X.sigmoid(), X.tanh(), F.elu(X))).backward(),
    lambda: sum(each.sum() for each in (F.leaky_relu(X), F.hardtanh(X), F.softplus(X), F.mish(X), F.glu(X))).backward(),
    lambda: X.detach().clone().mul_(2).add_(X.detach()).relu_().zero_().fill_(1).normal_().sqrt_(),
    lambda: (X.sum(), X.sum(1), X.sum((0, 2), keepdim=True), INTEGERS.sum(0), FLAGS.sum(), X.sum(dtype=torch.float64)),
    lambda: (
        X.mean(-1),
        X.amax(1),
        X.max(),
        X.max(2),
        X.min(0, keepdim=True),
        X.argmax(1),
        X.argmin(),
        X.any(),
        X.all(1),
    ),
    lambda: (X.norm(), torch.linalg.vector_norm(X, dim=1), X.var(), X.std(0), torch.var_mean(X, 1), X.logsumexp(1)),
    lambda: (X.cumsum(1), INTEGERS.cumsum(0), X.cummax(1), X.cumprod(0), X.logcumsumexp(0), X.median(1), X.prod(0)),
    lambda: (X.to(torch.bfloat16), X.clone(), X.transpose(0, 1).contiguous(), X.flip(0), X.roll(1, 0), X.tril()),
    lambda: F.softmax(X, -1).sum().backward(),
    lambda: F.log_softmax(HALF, 1, dtype=torch.float32).sum().backward(),
    lambda: F.cross_entropy(leaf(6, 10), torch.arange(6)).backward(),
    lambda: (F.mse_loss(X, X.detach()), F.smooth_l1_loss(X, X.detach(), reduction="none")),
    lambda: F.layer_norm(X, (8,), leaf(8), leaf(8)).sum().backward(),
    lambda: F.layer_norm(X, (6, 8)).sum().backward(),
    lambda: F.group_norm(IMAGE, 2, leaf(4), leaf(4)).sum().backward(),
    lambda: F.batch_norm(IMAGE, torch.zeros(4), torch.ones(4), leaf(4), leaf(4), training=True).sum().backward(),
    lambda: F.dropout(X, 0.5).sum().backward(),
    lambda: F.embedding(torch.arange(6).reshape(2, 3), leaf(10, 5)).sum().backward(),
    lambda: (X.index_select(1, torch.tensor([0, 2])), X.gather(2, torch.zeros(4, 6, 3, dtype=torch.int64))),
    lambda: torch.zeros(5, 3).scatter_(0, torch.tensor([[0, 1, 2]]), torch.ones(1, 3)),
    lambda: torch.zeros(5, 3).scatter_add_(0, torch.tensor([[0, 1, 2]]), torch.ones(1, 3)),
    lambda: torch.zeros(5, 3).index_add_(0, torch.tensor([1, 1]), torch.ones(2, 3)),
    lambda: (X.topk(3, -1), X.sort(1), F.pad(X, (1, 2, 0, 1)), F.pad(IMAGE, (1, 1, 2, 2), mode="reflect")),
    lambda: F.pad(IMAGE, (1, 1, 2, 2), mode="replicate").sum().backward(),
    lambda: F.max_pool2d(IMAGE, 3, 2, 1).sum().backward(),
    lambda: F.max_pool2d(IMAGE, (2, 3), (2, 1), ceil_mode=True),
    lambda: F.avg_pool2d(IMAGE, 3, 2, 1, ceil_mode=True).sum().backward(),
    lambda: F.adaptive_avg_pool2d(IMAGE, (3, 5)).sum().backward(),
    lambda: F.adaptive_max_pool2d(IMAGE, 3).sum().backward(),
    lambda: F.interpolate(IMAGE, size=(18, 5), mode="bilinear").sum().backward(),
    lambda: F.interpolate(IMAGE, size=(18, 5), mode="nearest").sum().backward(),
    lambda: (F.unfold(IMAGE, (3, 2), padding=1, stride=2), F.fold(torch.randn(2, 24, 15), (5, 6), (3, 2))),
    lambda: (F.grid_sample(IMAGE, torch.zeros(2, 3, 5, 2), align_corners=False), X.repeat(2, 1, 1), torch.arange(7)),
    lambda: (torch.cat([X, X], 1), torch.stack([X, X]), X.split_with_sizes([2, 4], 1)),
    lambda: (F.embedding_bag(torch.tensor([1, 2, 4]), leaf(10, 3), torch.tensor([0, 2])), X.nonzero(), X.unique()),
    lambda: (
        torch.fft.rfft2(X),
        torch.fft.ifft(torch.fft.fft(X)),
        torch.fft.irfft(torch.fft.rfft(X, dim=1), n=6, dim=1),
    ),
    lambda: (torch.cdist(X, X.detach() + 1), F.prelu(X, leaf(1)).sum().backward(), X.sigmoid().bernoulli()),
    lambda: F.grid_sample(leaf(2, 3, 4, 5, 6), torch.zeros(2, 3, 2, 2, 3), align_corners=False),
    lambda: torch.fake_quantize_per_tensor_affine(X, 0.1, 0, 0, 255).sum().backward(),
    lambda: (torch.bucketize(X, torch.arange(3.0)), torch.searchsorted(torch.arange(3.0), X), X.nan_to_num()),
]


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    mode = Comparison()
    with mode:
        for program in PROGRAMS:
            program()
    return mode


def test_results_are_torchs(comparison: Comparison) -> None:
    assert not comparison.differences, "\n".join(comparison.differences)
    assert len(comparison.compared) > 100


NUMBERS = (None, True, 2, 0.5)
KINDS = ("bool", "uint8", "int8", "int16", "int32", "int64", "bfloat16", "float16", "float32", "complex64")


def test_types_are_promoted_as_torch_does() -> None:
    """All pairs of types, with dimensions and without, and with a number; of half and complex torch makes complex32."""
    for (kind, other), shapes, number in product(product(KINDS, KINDS), product([(2,), ()], [(2,), ()]), NUMBERS):
        if {kind, other} == {"float16", "complex64"}:
            continue
        pair = [
            torch.ones(shape, dtype=getattr(torch, each)) for each, shape in zip((kind, other), shapes, strict=True)
        ]
        sum_of_both = pair[0] + pair[1]
        expected = sum_of_both.dtype if number is None else torch.result_type(sum_of_both, number)
        described = [Tensor(tuple(each.shape), None, element_type(TYPES[name_of(each.dtype)])) for each in pair]
        found = promoted(described, [] if number is None else [str(number)])
        assert found is not None
        assert found.name == name_of(expected), (kind, other, shapes, number)
