"""Twins of a program, or several programs, in one process and in turns: what disturbs one disturbs the other."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import torch

from kinetoscope import profile

_WRITING_S: Final = 60.0
"""Seconds that a trace is waited for."""

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


def together(
    module: Module, folder: Path, rounds: int, steps: int, *, device: str = "cpu", recordings: int = RECORDINGS
) -> Measured:
    """Both twins in turns, as `in_turns` measures them."""
    programs = {twin: partial(module.program, twin == "fixed") for twin in TWINS}
    told = {"code": module.CODE, "name": module.NAME, "timed": getattr(module, "TIMED", True)}
    given: dict[str, Any] = {"stacks": module.STACKS, "device": device, "recordings": recordings}
    return {**told, **in_turns(programs, folder, rounds, steps or module.STEPS, **given)}


def in_turns(
    programs: Mapping[str, Callable[[], AbstractContextManager[Step]]],
    folder: Path,
    rounds: int,
    steps: int,
    *,
    stacks: bool = False,
    device: str = "cpu",
    wait: Step | None = None,
    warm: int = _WARM,
    recordings: int = RECORDINGS,
) -> Measured:
    """Mean step of each program and round, without a profiler and with one, ns; and a trace of the best recording.

    Args:
        programs: by name; entered once each, and all of them live at the same time.
        folder: for the traces, in a folder of each program's name.
        rounds, steps: how often, and steps of each time.
        stacks: record Python's calls.
        device: of torch: what a program makes before its first step is made there.
        wait: until the programs have nothing to do; by default for this device.
        warm: steps at the head of each round that do not count.
        recordings: of each program.
    """
    torch.set_num_threads(1)
    torch.manual_seed(0)
    wait = wait or waiting(device)
    plain: dict[str, list[float]] = {name: [] for name in programs}
    recorded: dict[str, list[float]] = {name: [] for name in programs}
    step: dict[str, Step] = {}
    with ExitStack() as stack:
        for name, program in programs.items():
            # No step runs while a device is set: each call of torch goes through Python then, and optimizers keep on
            # the device what belongs on the host.
            with nullcontext() if device == "cpu" else torch.device(device):
                step[name] = stack.enter_context(program())
        for _ in range(rounds):
            for name, act in step.items():
                plain[name].append(mean(act, steps, wait=wait, warm=warm))
        for turn in range(recordings):
            for name, act in step.items():
                into = folder / f"{name}-{turn}"
                recorded[name].append(record(act, steps, into, stacks=stacks, wait=wait, warm=warm))
    for name, times in recorded.items():
        keep(folder, name, times)
    return {"plain": plain, "recorded": recorded}


def waiting(device: str) -> Callable[[], object]:
    """A function that waits until a device has nothing to do."""
    return (lambda: None) if device == "cpu" else getattr(torch, torch.device(device).type).synchronize


def mean(step: Step, count: int, *, wait: Step = lambda: None, warm: int = _WARM) -> float:
    """Mean time of a step, ns."""
    for _ in range(warm):
        step()
    wait()
    start = time.perf_counter_ns()
    for _ in range(count):
        step()
    wait()
    return (time.perf_counter_ns() - start) / count


def record(
    step: Step,
    count: int,
    folder: Path,
    *,
    stacks: bool = False,
    rank: int = 0,
    wait: Step = lambda: None,
    warm: int = _WARM,
) -> float:
    """The same with a profiler, whose trace goes into the folder; infinite where none comes."""
    folder.mkdir(parents=True, exist_ok=True)
    # private to torch, but the only way to see the garbage collector
    more = torch._C._profiler._ExperimentalConfig(record_python_gc_info=True) if stacks else None
    given: dict[str, Any] = {"with_stack": stacks, "experimental_config": more}
    with profile(str(folder), wait=0, warmup=warm, active=count, **given) as prof:
        for number in range(warm + count):
            if number == warm:
                wait()
                start = time.perf_counter_ns()
            step()
            if number == warm + count - 1:
                wait()
                took = time.perf_counter_ns() - start
            prof.step()
    end = time.monotonic() + _WRITING_S
    while not list(folder.glob(f"*.rank{rank}of*.pt.trace.json.gz")):  # compressed beside the program, which it slows
        if time.monotonic() > end:
            return math.inf
        time.sleep(0.05)
    return took / count


def keep(folder: Path, twin: str, times: list[float]) -> None:
    """Of the recordings of a twin only the one that was least disturbed, as `folder/twin`."""
    best = times.index(min(times))
    (folder / f"{twin}-{best}").rename(folder / twin)
    for turn in range(len(times)):
        shutil.rmtree(folder / f"{twin}-{turn}", ignore_errors=True)
