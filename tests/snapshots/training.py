"""Training of a transformer: what it allocates and frees, call by call, as in eager mode."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.snapshots.allocator import Block
from tests.snapshots.process import Process
from tests.snapshots.stacks import python

HALF, FULL = 2, 4


@dataclass(frozen=True)
class Model:
    """Sizes of a decoder. Weights and activations take `width_bytes` each."""

    layers: int = 4
    width: int = 1024
    heads: int = 16
    batch: int = 4
    tokens: int = 512
    vocabulary: int = 32_000
    width_bytes: int = HALF

    @property
    def hidden(self) -> int:
        """Bytes of one activation of the residual stream."""
        return self.batch * self.tokens * self.width * self.width_bytes

    def weights(self) -> list[tuple[str, int]]:
        """Name and bytes of each parameter, in order of construction."""
        square = self.width * self.width * self.width_bytes
        layer = [("ln_1", self.width * self.width_bytes), ("qkv", 3 * square), ("proj", square)]
        layer += [("ln_2", self.width * self.width_bytes), ("fc_1", 4 * square), ("fc_2", 4 * square)]
        head = self.vocabulary * self.width * self.width_bytes
        blocks = [(f"h.{n}.{name}", size) for n in range(self.layers) for name, size in layer]
        return [("wte", head), *blocks, ("ln_f", self.width * self.width_bytes), ("lm_head", head)]


@dataclass
class Training:
    """A loop of training on one device of a process.

    Attributes:
        optimizer: "AdamW" or "SGD" (without state).
        annotate: whether `record_function` ranges are recorded; metadata: whether events carry step and phase.
        checkpoint: whether activations of a layer are dropped and computed anew in the backward.
        synchronous: whether gradients are set to None before the next forward (the default of `zero_grad`).
        before_step, after_forward, after_step: called with the number of the step: what is planted.
    """

    process: Process
    model: Model = field(default_factory=Model)
    device: int = 0
    optimizer: str = "AdamW"
    annotate: bool = True
    metadata: bool = False
    checkpoint: bool = False
    pause_us: int = 500
    before_step: Callable[[int], object] | None = None
    after_forward: Callable[[int], object] | None = None
    after_step: Callable[[int], object] | None = None
    parameters: dict[str, Block] = field(default_factory=dict)
    gradients: dict[str, Block] = field(default_factory=dict)
    states: dict[str, list[Block]] = field(default_factory=dict)
    step: int = 0

    def build(self) -> None:
        """The model moves to the device."""
        apply = [python("_apply", "torch/nn/modules/module.py", line) for line in (915, 915, 942)]
        convert = python("convert", "torch/nn/modules/module.py", 1355)
        with (
            self._main(30),
            self.process.at(python("to", "torch/nn/modules/module.py", 1369), *apply, convert),
        ):
            for name, size in self.model.weights():
                self.parameters[name] = self._alloc("_to_copy", size)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.train_step()

    def train_step(self) -> None:
        """One step: input, forward, loss, backward, optimizer."""
        self._phase("data")
        with self._main(41):
            if self.before_step is not None:
                self.before_step(self.step)
        with self._main(43):
            tokens = self._alloc("_to_copy", self.model.batch * self.model.tokens * 8)
            labels = self._alloc("_to_copy", self.model.batch * self.model.tokens * 8)
        self._phase("forward")
        with self._main(46):
            saved, final = self._forward()
            loss = self._loss(final, saved)
        if self.after_forward is not None:
            with self._main(47):
                self.after_forward(self.step)
        self._phase("backward")
        self._backward(saved)
        self._phase("optimizer")
        with self._range(f"Optimizer.step#{self.optimizer}.step"):
            self._update()
        with self._main(50), self._range(f"Optimizer.zero_grad#{self.optimizer}.zero_grad"):
            self._free(*self.gradients.values())
            self.gradients.clear()
        with self._main(51):
            if self.after_step is not None:
                self.after_step(self.step)
            self._free(loss, tokens, labels)
        self.process.now += self.pause_us
        self.step += 1

    # --- parts of a step ------------------------------------------------------------------------------------------

    def _forward(self) -> tuple[list[tuple[str, list[Block]]], Block]:
        """Activations that the backward needs, layer by layer, and the last of the residual stream."""
        model, saved = self.model, []
        with self.process.module("model.py", 88):
            with self.process.module("torch/nn/modules/sparse.py", 192):
                hidden = self._alloc("embedding", model.hidden)
            saved.append(("embedding", [hidden]))
            for layer in range(model.layers):
                if not self.checkpoint:
                    kept = self._layer(self.process.matmul)
                    saved.append((f"h.{layer}", kept))
                else:
                    with self.process.at(
                        python("checkpoint", "torch/utils/checkpoint.py", 503),
                        python("forward", "torch/utils/checkpoint.py", 264),
                    ):
                        kept = self._layer(self.process.matmul)
                    self._free(*kept[:-1])
                    saved.append((f"h.{layer}", kept[-1:]))
            with self.process.module("torch/nn/modules/normalization.py", 217):
                hidden = self._alloc("native_layer_norm", model.hidden)
            saved.append(("ln_f", [hidden]))
            with self.process.module("torch/nn/modules/linear.py", 125):
                logits = self._matmul("linear", model.batch * model.tokens * model.vocabulary * model.width_bytes)
            saved.append(("lm_head", [logits]))
        return saved, logits

    def _layer(self, matmul: Callable[..., Block]) -> list[Block]:
        model, process = self.model, self.process
        hidden, rows = model.hidden, model.batch * model.tokens
        kept = []
        with process.module("model.py", 61):
            with process.module("torch/nn/modules/normalization.py", 217):
                kept.append(self._alloc("native_layer_norm", hidden))
                kept += [self._alloc("native_layer_norm", rows * FULL) for _ in range(2)]
            with process.module("model.py", 37):
                with process.module("torch/nn/modules/linear.py", 125):
                    kept.append(matmul("addmm", 3 * hidden, device=self.device))
                scores = self._alloc(
                    "baddbmm", model.batch * model.heads * model.tokens * model.tokens * model.width_bytes
                )
                mask = self._alloc("bernoulli", model.batch * model.heads * model.tokens * model.tokens)
                kept.append(self._alloc("_softmax", scores.requested))
                self._free(scores)
                kept.append(mask)
                kept.append(self._matmul("bmm", hidden))
                with process.module("torch/nn/modules/linear.py", 125):
                    kept.append(self._matmul("addmm", hidden))
            kept.append(self._alloc("add", hidden))
            with process.module("torch/nn/modules/normalization.py", 217):
                kept.append(self._alloc("native_layer_norm", hidden))
            with process.module("model.py", 52):
                with process.module("torch/nn/modules/linear.py", 125):
                    kept.append(self._matmul("addmm", 4 * hidden))
                with process.module("torch/nn/modules/activation.py", 734):
                    kept.append(self._alloc("gelu", 4 * hidden))
                with process.module("torch/nn/modules/linear.py", 125):
                    product = self._matmul("addmm", hidden)
            kept.append(self._alloc("add", hidden))
            self._free(product)
        return kept

    def _loss(self, logits: Block, saved: list[tuple[str, list[Block]]]) -> Block:
        loss = python("cross_entropy", "torch/nn/functional.py", 3462)
        with self.process.at(python("compute_loss", "train.py", 22), loss):
            full = self._alloc("_to_copy", logits.requested // self.model.width_bytes * FULL)
            saved.append(("loss", [self._alloc("_log_softmax", full.requested)]))
            self._free(full)
            return self._alloc("nll_loss_forward", FULL)

    def _backward(self, saved: list[tuple[str, list[Block]]]) -> None:
        model, process = self.model, self.process
        gradient: Block | None = None
        for name, kept in reversed(saved):
            if name == "loss":
                with process.backward("LogSoftmaxBackward0"):
                    full = self._alloc("_log_softmax_backward_data", kept[0].requested)
                    self._free(*kept)
                with process.backward("ToCopyBackward0"):
                    gradient = self._alloc("_to_copy", full.requested // FULL * model.width_bytes)
                    self._free(full)
                continue
            assert gradient is not None
            if name.startswith("h."):
                if self.checkpoint:
                    with process.at(
                        python("backward", "torch/utils/checkpoint.py", 296), python("forward", "model.py", 88)
                    ):
                        again = self._layer(process.matmul)
                    gradient = self._layer_backward(name, again, gradient)
                    self._free(*kept)
                else:
                    gradient = self._layer_backward(name, kept, gradient)
                continue
            kind = {"embedding": "EmbeddingBackward0", "ln_f": "NativeLayerNormBackward0"}.get(name, "MmBackward0")
            with process.backward(kind):
                following = None if name == "embedding" else self._matmul("mm", model.hidden)
                self._gradient("wte" if name == "embedding" else name)
                self._free(gradient, *kept)
                gradient = following

    def _layer_backward(self, name: str, kept: list[Block], gradient: Block) -> Block:
        process, hidden = self.process, self.model.hidden
        waiting = list(reversed(kept))
        use = functools.partial(self._use, waiting)
        with process.backward("AddmmBackward0"):
            inner = self._matmul("mm", 4 * hidden)
            self._gradient(f"{name}.fc_2")
            use(1)
        with process.backward("GeluBackward0"):
            outer = self._alloc("gelu_backward", 4 * hidden)
            self._free(inner)
            use(1)
        with process.backward("AddmmBackward0"):
            inner = self._matmul("mm", hidden)
            self._gradient(f"{name}.fc_1")
            self._free(outer)
            use(1)
        with process.backward("NativeLayerNormBackward0"):
            outer = self._alloc("native_layer_norm_backward", hidden)
            self._gradient(f"{name}.ln_2")
            self._free(inner)
            use(1)
        with process.backward("AddBackward0"):
            sum_ = self._alloc("add", hidden)
            self._free(gradient, outer)
            use(1)
        return self._attention_backward(name, waiting, sum_)

    def _attention_backward(self, name: str, waiting: list[Block], sum_: Block) -> Block:
        model, process, use = self.model, self.process, functools.partial(self._use, waiting)
        hidden = model.hidden
        with process.backward("AddmmBackward0"):
            inner = self._matmul("mm", hidden)
            self._gradient(f"{name}.proj")
            use(1)
        with process.backward("BmmBackward0"):
            scores = self._alloc("bmm", model.batch * model.heads * model.tokens * model.tokens * model.width_bytes)
            outer = self._matmul("bmm", 3 * hidden)
            self._free(inner)
            use(1)
        with process.backward("SoftmaxBackward0"):
            again = self._alloc("_softmax_backward_data", scores.requested)
            self._free(scores)
            use(2)
            self._free(again)
        with process.backward("AddmmBackward0"):
            inner = self._matmul("mm", hidden)
            self._gradient(f"{name}.qkv")
            self._free(outer)
            use(1)
        with process.backward("NativeLayerNormBackward0"):
            outer = self._alloc("native_layer_norm_backward", hidden)
            self._gradient(f"{name}.ln_1")
            self._free(inner)
            use(len(waiting))
        with process.backward("AddBackward0"):
            inner = self._alloc("add", hidden)
            self._free(sum_, outer)
        return inner

    def _use(self, waiting: list[Block], count: int) -> None:
        """The last use of the next activations."""
        self._free(*waiting[:count])
        del waiting[:count]

    def _gradient(self, name: str) -> None:
        """The gradient of a parameter: kept if there is none yet, else added to it."""
        size = self.parameters[name].requested
        with self.process.backward("AccumulateGrad" if name.endswith(("ln_1", "ln_2", "ln_f")) else "MmBackward0"):
            fresh = self._alloc("new_empty_strided" if name[-4:-1] == "ln_" else "mm", size)
            if name in self.gradients:
                self._free(fresh)
            else:
                self.gradients[name] = fresh

    def _update(self) -> None:
        if self.optimizer == "SGD":
            return
        file = "torch/optim/adam.py"
        wrapper = python("wrapper", "torch/optim/optimizer.py", 533)
        step = python("step", file, 244)
        with self._main(49), self.process.at(wrapper, python("_use_grad", "torch/optim/optimizer.py", 81), step):
            for name, block in self.parameters.items():
                if name not in self.states:
                    with self.process.at(python("_init_group", file, 182)):
                        size = block.requested // self.model.width_bytes * FULL
                        self.states[name] = [self._alloc("zeros_like", size) for _ in range(2)]
                        self.states[name].append(self._alloc("zeros", FULL))
            with self.process.at(python("_multi_tensor_adam", file, 700)):
                for name in self.parameters:
                    root = self._alloc("_foreach_sqrt", self.states[name][1].requested)
                    self._free(root)

    # --- words ----------------------------------------------------------------------------------------------------

    def _alloc(self, operator: str, size: int) -> Block:
        return self.process.alloc(operator, size, device=self.device)

    def _matmul(self, operator: str, size: int) -> Block:
        return self.process.matmul(operator, size, device=self.device)

    def _free(self, *blocks: Block) -> None:
        self.process.free(*blocks, device=self.device)

    @contextlib.contextmanager
    def _main(self, line: int) -> Iterator[None]:
        with self.process.at(python("main", "train.py", line)):
            yield

    @contextlib.contextmanager
    def _range(self, name: str) -> Iterator[None]:
        with self.process.annotation(name, self.device) if self.annotate else contextlib.nullcontext():
            yield

    def _phase(self, phase: str) -> None:
        if self.metadata:
            self.process.remark(user_metadata=json.dumps({"step": self.step, "phase": phase}))
