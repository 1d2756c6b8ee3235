"""Networks of simulated programs: layers that issue what torch issues for them, forward, backward and optimizer.

A layer on a device is a few operators around one launch; on the host alone its operator takes the time itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from tests.faults.kernels import (
    ATTENTION,
    BYTES,
    TYPES,
    convolution,
    elementwise,
    gemm,
    microseconds,
    multi_tensor,
    silicon,
)
from tests.faults.program import Program

Shapes = Sequence[Sequence[int]]


@dataclass
class Network:
    """A network on a program.

    Attributes:
        p: the program.
        precision: bf16, fp16, tf32, fp32.
        host: what each operator costs the host, times the usual.
        last: convolutions have their channels last.
        training: layers are remembered for the backward pass.
    """

    p: Program
    precision: str = "bf16"
    host: float = 1.0
    last: bool = True
    training: bool = True
    _tape: list[Callable[[], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.of = silicon(self.p.device)
        self.type = TYPES[self.precision]
        self.width = BYTES[self.precision]

    def us(self, flops: float, size: float) -> float:
        """What a kernel takes."""
        return microseconds(self.of, self.precision, flops, size)

    def work(self, op: str, kernel: str, us: float, *shapes: Sequence[int], cost: float = 6.0, **more: Any) -> None:
        """An operator with a kernel."""
        more.setdefault("types", [self.type] * len(shapes))
        if self.p.device is None:
            self.p.call(op, us, shapes=shapes, **more)
            return
        known = ("types", "concrete", "strides", "grad")
        told = {key: more.pop(key) for key in known if key in more}
        with self.p.op(op, cost * self.host, shapes=shapes, **told):
            self.p.kernel(kernel, us, **more)

    def _later(self, backward: Callable[[], None]) -> None:
        if self.training:
            self._tape.append(backward)

    def _node(self, name: str) -> str:
        return name if self.training else ""

    # --- layers

    def linear(self, rows: int, k: int, n: int) -> None:
        """`nn.Linear`."""
        flops, size = 2.0 * rows * k * n, self.width * (rows * k + k * n + rows * n)
        with self.p.op("aten::linear", 3 * self.host, shapes=[[rows, k], [n, k], [n]], types=[self.type] * 3):
            view = self._node("TBackward0") if self.p.anomaly else ""
            self.p.call("aten::t", 2 * self.host, shapes=[[n, k]], types=[self.type], grad=view)
            concrete = ["", "", "", "1", "1"]
            self.work(
                "aten::addmm", gemm(self.of, self.precision), self.us(flops, size), [n], [rows, k], [k, n], [], [],
                types=[self.type] * 3 + ["Scalar"] * 2, concrete=concrete, grad=self._node("AddmmBackward0"),
                strides=[[1], [k, 1], [1, k], [], []], grid=self._tiles(rows, n),
            )  # fmt: skip

        def backward() -> None:
            with self.p.grad("AddmmBackward0"):
                for m, inner, out in ((rows, n, k), (n, rows, k)):
                    name, grid = gemm(self.of, self.precision, "nn"), self._tiles(m, out)
                    self.work("aten::mm", name, self.us(flops, size), [m, inner], [inner, out], grid=grid)
            if self.p.anomaly:
                with self.p.grad("TBackward0", 1.5):
                    pass

        self._later(backward)

    def _tiles(self, rows: int, columns: int) -> tuple[int, int, int]:
        return -(-rows // 128), -(-columns // 128), 1

    def conv(self, n: int, c: int, side: int, k: int, window: int = 3, stride: int = 1) -> None:
        """`nn.Conv2d` on square images, without bias."""
        out = side // stride
        flops = 2.0 * n * k * out * out * c * window * window
        size = self.width * (n * c * side * side + n * k * out * out + k * c * window * window)
        images, filters, made = [n, c, side, side], [k, c, window, window], [n, k, out, out]
        steps, pads = f"[{stride}, {stride}]", f"[{window // 2}, {window // 2}]"
        grid = (-(-n * out * out // 128), -(-k // 128), 1)

        def way(op: str, which: str, tensors: Shapes, *others: str, **more: Any) -> None:
            name = convolution(self.of, self.precision, which, last=self.last)
            lists = ["ScalarList" if each.startswith("[") else "Scalar" for each in others]
            strides = [*map(self._strides, tensors), *[[]] * len(others)]
            told = {"concrete": [*[""] * len(tensors), *others], "types": [*[self.type] * len(tensors), *lists]}
            shapes = [*tensors, *[[]] * len(others)]
            self.work(op, name, self.us(flops, size), *shapes, cost=9, grid=grid, strides=strides, **told, **more)

        with self.p.op("aten::conv2d", 3 * self.host, shapes=[images, filters], types=[self.type] * 2):
            self.p.call("aten::convolution", 3 * self.host)
            more = (pads, steps, "[1, 1]", "1", "False", "False", "True")
            way("aten::cudnn_convolution", "fprop", [images, filters], *more, grad=self._node("ConvolutionBackward0"))

        def backward() -> None:
            with self.p.grad("ConvolutionBackward0"):
                for which, mask in (("dgrad", "[True, False, False]"), ("wgrad", "[False, True, False]")):
                    more = ("[0]", steps, pads, "[1, 1]", "False", "[0, 0]", "1", mask)
                    way("aten::convolution_backward", which, [made, images, filters], *more)

        self._later(backward)

    def _strides(self, shape: Sequence[int]) -> list[int]:
        n, c, h, w = shape
        del n
        return [c * h * w, 1, w * c, c] if self.last else [c * h * w, h * w, w, 1]

    def pointwise(
        self, op: str, *shape: int, reads: int = 1, node: str = "", what: str = "", name: str = "", passes: float = 1.0
    ) -> None:
        """An element-wise operator, such as "aten::relu"."""
        size = prod(shape) * self.width * (reads + 1) * passes
        kernel = name or elementwise(what or f"CUDAFunctor_{op.removeprefix('aten::').rstrip('_')}", self.type)
        grid = (-(-prod(shape) // 1024), 1, 1)
        node = node or f"{op.removeprefix('aten::').rstrip('_').title()}Backward0"
        self.work(op, kernel, self.us(0, size), *[shape] * reads, grad=self._node(node), grid=grid, block=(128, 1, 1))

        def backward() -> None:
            with self.p.grad(node):
                self.work("aten::mul", kernel, self.us(0, size), shape, shape, grid=grid, block=(128, 1, 1))

        self._later(backward)

    def norm(self, *shape: int, kind: str = "layer_norm") -> None:
        """`nn.LayerNorm`, or `nn.BatchNorm2d` (kind="batch_norm")."""
        if kind == "batch_norm":
            layout = "nhwc_semiPersist" if self.last else "bn_fw_tr_1C11_singleread"
            name = f"void cudnn::batchnorm_fwtr_{layout}<__half, __half, float>(cudnnBatchNormParams)"
            self.pointwise("aten::cudnn_batch_norm", *shape, node="CudnnBatchNormBackward0", name=name)
            return
        name = f"void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<{self.type}, float>(int, float)"
        self.pointwise("aten::native_layer_norm", *shape, node="NativeLayerNormBackward0", name=name)

    def attention(self, batch: int, heads: int, length: int, width: int) -> None:
        """Attention by one fused kernel."""
        flops = 4.0 * batch * heads * length * length * width
        shape, turned = [batch, heads, length, width], [batch, length, heads, width]
        size = self.width * prod(shape) * 4
        node = "ScaledDotProductFlashAttentionBackward0"
        with self.p.op("aten::scaled_dot_product_attention", 4 * self.host, shapes=[shape] * 3):
            numbers = [str(length), str(length), "0.", "False", "False"]
            self.work(
                "aten::_flash_attention_forward", ATTENTION["forward"], self.us(flops, size) * 1.3, *[turned] * 3,
                *[[]] * 7, types=[self.type] * 3 + [""] * 2 + ["Scalar"] * 5, concrete=[""] * 5 + numbers,
                cost=12, grad=self._node(node), grid=(-(-length // 128), batch, heads), occupancy=25,
            )  # fmt: skip

        def backward() -> None:
            with self.p.grad(node):
                name, us = ATTENTION["backward"], self.us(2.5 * flops, 2 * size) * 1.3
                grid = (-(-length // 128), batch, heads)
                numbers = [str(length), str(length), "0.", "False"]
                types = [self.type] * 5 + ["float", "", ""] + ["Scalar"] * 4
                self.work(
                    "aten::_flash_attention_backward", name, us, *[turned] * 5, [batch, heads, length], *[[]] * 6,
                    types=types, concrete=[""] * 8 + numbers, grid=grid, occupancy=25,
                )  # fmt: skip

        self._later(backward)

    def block(self, batch: int, length: int, width: int, heads: int) -> None:
        """A layer of a transformer."""
        rows = batch * length
        self.norm(rows, width)
        self.linear(rows, width, 3 * width)
        self.attention(batch, heads, length, width // heads)
        self.linear(rows, width, width)
        self.pointwise("aten::add", rows, width, reads=2)
        self.norm(rows, width)
        self.linear(rows, width, 4 * width)
        self.pointwise("aten::gelu", rows, 4 * width)
        self.linear(rows, 4 * width, width)
        self.pointwise("aten::add", rows, width, reads=2)

    def residual(self, n: int, c: int, side: int, inner: int) -> None:
        """A bottleneck of a ResNet."""
        for i, o, window in ((c, inner, 1), (inner, inner, 3), (inner, c, 1)):
            self.conv(n, i, side, o, window)
            self.norm(n, o, side, side, kind="batch_norm")
            self.pointwise("aten::relu_", n, o, side, side, what="clamp_min_scalar")

    # --- the end of a step

    def backward(self) -> None:
        """The backward pass of all layers since the last one."""
        with self.p.backward():
            for layer in reversed(self._tape):
                layer()
        self._tape.clear()

    def optimizer(self, parameters: float, tensors: int = 100, *, name: str = "AdamW", fused: bool = True) -> None:
        """`optimizer.step()`, fused, and `zero_grad` that gives the gradients back."""
        with self.p.annotation(f"Optimizer.step#{name}.step"):
            self.p.host(40 * self.host)
            launches = max(1, tensors // 60)
            passes = 1 if fused else 4
            for kind in ("FusedAdamMathFunctor",) if fused else ("BinaryOpListAlphaFunctor",) * passes:
                op = "aten::_fused_adamw_" if fused else "aten::_foreach_addcdiv_"
                for _ in range(launches):
                    us = self.us(0, 28.0 * parameters / launches / passes * (1 if fused else 1.6))
                    self.work(op, multi_tensor(kind), us, [int(parameters)], types=["TensorList"], grid=(2000, 1, 1))
        with self.p.annotation(f"Optimizer.zero_grad#{name}.zero_grad"):
            self.p.host(15 * self.host)
