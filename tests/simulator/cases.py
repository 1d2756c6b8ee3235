"""Models drawn at random: kinds of parallelism × faults × sizes × dialects × clocks."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal

import numpy as np

from tests.simulator.model import CAUSES, Cause, Dialect, Fault, Model

_SHAPES: Final[tuple[tuple[str, Literal["ddp", "fsdp"], tuple[int, int, int]], ...]] = (
    ("ddp", "ddp", (1, 1, 1)),
    ("fsdp", "fsdp", (1, 1, 1)),
    ("tp", "ddp", (4, 1, 1)),
    ("tp+dp", "ddp", (2, 1, 1)),
    ("tp+fsdp", "fsdp", (2, 1, 1)),
    ("ep", "ddp", (1, 4, 1)),
    ("pp", "ddp", (1, 1, 4)),
    ("pp+dp", "ddp", (1, 1, 2)),
    ("pp+tp+dp", "ddp", (2, 1, 2)),
)
"""Name, style, and sizes: tensor, expert, pipeline."""

KINDS: Final = tuple(name for name, _, _ in _SHAPES)


def drawn(
    seed: int,
    *,
    causes: tuple[Cause, ...] = CAUSES,
    dialects: tuple[Dialect, ...] = ("2024", "2025", "2026", "rocm"),
    kind: str | None = None,
) -> Model:
    """A small model; the same number draws the same one."""
    random = np.random.default_rng([seed, 77])
    kinds = _SHAPES if kind is None else tuple(shape for shape in _SHAPES if shape[0] == kind)
    name, style, (tensor, expert, pipeline) = kinds[int(random.integers(len(kinds)))]
    if name in ("tp", "pp"):
        ranks = 4
    elif name == "pp+tp+dp":
        ranks = 8
    else:
        ranks = int(random.choice([4, 4, 8])) if name != "ep" else 8
    model = Model(
        ranks=ranks, style=style, tensor=tensor, expert=expert, pipeline=pipeline,
        ranks_per_host=int(random.choice([2, 4])),
        steps=int(random.integers(3, 5)),
        layers=int(random.integers(2, 4)),
        kernels=int(random.integers(2, 4)),
        kernel=int(random.integers(80_000, 200_000)),
        noise=float(random.choice([0.0, 0.002, 0.005])),
        spread=int(random.choice([0, 1_000, 3_000])),
        clock_offset=int(random.choice([0, 100_000, 10_000_000])),
        clock_drift=float(random.choice([0, 5, 20])),
        names=str(random.choice(["counter", "hash", "purpose"])),  # type: ignore[arg-type]
        single=bool(random.random() < 0.2),
        buffers=bool(random.random() < 0.2),
        dialect=dialects[int(random.integers(len(dialects)))],
        seed=seed,
    )  # fmt: skip
    cause = causes[int(random.integers(len(causes)))]
    return _with(model, cause, int(random.integers(ranks)), float(random.uniform(0.5, 1.5)))


def _with(model: Model, cause: Cause, rank: int, size: float) -> Model:
    """The model with a fault that matters."""
    forward = model.kernel * model.layers * model.kernels
    amounts: dict[Cause, float] = {
        "none": 0.0,
        "slow_kernels": 0.3 * size,
        "host_gap": forward * size,
        "data_loading": forward * size,
        "synchronization": forward / model.layers * size,
        "slow_link": 2 * size,
    }
    return replace(model, fault=Fault(cause, rank, amounts[cause]))
