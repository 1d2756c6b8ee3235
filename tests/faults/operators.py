"""Operators of torch as its profiler records them, all arguments included, with kernels that `silicon` times.

Each layer issues what PyTorch 2.7 issues for it, forward, and puts its backward pass on a tape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any, Final, NamedTuple

from tests.faults.host import contiguous
from tests.faults.kernels import ATTENTION, TYPES, elementwise, gemm, multi_tensor, silicon
from tests.faults.program import Program
from tests.faults.silicon import BYTES, CHIPS, Silicon, Timed

_TYPES: Final = {**TYPES, "fp8": "c10::Float8_e4m3fn", "int64": "long int", "int8": "signed char"}
_BYTES: Final = {**BYTES, "int64": 8, "int8": 1}
_SCALAR_TYPES: Final = {"bf16": 15, "fp16": 5, "fp32": 6, "tf32": 6}


@dataclass(frozen=True)
class Tensor:
    """A tensor's sizes, its elements (bf16, fp32, …), and its strides; without them it lies row by row."""

    shape: tuple[int, ...]
    of: str
    strides: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """Bytes, what is expanded once."""
        lies = self.strides or (1,) * len(self.shape)
        return _BYTES[self.of] * prod(n for n, stride in zip(self.shape, lies, strict=True) if stride)

    @property
    def turned(self) -> Tensor:
        """Its last two dimensions exchanged, without a copy."""
        lies = self.strides or tuple(contiguous(self.shape))
        swap = (*range(len(self.shape) - 2), len(self.shape) - 1, len(self.shape) - 2)
        return Tensor(tuple(self.shape[n] for n in swap), self.of, tuple(lies[n] for n in swap))


Argument = Tensor | Sequence[Tensor] | Sequence[int] | float | str | None
"""Of an operator: a tensor or several, numbers, None; a text is taken as it is written."""

Arguments = Sequence[Argument]


class Kernel(NamedTuple):
    """A kernel's name, and what it takes."""

    name: str
    timed: Timed
    threads: int = 256
    more: dict[str, Any] = {}  # noqa: RUF012 - nobody changes it


def _recorded(arguments: Arguments) -> dict[str, Any]:
    """`Input Dims`, `Input type`, `Input Strides` and `Concrete Inputs`."""
    columns = list(zip(*(_argument(each) for each in arguments), strict=True))
    return dict(zip(("shapes", "types", "strides", "concrete"), columns, strict=True))


def _argument(value: Argument) -> tuple[Any, str, Any, str]:
    if value is None or isinstance(value, (str, int, float)):
        return [], "" if value is None else "Scalar", [], "" if value is None else str(value)
    if isinstance(value, Tensor):
        return value.shape, _TYPES[value.of], value.strides or contiguous(value.shape), ""
    tensors = [each for each in value if isinstance(each, Tensor)]
    if tensors:
        return [[*each.shape] for each in tensors], "TensorList", [contiguous(each.shape) for each in tensors], ""
    return [], "ScalarList", [], str([*value])


@dataclass
class Operators:
    """Layers on a program.

    Attributes:
        p: the program, of one of `CHIPS`.
        chip: which.
        precision: of products: bf16, fp16, tf32, fp32.
        autocast: weights and what goes from layer to layer are FP32, products 16 bits.
        eight: products of layers are FP8.
        training: layers are remembered for the backward pass.
        seed: of what the device reaches.
        compiled_norms: sums of layers, normalizations and the casts behind them are one kernel of Inductor.
    """

    p: Program
    chip: str = "H100"
    precision: str = "bf16"
    autocast: bool = False
    eight: bool = False
    training: bool = True
    seed: int = 1
    compiled_norms: bool = False
    tape: list[Callable[[], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.on = Silicon(CHIPS[self.chip], self.seed)
        self.of = silicon(self.p.device)
        self.flow = "fp32" if self.autocast or self.precision in ("fp32", "tf32") else self.precision

    # --- parts

    def call(self, name: str, arguments: Arguments, *kernels: Kernel, grad: str = "", us: float = 6.0) -> None:
        """An operator that launches kernels."""
        with self.p.op(name, us, **_recorded(arguments), grad=grad if self.training else ""):
            for each in kernels:
                self.p.kernel(each.name, each.timed.us, grid=each.timed.grid, block=(each.threads, 1, 1), **each.more)

    @contextmanager
    def around(self, *calls: tuple[str, Arguments]) -> Iterator[None]:
        """Operators around others."""
        with ExitStack() as stack:
            for name, arguments in calls:
                stack.enter_context(self.p.op(name, 3, **_recorded(arguments)))
            yield

    @contextmanager
    def computing(self, precision: str) -> Iterator[None]:
        """Products within are in a precision, forward and backward."""
        usual, here = self.precision, len(self.tape)

        def back(layer: Callable[[], None]) -> None:
            before, self.precision = self.precision, precision
            layer()
            self.precision = before

        self.precision = precision
        yield
        self.precision = usual
        self.tape[here:] = [partial(back, layer) for layer in self.tape[here:]]

    def later(self, backward: Callable[[], None]) -> None:
        """A layer's backward pass."""
        if self.training:
            self.tape.append(backward)

    def moving(self, name: str, *tensors: Tensor, flop: float = 0.0) -> Kernel:
        """A kernel that reads or writes these tensors once."""
        return Kernel(name, self.on.traffic(sum(each.size for each in tensors), flop), 128)

    def each(self, name: str, what: str, *reads: Tensor, out: Tensor, extra: Arguments = (), grad: str = "") -> None:
        """An element-wise operator: reads tensors, writes `out`; `extra` are its other arguments."""
        kernel = self.moving(elementwise(what, _TYPES[out.of]), *reads, out)
        self.call(name, [*reads, *extra], kernel, grad=grad)

    def cast(self, tensor: Tensor, to: str, *, grad: bool = True) -> Tensor:
        """`tensor.to(type)`."""
        if tensor.of == to or {tensor.of, to} == {"fp32", "tf32"}:
            return tensor
        out = Tensor(tensor.shape, to)

        def copy(source: Tensor, target: Tensor, node: str) -> None:
            told: list[Argument] = [source, _SCALAR_TYPES[target.of], None, None, None]
            kernel = self.moving("void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda"
                                 f"<{_TYPES[target.of]}>>(int)", source, target)  # fmt: skip
            with (
                self.around(("aten::to", [source, _SCALAR_TYPES[target.of], False, False, None])),
                self.p.op("aten::_to_copy", 3, **_recorded([*told, False, None]), grad=node if self.training else ""),
            ):
                self.call("aten::copy_", [target, source, False], kernel)

        copy(tensor, out, "ToCopyBackward0" if grad else "")
        if grad:
            self.later(lambda: self._node("ToCopyBackward0", lambda: copy(out, tensor, "")))
        return out

    def _node(self, name: str, inside: Callable[[], None]) -> None:
        with self.p.grad(name):
            training, self.training = self.training, False
            inside()
            self.training = training

    def product(
        self, name: str, a: Tensor, b: Tensor, *around: Argument, bias: Tensor | None = None, grad: str = ""
    ) -> None:
        """A product of matrices, or of batches of them."""
        *batch, m, k = a.shape
        n = b.shape[-1]
        timed = self.on.product(m, n, k, self.precision, batch=prod(batch))
        layout = "tn" if b.strides and b.strides[-1] != 1 else "nn"
        kernel = Kernel(gemm(self.of, self.precision, layout), timed, 256, {"registers": 168})
        self.call(name, [*([bias] if bias else []), a, b, *around], kernel, grad=grad)

    # --- layers

    def linear(self, rows: int, k: int, n: int, *, bias: bool = True, normalized: bool = False) -> None:
        """`nn.Linear`, under autocast with the copies that it makes; `normalized`: of what `norm` gives."""
        if self.eight:
            self.linear_in_eight_bits(rows, k, n)
            return
        kept = Tensor((n, k), self.flow)
        is_cast = normalized and self.compiled_norms
        x = self.cast(Tensor((rows, k), self.precision if is_cast else self.flow), self.precision)
        weight = self.cast(kept, self.precision)
        added = Tensor((n,), weight.of) if bias else None
        node = "AddmmBackward0" if bias else "MmBackward0"
        with self.around(("aten::linear", [x, weight, added])):
            self.p.call("aten::t", 2, **_recorded([weight]))
            if bias:
                self.product("aten::addmm", x, weight.turned, 1, 1, bias=added, grad=node)
            else:
                self.product("aten::mm", x, weight.turned, grad=node)
        gradient = Tensor((rows, n), weight.of)

        def backward() -> None:
            self.product("aten::mm", gradient, weight)
            self.product("aten::mm", gradient.turned, x)
            if bias:
                name = "void at::native::reduce_kernel<128, 4, at::native::ReduceOp<float, at::native::func_wrapper_t>>"
                self.call("aten::sum", [gradient, [0], True, None], self.moving(name, gradient))

        self.later(lambda: self._node(node, backward))

    def linear_with_small_weights(self, rows: int, k: int, n: int) -> None:
        """`nn.Linear` whose weights are INT8, made 16 bits within the kernel."""
        timed = self.on.product(rows, n, k, self.precision, inputs="fp8")
        tensors = Tensor((rows, k), self.precision), Tensor((n, k), "int8"), Tensor((n,), self.precision)
        kernel = Kernel("void at::native::weight_int8pack_mm_kernel<c10::BFloat16>(int)", timed)
        self.call("aten::_weight_int8pack_mm", tensors, kernel)

    def linear_in_eight_bits(self, rows: int, k: int, n: int) -> None:
        """`nn.Linear` in FP8 with a scale for each tensor; what is multiplied is made FP8 by kernels of Inductor."""
        x, weight, out = (Tensor(shape, "bf16") for shape in ((rows, k), (n, k), (rows, n)))
        scale = Tensor((), "fp32")

        def eight(tensor: Tensor, *, kept: bool = False) -> Tensor:
            less = Tensor(tensor.shape, "fp8")
            if not kept:
                self.triton("triton_red_fused_abs_max_0", tensor)
                self.triton("triton_poi_fused__to_copy_clamp_mul_1", tensor, less)
            return less

        def multiply(a: Tensor, b: Tensor) -> None:
            kernel = Kernel(
                "sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize128x128x128_warpgroupsize1x1x1_cublas",
                self.on.product(a.shape[0], b.shape[1], a.shape[1], "fp8"), 256, {"registers": 168},
            )  # fmt: skip
            self.call("aten::_scaled_mm", [a, b, scale, scale, None, None, 15, True], kernel)

        with self.p.op("CompiledFunction", 12, grad="CompiledFunctionBackward" if self.training else ""):
            multiply(eight(x), eight(weight, kept=not self.training).turned)

        def backward() -> None:
            gradient = eight(out)
            multiply(gradient, eight(Tensor((k, n), "bf16"), kept=True).turned.turned.turned)
            multiply(gradient.turned, eight(Tensor((k, rows), "bf16"), kept=True).turned)

        self.later(lambda: self._node("CompiledFunctionBackward", backward))

    def experts(self, rows: int, width: int, inner: int, count: int, *, grouped: bool) -> None:
        """A product with a weight of its own for each part of the rows: one by one, or all in one kernel."""
        if grouped:
            x, weight = Tensor((rows, width), self.precision), Tensor((count, width, inner), self.precision)
            timed = self.on.product(rows // count, inner, width, self.precision, batch=count)
            name = "void cutlass::device_kernel<at::cuda::detail::enable_3x_kernel_for_sm9x<grouped_gemm_bf16>>(int)"
            told: list[Argument] = [x, weight, Tensor((count,), "fp32"), None, 15]
            self.call("aten::_grouped_mm", told, Kernel(name, timed, 384, {"registers": 168}))
            return
        for _ in range(count):
            self.product(
                "aten::mm", Tensor((rows // count, width), self.precision), Tensor((width, inner), self.precision)
            )

    def norm(self, *shape: int) -> None:
        """`nn.LayerNorm`."""
        x, scale, rows = Tensor(shape, self.flow), Tensor((shape[-1],), self.flow), Tensor((*shape[:-1], 1), "fp32")
        if self.compiled_norms:
            self._compiled_norm(x)
            return
        sizes = [shape[-1]]
        space = "void at::native::(anonymous namespace)::"
        with self.around(("aten::layer_norm", [x, sizes, scale, scale, 1e-5, False])):
            kernel = self.moving(f"{space}vectorized_layer_norm_kernel<{_TYPES[x.of]}, float, false>(int, float)", x, x)
            told: list[Argument] = [x, sizes, scale, scale, 1e-5]
            self.call("aten::native_layer_norm", told, kernel, grad="NativeLayerNormBackward0")
        kernels = (
            self.moving(f"{space}layer_norm_grad_input_kernel_vectorized<{_TYPES[x.of]}, float>(int)", x, x, x),
            self.moving(f"{space}GammaBetaBackwardCUDAKernelTemplate<{_TYPES[x.of]}, float>(int)", x, x),
        )
        back: list[Argument] = [x, x, sizes, rows, rows, scale, scale, "[True, True, True]"]

        def backward() -> None:
            self.call("aten::native_layer_norm_backward", back, *kernels)

        self.later(lambda: self._node("NativeLayerNormBackward0", backward))

    def _compiled_norm(self, x: Tensor) -> None:
        """The sum that went before, normalized, in the precision of the product behind it."""
        less, node = Tensor(x.shape, self.precision), "CompiledFunctionBackward"
        with self.p.annotation("Torch-Compiled Region: 0/0"), self.p.op("CompiledFunction", 20, grad=node):
            self.triton("triton_red_fused__to_copy_add_native_layer_norm_0", x, less, x, less)

        def backward() -> None:
            self.triton("triton_red_fused__to_copy_add_native_layer_norm_backward_1", less, x, x, x)
            self.triton("triton_red_fused_native_layer_norm_backward_2", less, x)

        self.later(lambda: self._node(node, backward))

    def gelu(self, *shape: int) -> None:
        """`gelu`, in the precision of the product before it."""
        x = Tensor(shape, self.precision)
        self.each("aten::gelu", "GeluCUDAKernelImpl", x, out=x, extra=["none"], grad="GeluBackward0")
        self.later(lambda: self._node("GeluBackward0", lambda: self.each(
            "aten::gelu_backward", "GeluBackwardCUDAKernelImpl", x, x, out=x, extra=["none"])))  # fmt: skip

    def residual(self, *shape: int) -> None:
        """The sum of a layer and what went into it; backward the sum of their gradients."""
        if self.compiled_norms:
            return
        x, y = Tensor(shape, self.flow), Tensor(shape, self.precision)

        def add(left: Tensor, right: Tensor, grad: str) -> None:
            self.each("aten::add", "CUDAFunctor_add", left, right, out=x, extra=[1], grad=grad)

        add(x, y, "AddBackward0")
        self.later(lambda: self._node("AddBackward0", lambda: add(x, x, "")))

    def eager_chain(self, rows: int, width: int, count: int) -> None:
        """Element-wise operators in a row, each on what the one before has written."""
        x, wide = Tensor((rows, width), self.precision), Tensor((width,), self.precision)
        names = ("mul", "add", "sigmoid", "mul", "add", "tanh", "mul", "silu")
        chosen = [names[place % len(names)] for place in range(count)]
        for name in chosen:
            more: list[Tensor] = [wide] if name in ("mul", "add") else []
            extra: list[Argument] = [1] if name == "add" else []
            self.each(
                f"aten::{name}", f"CUDAFunctor_{name}", x, *more, out=x, extra=extra, grad=f"{name.title()}Backward0"
            )

        def backward() -> None:
            for name in reversed(chosen):
                self._node(f"{name.title()}Backward0", lambda: self.each(
                    "aten::mul", "BinaryFunctor_mul", x, x, out=x))  # fmt: skip

        self.later(backward)

    def compiled_chain(self, rows: int, width: int) -> None:
        """The same in one kernel of Inductor, forward and backward."""
        x, node = Tensor((rows, width), self.precision), "CompiledFunctionBackward"
        with self.p.annotation("Torch-Compiled Region: 0/0"), self.p.op("CompiledFunction", 20, grad=node):
            self.triton("triton_poi_fused_add_mul_sigmoid_silu_tanh_0", x, x)
        self.later(lambda: self._node(node, lambda: self.triton("triton_poi_fused_mul_silu_backward_1", x, x, x)))

    def triton(self, name: str, *tensors: Tensor) -> None:
        """A kernel of Inductor that reads or writes these tensors once."""
        size = sum(each.size for each in tensors)
        timed = self.on.traffic(size)
        told: dict[str, Any] = {"kernel_backend": "triton", "kernel_flop": 0, "kernel_num_gb": size / 1e9}
        with self.p.op(name, 4, **_recorded(tensors), **told):
            self.p.kernel(name, timed.us, grid=timed.grid, launch="cuLaunchKernel")

    def attention(
        self, batch: int, heads: int, length: int, width: int, *, causal: bool = True, parts: bool = False
    ) -> None:
        """Attention by a fused kernel, or in parts."""
        if parts:
            self._attention_in_parts(batch, heads, length, width, causal=causal)
            return
        lies = heads * length * width, width, heads * width, 1
        q = Tensor((batch, heads, length, width), self.precision, lies)
        turned = Tensor((batch, length, heads, width), self.precision)
        lse, number = Tensor((batch, heads, length), "fp32"), Tensor((), "int64")
        node = "ScaledDotProductFlashAttentionBackward0"
        self._flash(q, q, turned, turned, causal=causal, grad=node)

        def backward() -> None:
            inner = [q, q, q, q, q, lse, None, None, length, length, 0.0, causal, number, number, None]
            flash = [turned] * 5 + [lse, None, None, length, length, 0.0, causal, number, number, None, None, None]
            with self.around(("aten::_scaled_dot_product_flash_attention_backward", inner)):
                timed = self.on.attention(batch, heads, length, length, width, self.precision, causal=causal, back=True)
                kernel = Kernel(ATTENTION["backward"], timed, 256, {"registers": 255, "occupancy": 12})
                self.call("aten::_flash_attention_backward", flash, kernel)

        self.later(lambda: self._node(node, backward))

    def cached_attention(self, batch: int, heads: int, length: int, width: int) -> None:
        """Attention of one new token of each sequence to those before."""
        q, k = (Tensor((batch, heads, rows, width), self.precision) for rows in (1, length))
        turned, keys = (Tensor((batch, rows, heads, width), self.precision) for rows in (1, length))
        self._flash(q, k, turned, keys, causal=False, grad="")

    def _flash(self, q: Tensor, k: Tensor, turned: Tensor, keys: Tensor, *, causal: bool, grad: str) -> None:
        batch, heads, rows, width = q.shape
        length = k.shape[2]
        timed = self.on.attention(batch, heads, rows, length, width, self.precision, causal=causal, back=False)
        kernel = Kernel(ATTENTION["forward"], timed, 128, {"registers": 255, "occupancy": 25})
        inner: list[Argument] = [q, k, k, 0.0, causal, False, None]
        flash: list[Argument] = [turned, keys, keys, None, None, rows, length, 0.0, causal, False, *[None] * 5]
        with (
            self.around(("aten::scaled_dot_product_attention", [q, k, k, None, 0.0, causal, None, False])),
            self.p.op(
                "aten::_scaled_dot_product_flash_attention", 6, **_recorded(inner), grad=grad if self.training else ""
            ),
        ):
            self.call("aten::_flash_attention_forward", flash, kernel)

    def _attention_in_parts(self, batch: int, heads: int, length: int, width: int, *, causal: bool) -> None:
        many = batch * heads
        q, scores = Tensor((many, length, width), self.precision), Tensor((many, length, length), self.precision)
        mask = Tensor((1, length, length), self.precision)
        soft = "void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, float, 10, false>(int)"
        back = "void (anonymous namespace)::softmax_warp_backward<float, c10::BFloat16, 10, false>(int)"
        product = "BmmBackward0"
        self.product("aten::bmm", q, q.turned, grad=product)
        self.each("aten::div", "CUDAFunctor_div", scores, out=scores, extra=["8."], grad="DivBackward0")
        if causal:
            self.each("aten::add", "CUDAFunctor_add", scores, mask, out=scores, extra=[1], grad="AddBackward0")
        with self.around(("aten::softmax", [scores, -1, None])):
            self.call("aten::_softmax", [scores, -1, False], self.moving(soft, scores, scores), grad="SoftmaxBackward0")
        self.product("aten::bmm", scores, q, grad=product)

        def backward() -> None:
            def first() -> None:
                self.product("aten::bmm", scores.turned, q)
                self.product("aten::bmm", q, q.turned)

            def last() -> None:
                self.product("aten::bmm", q.turned, scores)
                self.product("aten::bmm", scores, q)

            self._node(product, first)
            self._node("SoftmaxBackward0", lambda: self.call(
                "aten::_softmax_backward_data", [scores, scores, -1, _SCALAR_TYPES[self.precision]],
                self.moving(back, scores, scores, scores)))  # fmt: skip
            if causal:
                self._node("AddBackward0", lambda: None)
            self._node("DivBackward0", lambda: self.each(
                "aten::div", "CUDAFunctor_div", scores, out=scores, extra=["8."]))  # fmt: skip
            self._node(product, last)

        self.later(backward)

    def embedding(self, batch: int, length: int, vocabulary: int, width: int) -> None:
        """`nn.Embedding`."""
        table, out = Tensor((vocabulary, width), self.flow), Tensor((batch, length, width), self.flow)
        places = Tensor((batch, length), "int64")
        kernel = self.moving("void at::native::(anonymous namespace)::indexSelectLargeIndex<float, long, 2>", out, out)
        self.call("aten::embedding", [table, places, -1, False, False], kernel, grad="EmbeddingBackward0")
        name = "void at::native::(anonymous namespace)::compute_grad_weight<float, long>"
        told: list[Argument] = [out, places, vocabulary, -1, False]
        self.later(lambda: self._node("EmbeddingBackward0", lambda: self.call(
            "aten::embedding_dense_backward", told, self.moving(name, out, table))))  # fmt: skip

    def cross_entropy(self, rows: int, vocabulary: int, *, exact: bool) -> None:
        """Of logits in the precision of products; `exact`: they are made FP32 first."""
        logits = Tensor((rows, vocabulary), self.precision)
        x = self.cast(logits, "fp32") if exact else logits
        target, one = Tensor((rows,), "int64"), Tensor((), x.of)
        soft = "void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, {0}, float, {0}>(int)".format(
            _TYPES[x.of]
        )
        back = "void at::native::(anonymous namespace)::cunn_SoftMaxBackward<4, {0}, float, {0}>(int)".format(
            _TYPES[x.of]
        )
        loss = "void at::native::(anonymous namespace)::nll_loss_{}_reduce_cuda_kernel_2d<float, float, long>(int)"
        with self.around(("aten::cross_entropy_loss", [x, target, None, 1, -100, 0.0])):
            with self.around(("aten::log_softmax", [x, 1, None])):
                self.call("aten::_log_softmax", [x, 1, False], self.moving(soft, x, x), grad="LogSoftmaxBackward0")
            with self.around(("aten::nll_loss_nd", [x, target, None, 1, -100])):
                kernel = Kernel(loss.format("forward"), self.on.traffic(rows * 12.0), 32)
                self.call("aten::nll_loss_forward", [x, target, None, 1, -100], kernel, grad="NllLossBackward0")

        def backward() -> None:
            fill = self.moving(elementwise("FillFunctor", _TYPES[x.of]), x)
            kernel = Kernel(loss.format("backward"), self.on.traffic(rows * 12.0), 32)
            told: list[Argument] = [one, x, target, None, 1, -100, one]
            self._node("NllLossBackward0", lambda: self.call("aten::nll_loss_backward", told, fill, kernel))
            soft_told: list[Argument] = [x, x, 1, _SCALAR_TYPES[x.of]]
            self._node("LogSoftmaxBackward0", lambda: self.call(
                "aten::_log_softmax_backward_data", soft_told, self.moving(back, x, x, x)))  # fmt: skip

        self.later(backward)

    def block(
        self, batch: int, length: int, width: int, heads: int, *, causal: bool = True, parts: bool = False
    ) -> None:
        """A layer of a transformer."""
        rows = batch * length
        self.norm(rows, width)
        self.linear(rows, width, 3 * width, normalized=True)
        self.attention(batch, heads, length, width // heads, causal=causal, parts=parts)
        self.linear(rows, width, width)
        self.residual(rows, width)
        self.norm(rows, width)
        self.linear(rows, width, 4 * width, normalized=True)
        self.gelu(rows, 4 * width)
        self.linear(rows, 4 * width, width)
        self.residual(rows, width)

    def checkpointed(self, layer: Callable[[], None]) -> None:
        """A layer whose activations are computed again in the backward pass."""
        training, self.training = self.training, False
        with self.p.op("CheckpointFunction", 8, grad="CheckpointFunctionBackward" if training else ""):
            layer()
        self.training = training

        def backward() -> None:
            with self.p.grad("CheckpointFunctionBackward"):
                before, self.tape = self.tape, []
                layer()
                for each in reversed(self.tape):
                    each()
                self.tape = before

        self.later(backward)

    # --- the end of a step

    def backward(self) -> None:
        """The backward pass of all layers since the last one."""
        with self.p.backward():
            for layer in reversed(self.tape):
                layer()
        self.tape.clear()

    def optimizer(self, sizes: Sequence[tuple[int, ...]], *, fused: bool = True) -> None:
        """AdamW over parameters of these sizes, in one pass or with `foreach`."""
        lists = [Tensor(size, self.flow) for size in sizes]
        count, width = sum(prod(size) for size in sizes), _BYTES[self.flow]
        launches = max(1, len(sizes) // 48)

        def passes(name: str, functor: str, accesses: int, *more: Argument) -> None:
            timed = self.on.traffic(accesses * width * count / launches)
            kernel = multi_tensor(functor).replace("<float", f"<{_TYPES[self.flow]}")
            self.call(name, [lists, *more], *[Kernel(kernel, timed, 512)] * launches, us=60)

        with self.p.annotation("Optimizer.step#AdamW.step"):
            self.p.host(60)
            if fused:
                steps = [Tensor((), "fp32")] * len(sizes)
                numbers: list[Argument] = [1e-4, 0.9, 0.999, 0.01, 1e-8, False, False, None, None]
                passes("aten::_fused_adamw_", "FusedAdamMathFunctor", 7, lists, lists, lists, None, steps, *numbers)
            else:
                passes("aten::_foreach_mul_", "BinaryOpScalarFunctor", 2, 0.999999)
                passes("aten::_foreach_lerp_", "TernaryOpScalarFunctor", 3, lists, 0.1)
                passes("aten::_foreach_mul_", "BinaryOpScalarFunctor", 2, 0.999)
                passes("aten::_foreach_addcmul_", "PointwiseOpScalarFunctor", 3, lists, lists, 0.001)
                passes("aten::_foreach_sqrt", "UnaryOpFunctor", 2)
                passes("aten::_foreach_div_", "BinaryOpScalarListFunctor", 2, [1] * len(sizes))
                passes("aten::_foreach_add_", "BinaryOpScalarFunctor", 2, 1e-8)
                passes("aten::_foreach_addcdiv_", "PointwiseOpScalarListFunctor", 4, lists, lists, [1] * len(sizes))
        with self.p.annotation("Optimizer.zero_grad#AdamW.zero_grad"):
            self.p.host(15)
