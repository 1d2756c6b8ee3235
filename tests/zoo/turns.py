"""Runs a program and its twin in turns, and says how long each step took; nothing is recorded.

    python tests/zoo/turns.py FILE RUNS PROGRAM

RUNS are the arguments of each run, as JSON: `[[], ["--fixed"]]`. FILE gets a list of times for each, ns. A run is a
fork of this process, which has done the program's imports: those of frameworks take more time than the program.

A step goes from one step of the first optimizer to its next, less the time in which other processes had the core.
Without an optimizer it is what is between two calls of the model, by the samples of a call.
"""

from __future__ import annotations

import ast
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any, Final

_SCHEDULED: Final = Path("/proc/thread-self/schedstat")
_ATTEMPTS: Final = 100


def main() -> None:
    """Run it as often as the command line says."""
    file, runs, program = sys.argv[1:]
    sys.path[0] = str(Path(program).parent)
    tree = ast.parse(Path(program).read_text("utf-8"))
    imports: list[ast.stmt] = [each for each in tree.body if isinstance(each, ast.Import | ast.ImportFrom)]
    exec(compile(ast.Module(imports, []), program, "exec"), {})  # noqa: S102 - our own programs
    times = [_in_a_fork(tree, [program, *arguments]) for arguments in json.loads(runs)]
    if os.environ.get("RANK", "0") == "0":
        Path(file).write_text(json.dumps(times))


def _in_a_fork(tree: ast.Module, words: list[str]) -> list[float]:
    """How long each step took; [] of a program that failed."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(tree, words, theirs))
    process.start()
    theirs.close()
    try:
        times: list[float] = ours.recv()
    except EOFError:
        return []
    finally:
        process.join()
    return times


def _run(tree: ast.Module, words: list[str], told: Connection) -> None:
    sys.argv = words
    module = sys.modules["__main__"] = ModuleType("__main__")
    module.__file__ = words[0]
    times = _watched()
    exec(compile(tree, words[0], "exec"), vars(module))  # noqa: S102 - our own programs
    told.send(times())


def _watched() -> Callable[[], list[float]]:
    """Whatever steps from now on; called, it says how long each step took."""
    from torch.nn.modules.module import register_module_forward_hook
    from torch.optim.optimizer import register_optimizer_step_post_hook

    steps, calls = _Ends(), _Ends()

    def returned(module: Any, *_: Any) -> None:
        every.remove()  # the module that returns first is called once in each call of the model
        module.register_forward_hook(lambda same, given, _: calls.note(same, _samples(given)))

    every = register_module_forward_hook(returned)
    register_optimizer_step_post_hook(lambda optimizer, *_: steps.note(optimizer))
    return lambda: steps.durations() or calls.durations()


def _samples(given: tuple[Any, ...]) -> int:
    """How many a call gets, if it is asked for a tensor."""
    shape = getattr(given[0], "shape", ()) if given else ()
    return int(shape[0]) if shape else 1


class _Ends:
    """When the first thing of its kind ended, each time."""

    def __init__(self) -> None:
        self._first, self._ends = 0, list[tuple[int, int]]()

    def note(self, thing: Any, samples: int = 1) -> None:
        self._first = self._first or id(thing)
        if id(thing) == self._first:
            self._ends.append((_clock(), samples))

    def durations(self) -> list[float]:
        """From one end to the next, by the samples of the latter, ns."""
        return [(end - begin) / samples for (begin, _), (end, samples) in pairwise(self._ends)]


def _clock() -> int:
    """ns that pass while this thread runs or waits for something, but not while it only lacks a core."""
    waited = now = 0
    for _ in range(_ATTEMPTS):  # both are of the same moment, if no other process came between
        waited, now = _lacked(), time.perf_counter_ns()
        if _lacked() == waited:
            break
    return now - waited


def _lacked() -> int:
    """ns in which this thread could have run, and another had the core; 0 where no Linux counts them."""
    try:
        return int(_SCHEDULED.read_text().split()[1])
    except OSError:
        return 0


if __name__ == "__main__":
    main()
