"""Runs of a small loop with noise, as files: what the tests of the gate's faces have in common."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.drawn import annotation, kernel, launch, op, written

MS = 1_000_000


def drawn(folder: Path, *, seed: int = 0, gemm: float = 4.0, steps: int = 14, device: str = "NVIDIA H100") -> str:
    """A run of steps of some 10 ms, a kernel of which takes `gemm` ms; steps vary by 1 %. Its path."""
    folder.mkdir(parents=True)
    noise = np.exp(np.random.default_rng(seed).normal(0, 0.01, steps))
    events = []
    at = 0
    for step in range(steps):
        length = round(noise[step] * (6 + gemm) * MS)
        busy = round(noise[step] * gemm * MS)
        events += [annotation(f"ProfilerStep#{step}", at, length), op("aten::mm", at + 100, 5_000)]
        events += [launch(at + 200, 1_000, step + 1), kernel("gemm", at + 2_000, busy, step + 1)]
        at += length
    written(folder / "run.pt.trace.json", *events, deviceProperties=[{"id": 0, "name": device}])
    return str(folder)
