"""Models drawn at random: kinds of parallelism × faults × sizes × dialects × clocks."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal

import numpy as np

from tests.simulator.model import CAUSES, DIALECTS, Cause, Dialect, Fault, Model

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


_NOISES: Final = (0.003, 0.01, 0.03, 0.05, 0.08)
_LONGEST: Final = 160
"""Steps of all ranks of a noisy model, about: what it costs to draw and to read."""


def noisy(seed: int, *, causes: tuple[Cause, ...] = CAUSES, kind: str | None = None) -> Model:
    """A model of which nothing is even: kernels, hosts, the work in each step, and when there is a fault.

    2 to 64 ranks, 3 to 30 steps; faults may begin in the middle, be there in one step of five, or two at a time; a rank
    may be missing. The same number draws the same one.
    """
    random = np.random.default_rng([seed, 78])
    kinds = tuple(shape for shape in _SHAPES if kind in (None, shape[0]))
    _, style, (tensor, expert, pipeline) = kinds[int(random.integers(len(kinds)))]
    least = tensor * pipeline * expert
    ranks = least * int(random.choice([1, 2, 2, 4, 8, 16] if least > 1 else [2, 3, 4, 8, 16, 64]))
    ranks = max(2, min(ranks, 64))
    steps = max(3, min(int(random.integers(3, 31)), _LONGEST // ranks))
    model = Model(
        ranks=ranks, style=style, tensor=tensor, expert=expert, pipeline=pipeline,
        ranks_per_host=int(random.choice([2, 4, 8])),
        steps=steps,
        layers=int(random.integers(2, 4)),
        kernels=int(random.integers(2, 4)),
        kernel=int(random.integers(80_000, 200_000)),
        noise=float(random.choice(_NOISES)),
        jitter=float(random.choice([0.0, 0.05, 0.2])),
        shapes=float(random.choice([0.0, 0.1, 0.3])),
        uneven=float(random.choice([0.0, 0.0, 0.01, 0.03])),
        warmup=float(random.choice([0.0, 0.0, 3.0, 10.0])),
        spread=int(random.choice([0, 1_000, 5_000])),
        clock_offset=int(random.choice([0, 100_000, 10_000_000])),
        clock_drift=float(random.choice([0, 5, 20])),
        names=str(random.choice(["counter", "hash", "purpose"])),  # type: ignore[arg-type]
        single=bool(random.random() < 0.1),
        buffers=bool(random.random() < 0.1),
        synchronizes=bool(random.random() < 0.7),
        dialect=DIALECTS[int(random.integers(len(DIALECTS)))],
        seed=seed,
    )  # fmt: skip
    model = _with(model, causes[int(random.integers(len(causes)))], *_whom(random, ranks))
    model = replace(model, fault=_when(model, model.fault, random))
    if random.random() < 0.2 and ranks >= 4:
        second = causes[int(random.integers(len(causes)))]
        rank, size = _whom(random, ranks)
        if rank != model.fault.rank:
            model = replace(model, other=_when(model, _with(model, second, rank, size).fault, random))
    if random.random() < 0.1 and ranks >= 4:
        rank = int(random.integers(ranks))
        if rank not in (model.fault.rank, model.other.rank):
            model = replace(model, missing=(rank,))
    return model


def _whom(random: np.random.Generator, ranks: int) -> tuple[int, float]:
    return int(random.integers(ranks)), float(random.uniform(0.5, 1.5))


def _when(model: Model, fault: Fault, random: np.random.Generator) -> Fault:
    """Always, from the middle on, or in one step of five."""
    way = random.random()
    if way < 0.2:
        return replace(fault, since=model.steps // 2)
    if way < 0.35:
        return replace(fault, since=int(random.integers(5)) % model.steps, every=5)
    return fault
