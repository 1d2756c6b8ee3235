"""The inside of a process that `run` measures: one benchmark, or what has to be done before it."""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module
from typing import Any


def prepare(owner: Any, method: str, case: str) -> None:
    """Makes the files, and runs once, so that nothing is compiled in what is measured."""
    owner.prepare(case)
    owner.setup(case)
    getattr(owner, method)()


def samples(owner: Any, method: str, case: str, repeat: int) -> list[float]:
    """Seconds of each run; one more comes first, which loads compiled code and counts for nothing."""
    seconds = []
    for _ in range(repeat + 1):
        owner.setup(case)
        began = time.perf_counter()
        getattr(owner, method)()
        seconds.append(time.perf_counter() - began)
    return seconds[1:]


def main(module: str, owner: str, method: str, case: str, task: str, repeat: str) -> None:
    benchmark = getattr(import_module(module), owner)()
    if task == "prepare":
        prepare(benchmark, method, case)
    elif task == "time":
        size = benchmark.size(case) if hasattr(benchmark, "size") else 0
        print(json.dumps({"seconds": samples(benchmark, method, case, int(repeat)), "size": size}))
    else:
        benchmark.setup(case)
        getattr(benchmark, method)()


if __name__ == "__main__":
    main(*sys.argv[1:])
