"""Both twins of a program in one process, in turns, so that what disturbs one disturbs the other."""

from __future__ import annotations

import shutil
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
RECORDINGS: Final = 3
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
    """Mean step of each twin and round, without a profiler and with one, ns; and a trace of the best recording."""
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
        for turn in range(RECORDINGS):
            for twin in TWINS:
                recorded[twin].append(record(step[twin], steps, folder / f"{twin}-{turn}", stacks=module.STACKS))
    for twin in TWINS:
        keep(folder, twin, recorded[twin])
    told = {"code": module.CODE, "name": module.NAME, "timed": getattr(module, "TIMED", True)}
    return {**told, "plain": plain, "recorded": recorded}


def mean(step: Step, count: int) -> float:
    """Mean time of a step, ns."""
    for _ in range(_WARM):
        step()
    start = time.perf_counter_ns()
    for _ in range(count):
        step()
    return (time.perf_counter_ns() - start) / count


def record(step: Step, count: int, folder: Path, *, stacks: bool = False, rank: int = 0) -> float:
    """The same with a profiler, whose trace goes into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    # private to torch, but the only way to see the garbage collector
    more = torch._C._profiler._ExperimentalConfig(record_python_gc_info=True) if stacks else None
    given: dict[str, Any] = {"with_stack": stacks, "experimental_config": more}
    with profile(str(folder), wait=0, warmup=_WARM, active=count, **given) as prof:
        for number in range(_WARM + count):
            if number == _WARM:
                start = time.perf_counter_ns()
            step()
            if number == _WARM + count - 1:
                took = time.perf_counter_ns() - start
            prof.step()
    while not list(folder.glob(f"*.rank{rank}of*.pt.trace.json.gz")):  # compressed beside the program, which it slows
        time.sleep(0.05)
    return took / count


def keep(folder: Path, twin: str, times: list[float]) -> None:
    """Of the recordings of a twin only the one that was least disturbed, as `folder/twin`."""
    best = times.index(min(times))
    (folder / f"{twin}-{best}").rename(folder / twin)
    for turn in range(len(times)):
        shutil.rmtree(folder / f"{twin}-{turn}", ignore_errors=True)
