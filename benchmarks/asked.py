"""The measurements that a command line names, or all: `python -m benchmarks.MODULE [NAME...] [N]`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping


def run(measures: Mapping[str, Callable[[int], Iterable[str]]], times: Mapping[str, int]) -> None:
    """Print the lines of each, as they come.

    Args:
        measures: by name, what gives lines when it is told how often to measure.
        times: by name, how often where the command line has no number.
    """
    words = sys.argv[1:]
    asked = next((int(word) for word in words if word.isdecimal()), 0)
    for name in [word for word in words if word in measures] or measures:
        print(f"-- {name}")
        for line in measures[name](asked or times[name]):
            print(line, flush=True)
