"""Series of runs, drawn: steps of ranks that wait for each other, noise of real machines, and what is planted in them.

It knows how runs behave, and nothing of how changes are looked for. The shapes are those of runs that people reported:
pauses of the garbage collector at a jittered period, each rank at its own; epochs at whose start the loader stalls; one
step of minutes; ramps; two levels by the length of a batch; a machine that is busy for a while.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kinetoscope.model.history.series import MARKS, STEPS

Floats = NDArray[np.float64]

SHARES: Final = {"data": 0.05, "gap": 0.03, "forward": 0.3, "backward": 0.45, "optimizer": 0.12, "rest": 0.05}
"""What a step is made of."""

START: Final = 1_790_000_000_000_000_000
GIGABYTE: Final = 1e9


@dataclass(frozen=True)
class Planted:
    """What was put into a run.

    Attributes:
        kind: shift, drift, period, creep, return.
        step: from which on; 0 where it is the whole run.
        ranks: on which; None: all.
        part: in which it is, or the memory.
        size: share of a step, or of the memory; of a period each time.
        period: steps from one to the next.
        mark: kind of the mark that goes with it.
        until: the step at which it ends; 0: it does not.
    """

    kind: str
    step: int = 0
    ranks: tuple[int, ...] | None = None
    part: str = "data"
    size: float = 0.1
    period: int = 0
    mark: str = ""
    until: int = 0


@dataclass(frozen=True)
class Noise:
    """How a machine is noisy.

    Attributes:
        deviation: of all ranks together, as a share.
        correlation: from step to step.
        own: deviation of a rank by itself.
        outliers: share of steps that are far off, with a heavy tail.
        modes: share by which long batches are longer; 0: all are of one kind.
        stay: probability that the next batch is of the same kind.
    """

    deviation: float = 0.02
    correlation: float = 0.5
    own: float = 0.01
    outliers: float = 0.002
    modes: float = 0.0
    stay: float = 0.5


@dataclass(frozen=True)
class Run:
    """A run to draw.

    Attributes:
        coupled: ranks wait for each other in the backward pass.
        clutter: marks that have nothing to do with what is planted: collections and saves that cost little.
    """

    name: str
    steps: int = 10_000
    ranks: int = 1
    length: float = 0.1
    noise: Noise = field(default_factory=Noise)
    planted: tuple[Planted, ...] = ()
    coupled: bool = True
    device: bool = False
    clutter: bool = True


@dataclass(frozen=True)
class Drawn:
    """The series of a run, as a recorder writes it."""

    run: Run
    frames: list[pl.DataFrame]
    marks: pl.DataFrame


def autoregression(generator: np.random.Generator, shape: tuple[int, ...], correlation: float) -> Floats:
    """Normal noise of deviation 1 whose neighbours along the last axis are correlated."""
    noise = generator.standard_normal(shape)
    if not correlation:
        return noise
    fresh = np.sqrt(1 - correlation**2)
    noise[..., 1:] *= fresh
    for place in range(1, shape[-1]):
        noise[..., place] += correlation * noise[..., place - 1]
    return noise


def draw(run: Run, seed: int) -> Drawn:
    """The series of a run; the same seed draws the same."""
    generator = np.random.default_rng(seed)
    shape = (run.ranks, run.steps)
    parts = _parts(run, generator)
    marks: list[tuple[int, str, str | None, int, float]] = []
    for planted in run.planted:
        _plant(run, planted, parts, marks, generator)
    if run.clutter:
        _clutter(run, parts, marks, generator)
    for part, values in parts.items():
        parts[part] = np.maximum(values, 1e-6)
    device = parts["forward"] + parts["backward"] + parts["optimizer"]
    if run.coupled:
        arrival = sum(parts.values(), np.zeros(shape))
        wait = arrival.max(axis=0) - arrival
        parts["backward"] += wait
        device = device + wait
    memory = _memory(run, generator)
    frames = [_frame(run, row, parts, device, memory) for row in range(run.ranks)]
    return Drawn(run, frames, _marks(frames, marks))


def _parts(run: Run, generator: np.random.Generator) -> dict[str, Floats]:
    """Seconds of each part: [ranks, steps]."""
    noise, shape = run.noise, (run.ranks, run.steps)
    factor = 1 + noise.deviation * autoregression(generator, (1, run.steps), noise.correlation)
    if noise.modes:
        changes = generator.random(run.steps) > noise.stay
        factor = factor * (1 + noise.modes * (np.cumsum(changes) % 2))
    factor = np.maximum(factor, 0.2)
    parts = {}
    for part, share in SHARES.items():
        own = 1 + noise.own / share**0.5 * autoregression(generator, shape, noise.correlation / 2)
        parts[part] = run.length * share * factor * np.maximum(own, 0.1)
    far = generator.random(shape) < noise.outliers
    size = run.length * 0.2 * (generator.pareto(1.5, shape) + 0.5)
    which = generator.integers(0, len(SHARES), shape)
    for number, part in enumerate(SHARES):
        parts[part] += np.where(far & (which == number), np.minimum(size, 300 * run.length), 0)
    return parts


def _plant(
    run: Run,
    planted: Planted,
    parts: dict[str, Floats],
    marks: list[tuple[int, str, str | None, int, float]],
    generator: np.random.Generator,
) -> None:
    rows = list(planted.ranks if planted.ranks is not None else range(run.ranks))
    part = "backward" if planted.part == "device" else planted.part
    extra = planted.size * run.length
    if planted.kind == "shift":
        parts[part][rows, planted.step : planted.until or None] += extra
        if planted.mark:
            marks += [(row, planted.mark, None, planted.step, 0.0) for row in rows]
    elif planted.kind == "drift":
        parts[part][rows] += extra * np.linspace(0, 1, run.steps)
    elif planted.kind == "return":
        for begin in range(planted.period // 2, run.steps - planted.period // 4, planted.period):
            parts[part][rows, begin : begin + planted.period // 4] += extra
    elif planted.kind == "period":
        for row in rows if planted.mark == "collection" else [rows]:
            step = int(generator.integers(5, planted.period))
            while step < run.steps:
                time = extra * generator.uniform(0.95, 1.05)
                parts[part][row, step] += time
                if planted.mark:
                    detail = "2" if planted.mark == "collection" else None
                    marks += [(each, planted.mark, detail, step, time) for each in np.atleast_1d(row).tolist()]
                jitter = 0.03 if planted.mark == "collection" else 0
                step += round(planted.period * (1 + jitter * float(generator.uniform(-1, 1))))


def _clutter(
    run: Run,
    parts: dict[str, Floats],
    marks: list[tuple[int, str, str | None, int, float]],
    generator: np.random.Generator,
) -> None:
    """Young collections at random, and a handful of quick saves."""
    for row in range(run.ranks):
        for step in generator.integers(0, run.steps, run.steps // 60).tolist():
            parts["forward"][row, step] += 0.002 * run.length
            marks.append((row, "collection", "0", step, 0.002 * run.length))
        for step in range(run.steps // 6, run.steps, run.steps // 4):
            parts["gap"][row, step] += 0.3 * run.length
            marks.append((row, "save", None, step, 0.3 * run.length))


def _memory(run: Run, generator: np.random.Generator) -> dict[str, Floats]:
    """Bytes of each kind: [ranks, steps]."""
    shape = (run.ranks, run.steps)
    used = GIGABYTE * 8 * (1 + 0.02 * generator.standard_normal(shape))
    memory = {"memory_used": used, "memory_reserved": np.full(shape, GIGABYTE * 12)}
    memory["resident"] = GIGABYTE * 5 * (1 + 0.002 * autoregression(generator, shape, 0.9))
    warm = np.minimum(np.arange(run.steps) / (0.05 * run.steps), 1)
    memory["resident"] = memory["resident"] * (0.7 + 0.3 * warm)
    for planted in run.planted:
        if planted.kind == "creep":
            rows = list(planted.ranks if planted.ranks is not None else range(run.ranks))
            memory[planted.part][rows] *= 1 + planted.size * np.linspace(0, 1, run.steps)
    return memory


def _frame(run: Run, row: int, parts: dict[str, Floats], device: Floats, memory: dict[str, Floats]) -> pl.DataFrame:
    mine = {part: np.rint(values[row] * 1e9).astype(np.int64) for part, values in parts.items()}
    time = sum((mine[part] for part in SHARES if part != "gap"), np.zeros(run.steps, np.int64))
    end = START + np.cumsum(time + mine["gap"])
    columns = {
        "rank": np.full(run.steps, row),
        "attempt": np.zeros(run.steps, np.int64),
        "step": np.arange(run.steps),
        "start": end - time,
        "end": end,
        **{part: mine[part] for part in ("data", "forward", "backward", "optimizer")},
        "device": np.rint(device[row] * 1e9).astype(np.int64),
        **{name: values[row].astype(np.int64) for name, values in memory.items()},
        "samples": np.full(run.steps, 32),
    }
    frame = pl.DataFrame(columns)
    if not run.device:
        frame = frame.with_columns(pl.lit(None).alias(name) for name in ("device", "memory_used", "memory_reserved"))
    return STEPS.conform(frame)


def _marks(frames: list[pl.DataFrame], marks: list[tuple[int, str, str | None, int, float]]) -> pl.DataFrame:
    rows = []
    for row, kind, detail, step, time in marks:
        end = int(frames[row]["end"][step]) - 1
        rows.append((row, 0, kind, detail, step, end - round(time * 1e9), end))
    return MARKS.frame(rows).sort("rank", "start", maintain_order=True)
