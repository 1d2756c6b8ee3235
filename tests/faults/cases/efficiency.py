"""Faults of device work that is far from the limits of its device; gains follow from `silicon`, not from our floors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from tests.faults.case import Case, Healthy, drawing, planted
from tests.faults.host import Body
from tests.faults.operators import Operators
from tests.faults.program import Program
from tests.faults.silicon import CHIPS


@dataclass(frozen=True)
class Language:
    """A training step of a language model, or its forward pass.

    Attributes:
        chip: of `CHIPS`.
        precision, autocast: see `Operators`.
        batch, length, width, heads, layers, vocabulary: sizes.
        parts: attention in parts.
        causal: attention sees only what came before.
        exact: logits are made FP32 for the loss.
        fused: optimizer in one pass.
        chain: element-wise operators beside each layer, and whether they are compiled.
        norms: sums, normalizations and casts are compiled.
        recomputed: activations are computed again.
        eight: products of layers are FP8.
        allocated: bytes that are used beside the activations; 0: memory is not recorded.
        training: with a backward pass.
        head: precision of the output layer; "" for that of the others.
        some: layers that have what is said of parts, chains and recomputation; 0 for all.
    """

    chip: str = "H100"
    precision: str = "bf16"
    autocast: bool = False
    batch: int = 8
    length: int = 1024
    width: int = 1024
    heads: int = 16
    layers: int = 6
    vocabulary: int = 32_000
    parts: bool = False
    causal: bool = True
    exact: bool = False
    fused: bool = True
    chain: int = 0
    compiled: bool = False
    norms: bool = False
    recomputed: bool = False
    eight: bool = False
    allocated: float = 0.0
    training: bool = True
    head: str = ""
    some: int = 0
    seed: int = 1

    @property
    def body(self) -> Body:
        """Its step."""

        def step(p: Program, n: int) -> None:
            ops = Operators(
                p, self.chip, self.precision, self.autocast, self.eight, self.training, self.seed, self.norms
            )
            p.loader(1500, workers=4)
            p.to_device(8 * self.batch * self.length, pinned=True, blocking=False, dtype="long int")
            rows = self.batch * self.length
            ops.embedding(self.batch, self.length, self.vocabulary, self.width)
            for place in range(self.layers):
                layer = self if place < (self.some or self.layers) else replace(self, parts=False, chain=0)
                if self.recomputed and layer is self:
                    ops.checkpointed(lambda: self._layer(ops))
                else:
                    layer._layer(ops)
            ops.norm(rows, self.width)
            ops.eight = False
            with ops.computing(self.head or self.precision):
                ops.linear(rows, self.width, self.vocabulary, bias=False)
            if self.training:
                ops.cross_entropy(rows, self.vocabulary, exact=self.exact)
                ops.backward()
                ops.optimizer(self._sizes(), fused=self.fused)

        return step

    def _layer(self, ops: Operators) -> None:
        rows = self.batch * self.length
        activations = ops.p.malloc(34 * rows * self.width) if self.allocated else 0
        if activations:
            ops.later(lambda: ops.p.free(activations))
        ops.block(self.batch, self.length, self.width, self.heads, causal=self.causal, parts=self.parts)
        if self.chain and self.compiled:
            ops.compiled_chain(rows, 2 * self.width)
        elif self.chain:
            ops.eager_chain(rows, 2 * self.width, self.chain)
        if activations and not ops.training:
            ops.p.free(activations)

    def _sizes(self) -> list[tuple[int, ...]]:
        width = self.width
        layer = [(3 * width, width), (3 * width,), (width, width), (width,), (4 * width, width), (4 * width,),
                 (width, 4 * width), (width,), (width,), (width,)]  # fmt: skip
        return [(self.vocabulary, width), *(layer * self.layers), (self.vocabulary, width)]


def _case(code: str, name: str, model: Language, *, steps: int = 6, still: tuple[str, ...] = (), **fixed: Any) -> Case:
    """A model, and the same with some of it changed."""
    drawn: dict[str, Any] = {**CHIPS[model.chip].program, "seed": 600 + model.seed, **_memory(model)}
    return planted(code, name, model.body, replace(model, **fixed).body, steps=steps, still=still, **drawn)


def _healthy(name: str, model: Language) -> Healthy:
    more = {**CHIPS[model.chip].program, **_memory(model)}
    return Healthy(name, drawing(model.body, steps=6, seed=700 + model.seed, **more))


def _memory(model: Language) -> dict[str, Any]:
    return {"allocated": int(model.allocated), "reserved": int(model.allocated)} if model.allocated else {}


def padded(*, chip: str, seed: int, even: bool, batch: int = 16) -> Body:
    """A language model on sequences of 128 to 2,048 that are padded to the longest; `even`: batches of like lengths."""

    def step(p: Program, n: int) -> None:
        lengths = [128 * (1 + n % 16) if even else 128 * (1 + place % 16) for place in range(batch)]
        lists: Any = [[[length] for length in lengths]]
        with p.op("aten::pad_sequence", 40, shapes=lists, types=["TensorList"], strides=[[]]):
            p.call("aten::full", 20)
        model = Language(chip, batch=batch, length=max(lengths), layers=4, vocabulary=8_192, seed=seed)
        model.body(p, n)

    return step


def tokens(*, chip: str, sequences: int, small: bool = False, seed: int, before: int = 2048) -> Body:
    """A token of layers of a language model for so many sequences; `small`: weights in 8 bits."""

    def step(p: Program, n: int) -> None:
        ops = Operators(p, chip, training=False, seed=seed)
        p.to_device(8 * sequences, pinned=True, blocking=False, dtype="long int")
        for _ in range(8):
            ops.norm(sequences, 5120)
            _weights(ops, sequences, 5120, 3 * 5120, small=small)
            ops.cached_attention(sequences, 40, before, 128)
            _weights(ops, sequences, 5120, 5120, small=small)
            ops.residual(sequences, 5120)
            ops.norm(sequences, 5120)
            _weights(ops, sequences, 5120, 4 * 5120, small=small)
            ops.gelu(sequences, 4 * 5120)
            _weights(ops, sequences, 4 * 5120, 5120, small=small)
            ops.residual(sequences, 5120)

    return step


def _weights(ops: Operators, rows: int, k: int, n: int, *, small: bool) -> None:
    if small:
        ops.linear_with_small_weights(rows, k, n)
    else:
        ops.linear(rows, k, n, bias=False)


def routed(*, chip: str, grouped: bool, seed: int, rows: int = 2048, count: int = 32, inner: int = 8192) -> Body:
    """A forward pass through layers with experts."""

    def step(p: Program, n: int) -> None:
        ops = Operators(p, chip, training=False, seed=seed)
        p.to_device(8 * rows, pinned=True, blocking=False, dtype="long int")
        for _ in range(6):
            ops.block(2, rows // 2, 2048, 16)
            ops.experts(rows, 2048, inner, count, grouped=grouped)
            ops.experts(rows, inner, 2048, count, grouped=grouped)

    return step


_WIDE: Final = Language(width=2048, heads=16, layers=4)

_TABLE: Final = ("MEMORY006",)
"""Few tokens beside a large vocabulary: the gradient of the embedding is dense, with the fault and without it."""

_COPIES: Final = ("HOST003",)
"""What autocast copies could be fused with what is around it."""

CASES: Final = (
    _case("DEVICE001", "TF32 where autocast would do", Language(precision="tf32", seed=1), precision="bf16",
          autocast=True, still=_COPIES),
    _case("DEVICE001", "TF32, wide", replace(_WIDE, precision="tf32", seed=2), precision="bf16", autocast=True,
          still=_COPIES),
    _case("DEVICE001", "TF32, A100", Language("A100", "tf32", seed=3), precision="bf16", autocast=True,
          still=_COPIES),
    _case("DEVICE001", "FP32 where TF32 would do, H100", Language(precision="fp32", seed=4), precision="tf32"),
    _case("DEVICE001", "FP32 where TF32 would do, A100", Language("A100", "fp32", seed=5), precision="tf32"),
    _case("DEVICE001", "FP32 where autocast would do, V100",
          Language("V100", "fp32", batch=4, layers=3, parts=True, seed=6), precision="fp16", autocast=True,
          still=(*_COPIES, "DEVICE005", "MEMORY006")),
    _case("DEVICE001", "a forward pass in FP32", Language(precision="fp32", training=False, seed=7),
          precision="bf16"),
    _case("DEVICE002", "a vocabulary of 50,257", replace(_WIDE, vocabulary=50_257, seed=8), vocabulary=50_304),
    _case("DEVICE002", "a vocabulary of 50,257, A100", replace(_WIDE, chip="A100", vocabulary=50_257, seed=9),
          vocabulary=50_304),
    _case("DEVICE005", "attention in parts", Language(parts=True, seed=10), parts=False),
    _case("DEVICE005", "attention in parts, A100", Language("A100", parts=True, seed=11), parts=False),
    _case("DEVICE005", "attention in parts, MI300X", Language("MI300X", parts=True, seed=12), parts=False),
    _case("DEVICE008", "logits made FP32", replace(_WIDE, width=1024, exact=True, seed=20), exact=False),
    _case("DEVICE008", "logits made FP32, A100", replace(_WIDE, chip="A100", vocabulary=65_536, exact=True, seed=21),
          exact=False),
    _case("DEVICE005", "attention in parts, to all positions", Language(parts=True, causal=False, length=2048, batch=4,
                                                                       seed=13), parts=False),
    _case("DEVICE005", "attention in parts, forward pass", Language(parts=True, training=False, length=2048, batch=4,
                                                                   seed=14), parts=False),
    _case("HOST003", "sums, normalizations and casts one by one", Language(autocast=True, seed=30), norms=True),
    _case("HOST003", "sums, normalizations and casts one by one, A100", Language("A100", autocast=True, seed=31),
          norms=True),
    _case("HOST003", "eight element-wise operators in each layer", Language(chain=8, seed=15), compiled=True),
    _case("HOST003", "five element-wise operators in each layer, A100", Language("A100", chain=5, seed=16),
          compiled=True),
    _case("HOST003", "six element-wise operators in each layer, MI300X", Language("MI300X", chain=6, seed=17),
          compiled=True),
    _case("HOST004", "AdamW with foreach", replace(_WIDE, batch=2, autocast=True, fused=False, seed=18), fused=True,
          still=_TABLE),
    _case("HOST004", "AdamW with foreach, A100", replace(_WIDE, chip="A100", batch=2, fused=False, seed=19),
          fused=True, still=_TABLE),
    _case("MEMORY007", "activations computed again beside much free memory",
          replace(_WIDE, recomputed=True, allocated=9e9, seed=20), recomputed=False),
    _case("MEMORY007", "the same, A100", replace(_WIDE, chip="A100", recomputed=True, allocated=20e9, seed=21),
          recomputed=False),
    _case("MEMORY007", "the same, MI300X, attention in the other direction, too",
          Language("MI300X", recomputed=True, causal=False, allocated=60e9, seed=22), recomputed=False),
    _case("DEVICE009", "wide products in BF16 on a device with FP8",
          replace(_WIDE, width=4096, heads=32, batch=4, layers=3, seed=23), eight=True, still=_TABLE),
    planted("DEVICE010", "weights read for 4 tokens", tokens(chip="H100", sequences=4, seed=24),
            tokens(chip="H100", sequences=4, seed=24, small=True), steps=6, seed=624,
            **CHIPS["H100"].program),
    planted("DEVICE010", "weights read for 32 tokens", tokens(chip="H100", sequences=32, seed=25),
            tokens(chip="H100", sequences=32, seed=25, small=True), steps=6, seed=625, **CHIPS["H100"].program),
    planted("DEVICE011", "experts one by one", routed(chip="H100", grouped=False, seed=26),
            routed(chip="H100", grouped=True, seed=26), steps=6, seed=626, **CHIPS["H100"].program),
    planted("DEVICE011", "experts one by one, A100", routed(chip="A100", grouped=False, seed=27, count=16),
            routed(chip="A100", grouped=True, seed=27, count=16), steps=6, seed=627, **CHIPS["A100"].program),
    planted("DEVICE011", "eight small experts one by one",
            routed(chip="H100", grouped=False, seed=28, rows=4096, count=8, inner=1024),
            routed(chip="H100", grouped=True, seed=28, rows=4096, count=8, inner=1024), steps=6, seed=628,
            **CHIPS["H100"].program),
    planted("DEVICE010", "weights read for 8 tokens, with long contexts", tokens(chip="H100", sequences=8, seed=29,
            before=8192), tokens(chip="H100", sequences=8, seed=29, before=8192, small=True), steps=6, seed=629,
            **CHIPS["H100"].program),
    planted("DEVICE010", "weights read for 16 tokens, A100", tokens(chip="A100", sequences=16, seed=30),
            tokens(chip="A100", sequences=16, seed=30, small=True), steps=6, seed=630, **CHIPS["A100"].program),
    _case("DEVICE001", "an output layer in FP32", Language(layers=12, vocabulary=4_096, head="fp32", seed=41),
          head="tf32"),
    _case("DEVICE001", "an output layer in FP32, A100",
          Language("A100", layers=12, vocabulary=4_096, head="fp32", seed=42), head="tf32"),
    _case("DEVICE005", "attention in parts in one of twelve layers, MI300X",
          Language("MI300X", parts=True, layers=12, some=1, seed=43), parts=False),
    _case("DEVICE005", "attention in parts in one of six layers, forward pass, A100",
          Language("A100", parts=True, training=False, some=1, seed=44), parts=False),
    _case("MEMORY007", "two of six layers computed again, MI300X",
          Language("MI300X", recomputed=True, some=2, allocated=9e9, seed=45), recomputed=False),
    planted("DEVICE011", "eight small experts one by one, A100",
            routed(chip="A100", grouped=False, seed=46, rows=4096, count=8, inner=1024),
            routed(chip="A100", grouped=True, seed=46, rows=4096, count=8, inner=1024), steps=6, seed=646,
            **CHIPS["A100"].program),
    planted("DATA008", "sequences of 128 to 2,048", padded(chip="H100", seed=47, even=False),
            padded(chip="H100", seed=47, even=True), steps=16, seed=647, **CHIPS["H100"].program),
    planted("DATA008", "sequences of 128 to 2,048, A100", padded(chip="A100", seed=48, even=False),
            padded(chip="A100", seed=48, even=True), steps=16, seed=648, **CHIPS["A100"].program),
    _case("DEVICE005", "attention in parts in one of six layers", Language(parts=True, some=1, seed=31), parts=False),
    _case("DEVICE005", "attention in parts in two of eight layers, A100",
          Language("A100", parts=True, layers=8, some=2, seed=32), parts=False),
    _case("HOST003", "eight element-wise operators in one layer", Language(chain=8, some=1, seed=33), compiled=True),
    _case("HOST003", "six element-wise operators in two layers, A100",
          Language("A100", chain=6, layers=8, some=2, seed=34), compiled=True),
    _case("MEMORY007", "one of four layers computed again",
          replace(_WIDE, recomputed=True, some=1, allocated=9e9, seed=35), recomputed=False),
    _case("MEMORY007", "two of eight layers computed again, A100",
          Language("A100", layers=8, recomputed=True, some=2, allocated=9e9, seed=36), recomputed=False),
    _case("HOST004", "AdamW with foreach, large batch", replace(_WIDE, batch=16, fused=False, seed=37), fused=True),
    _case("HOST004", "AdamW with foreach, MI300X", Language("MI300X", batch=16, fused=False, seed=38), fused=True),
    _case("DEVICE002", "a vocabulary of 32,003", Language(layers=12, vocabulary=32_003, seed=39), vocabulary=32_064),
    _case("DEVICE002", "a vocabulary of 30,522, A100", Language("A100", layers=12, vocabulary=30_522, seed=40),
          vocabulary=30_528),
)  # fmt: skip
"""Each with its twin."""

HEALTHY: Final = (
    _healthy("language model near the limits, H100", replace(_WIDE, seed=1)),
    _healthy("language model near the limits, A100", replace(_WIDE, chip="A100", seed=2)),
    _healthy("language model near the limits, MI300X", replace(_WIDE, chip="MI300X", seed=3)),
    _healthy("language model with autocast", replace(_WIDE, width=4096, layers=2, autocast=True, seed=4)),
    _healthy("forward pass near the limits", replace(_WIDE, training=False, batch=16, seed=5)),
    _healthy("a vocabulary that does not fit, on a small part of the step",
             replace(_WIDE, vocabulary=5_003, layers=6, seed=6)),
    _healthy("activations computed again where memory needs it",
             replace(_WIDE, batch=16, layers=8, recomputed=True, allocated=75e9, seed=7)),
)  # fmt: skip
