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
        recomputed: activations are computed again.
        eight: products of layers are FP8.
        allocated: bytes that are used beside the activations; 0: memory is not recorded.
        training: with a backward pass.
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
    recomputed: bool = False
    eight: bool = False
    allocated: float = 0.0
    training: bool = True
    seed: int = 1

    @property
    def body(self) -> Body:
        """Its step."""

        def step(p: Program, n: int) -> None:
            ops = Operators(p, self.chip, self.precision, self.autocast, self.eight, self.training, self.seed)
            p.loader(1500, workers=4)
            p.to_device(8 * self.batch * self.length, pinned=True, blocking=False, dtype="long int")
            rows = self.batch * self.length
            ops.embedding(self.batch, self.length, self.vocabulary, self.width)
            for _ in range(self.layers):
                if self.recomputed:
                    ops.checkpointed(lambda: self._layer(ops))
                else:
                    self._layer(ops)
            ops.norm(rows, self.width)
            ops.eight = False
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
        if self.compiled:
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


_WIDE: Final = Language(width=2048, heads=16, layers=4)

_TABLE: Final = ("MEMORY006",)
"""Few tokens beside a large vocabulary: the gradient of the embedding is dense, with the fault and without it."""

CASES: Final = (
    _case("DEVICE002", "a vocabulary of 50,257", replace(_WIDE, vocabulary=50_257, seed=8), vocabulary=50_304),
    _case("DEVICE002", "a vocabulary of 50,257, A100", replace(_WIDE, chip="A100", vocabulary=50_257, seed=9),
          vocabulary=50_304),
    _case("DEVICE005", "attention in parts, A100", Language("A100", parts=True, seed=11), parts=False),
    _case("DEVICE005", "attention in parts, MI300X", Language("MI300X", parts=True, seed=12), parts=False),
    _case("DEVICE008", "logits made FP32", replace(_WIDE, width=1024, exact=True, seed=20), exact=False),
    _case("DEVICE008", "logits made FP32, A100", replace(_WIDE, chip="A100", vocabulary=65_536, exact=True, seed=21),
          exact=False),
    _case("HOST003", "eight element-wise operators in each layer", Language(chain=8, seed=15), compiled=True),
    _case("HOST003", "five element-wise operators in each layer, A100", Language("A100", chain=5, seed=16),
          compiled=True),
    _case("HOST003", "six element-wise operators in each layer, MI300X", Language("MI300X", chain=6, seed=17),
          compiled=True),
    _case("HOST004", "AdamW with foreach", replace(_WIDE, batch=2, autocast=True, fused=False, seed=18), fused=True,
          still=_TABLE),
    _case("HOST004", "AdamW with foreach, A100", replace(_WIDE, chip="A100", batch=2, fused=False, seed=19),
          fused=True, still=_TABLE),
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
             replace(_WIDE, batch=16, layers=8, recomputed=True, allocated=60e9, seed=7)),
)  # fmt: skip
