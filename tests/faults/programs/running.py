"""Both twins of a program in one process, in turns, so that what disturbs one disturbs the other."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, Final, Protocol

import torch

from kinetoscope import profile

Step = Callable[[], object]
Measured = dict[str, Any]

TWINS: Final = ("faulty", "fixed")
_WARM: Final = 4
"""Steps at the head of a round that do not count: a loader's workers have been waiting."""


class Module(Protocol):
    """What a program's module has."""

    CODE: str
    NAME: str
    STEPS: int
    STACKS: bool

    def program(self, fixed: bool) -> AbstractContextManager[Step]:
        """A function for one step."""


def together(module: Module, folder: Path, rounds: int, steps: int) -> Measured:
    """Median step of each twin and round, without a profiler and with one, ns; and the traces."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    steps = steps or module.STEPS
    plain: dict[str, list[float]] = {twin: [] for twin in TWINS}
    recorded: dict[str, list[float]] = {twin: [] for twin in TWINS}
    with ExitStack() as stack:
        step = {twin: stack.enter_context(module.program(twin == "fixed")) for twin in TWINS}
        for _ in range(rounds):
            for twin in TWINS:
                plain[twin].append(mean(step[twin], steps))
        for turn in range(2):
            for twin in TWINS:
                place = folder / twin if turn else folder / "before" / twin
                recorded[twin].append(record(step[twin], steps, place, stacks=module.STACKS))
    return {"code": module.CODE, "name": module.NAME, "plain": plain, "recorded": recorded}


def mean(step: Step, count: int) -> float:
    """Mean time of a step, ns, without the slowest and the fastest tenth, which somebody else disturbed."""
    for _ in range(_WARM):
        step()
    times = []
    for _ in range(count):
        start = time.perf_counter_ns()
        step()
        times.append(time.perf_counter_ns() - start)
    return trimmed(times)


def trimmed(times: list[int]) -> float:
    """The mean without the tenth at either end."""
    cut = len(times) // 10
    return statistics.fmean(sorted(times)[cut : len(times) - cut])


def record(step: Step, count: int, folder: Path, *, stacks: bool = False) -> float:
    """The same with a profiler, whose trace goes into the folder."""
    times = []
    folder.mkdir(parents=True, exist_ok=True)
    with profile(str(folder), wait=0, warmup=_WARM, active=count, with_stack=stacks) as prof:
        for number in range(_WARM + count):
            start = time.perf_counter_ns()
            step()
            if number >= _WARM:
                times.append(time.perf_counter_ns() - start)
            prof.step()
    return trimmed(times[:-1] or times)
