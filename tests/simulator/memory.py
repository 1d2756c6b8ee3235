"""Memory snapshots of a simulated job's ranks: the allocator of `tests.snapshots` on the clock of each rank's host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.simulator.clocks import clocks
from tests.simulator.machine import Host
from tests.simulator.model import Model
from tests.simulator.training import train
from tests.snapshots.process import Process
from tests.snapshots.training import Model as Sizes
from tests.snapshots.training import Training
from tests.snapshots.writing import write

_SIZES = Sizes(layers=1, width=256, batch=1, tokens=64, vocabulary=1000)

Plant = Callable[[Process, int], object]
"""Called after each step with the process and the number of steps before it."""


def snapshots(model: Model, folder: Path, plants: Mapping[int, Plant]) -> None:
    """Write a snapshot of each rank beside its trace; what `plants` has for a rank is done after each of its steps.

    The same model's `simulate` writes the traces: the loop is run anew, and its steps begin at the same times.
    """
    records = train(model).records
    steps = [each for each in records if isinstance(each, Host) and each.name.startswith("ProfilerStep#")]
    clock = clocks(model)
    for rank in range(model.ranks):
        starts = [int(clock.read(each.ranks, each.start)[each.ranks == rank][0]) // 1000 for each in steps]
        process = Process(stacks="python", now=starts[0] - 10_000)
        process.record()
        training = Training(process, _SIZES)
        if rank in plants:
            training.after_step = _on(process, plants[rank])
        training.build()
        for start in starts:
            process.now = start
            training.train_step()
        write(folder / f"snapshot_{rank}.pickle", process.snapshot())


def _on(process: Process, plant: Plant) -> Callable[[int], object]:
    return lambda step: plant(process, step)
