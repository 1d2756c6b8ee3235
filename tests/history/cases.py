"""Forty runs with something planted, and ten in which nothing happens."""

from __future__ import annotations

import numpy as np

from tests.history.drawn import Noise, Planted, Run

KINDS = (
    *("level",) * 8,
    *("one rank",) * 7,
    *("alone",) * 2,
    *("node",) * 2,
    *("recompiled",) * 2,
    *("stretch",) * 2,
    *("faster",),
    *("drift",) * 4,
    *("collection",) * 3,
    *("save",) * 2,
    *("stall",) * 2,
    *("creep",) * 4,
    *("return",),
)
"""The causes of the forty."""


def planted_runs(seed: int) -> list[Run]:
    """Forty runs; another seed has other places, sizes and machines."""
    generator = np.random.default_rng(seed)
    return [_run(f"{number:2} {kind}", kind, generator) for number, kind in enumerate(KINDS, 1)]


def _run(name: str, kind: str, generator: np.random.Generator) -> Run:
    steps = int(generator.choice([3000, 10_000, 20_000]))
    length = float(generator.choice([0.02, 0.1, 0.7, 2.0]))
    correlation = float(generator.choice([0, 0.5, 0.9]))
    noise = Noise(
        deviation=float(generator.uniform(0.005, 0.03)),
        correlation=correlation,
        own=float(generator.uniform(0.002, 0.01)),
        outliers=float(generator.choice([0, 0.002, 0.005])),
    )
    ranks = int(generator.choice([1, 2, 4, 8]))
    several = max(ranks, 2)
    step = int(steps * generator.uniform(0.15, 0.85))
    size = float(generator.uniform(0.06, 0.4))
    one = (int(generator.integers(several)),)
    part = str(generator.choice(["data", "forward", "backward", "optimizer", "gap", "rest"]))
    own = str(generator.choice(["data", "data", "forward", "gap"]))
    facts = {"steps": steps, "length": length, "noise": noise}

    def run(*planted: Planted, ranks: int = ranks, coupled: bool = True, device: bool = False) -> Run:
        return Run(name, planted=planted, ranks=ranks, coupled=coupled, device=device, **facts)  # type: ignore[arg-type]

    if kind in ("level", "one rank", "alone", "node"):
        where = {"level": None, "node": (2, 3)}.get(kind, one)
        is_device = kind == "level" and bool(generator.random() < 0.4)
        coupled = kind in ("level", "one rank") or (kind == "node" and bool(generator.random() < 0.5))
        which = "device" if is_device else part if kind in ("level", "alone") else own
        least = {"level": 1, "node": 8}.get(kind, 2)
        planted = Planted("shift", step, where, which, size)
        return run(planted, ranks=max(ranks, least), coupled=coupled, device=is_device)
    if kind == "recompiled":
        return run(Planted("shift", step, None, "forward", size, mark="compile"))
    if kind == "stretch":
        until = min(step + steps // 8, steps - 200)
        return run(Planted("shift", step, None, part, size, until=until))
    if kind == "faster":
        return run(Planted("shift", step, None, part, -0.5 * min(size, 0.04 if part != "backward" else size)))
    if kind == "drift":
        return run(Planted("drift", 0, None, part, max(size, 0.12)))
    if kind == "creep":
        memory = str(generator.choice(["memory_used", "memory_reserved", "resident"]))
        return run(Planted("creep", 0, None, memory, max(size, 0.1)), device=True)
    if kind == "return":
        return run(Planted("return", 0, one, "data", size, steps // 8), ranks=max(several, 4))
    return run(_periodic(kind, size, steps, generator))


def _periodic(kind: str, size: float, steps: int, generator: np.random.Generator) -> Planted:
    if kind == "collection":
        return Planted("period", 0, None, "forward", 3 * size + 0.2, int(generator.integers(80, 400)), "collection")
    if kind == "save":
        return Planted("period", 0, None, "gap", 20 * size, int(generator.integers(100, 500)), "save")
    return Planted("period", 0, None, "data", 10 * size, int(generator.integers(100, steps // 10)))


def healthy_runs(seed: int) -> list[Run]:
    """Ten runs of 10,000 steps on noisy machines."""
    generator = np.random.default_rng(seed + 1_000_000)

    def noise(**facts: float) -> Noise:
        return Noise(float(generator.uniform(0.01, 0.06)), own=float(generator.uniform(0.002, 0.01)), **facts)

    noises = [
        noise(correlation=0),
        noise(correlation=0.9),
        noise(correlation=0.97),
        noise(correlation=0.99),
        noise(correlation=0.99, outliers=0.02),
        noise(correlation=0.5, outliers=0.05),
        noise(correlation=0.5, modes=0.4),
        noise(correlation=0.9, modes=1.0),
        noise(correlation=0.5, modes=0.1, stay=0.995),
        noise(correlation=0.99, modes=0.3, stay=0.97),
    ]
    ranks = generator.choice([1, 1, 2, 4, 8], len(noises)).tolist()
    return [
        Run(f"healthy {number}", noise=each, ranks=count, coupled=bool(number % 3), device=bool(number % 2))
        for number, (each, count) in enumerate(zip(noises, ranks, strict=True), 1)
    ]
