"""Operators compute on as many threads as there are cores, less those of the workers that load batches."""

from __future__ import annotations

import functools
import multiprocessing
from typing import Any

from kinetoscope.record.trials.trial import Change, Edit, Trial


def put_in(change: Change) -> None:
    """Take threads away beyond the cores; once workers run, beyond the cores that they leave.

    Threads that wait for each other spin, and starve the workers: with two of each on two cores, all of it takes longer
    than with one thread. So it is looked at anew when the first step has ended, and counted where workers would make it
    matter: alone it may change nothing then.
    """
    import torch

    original = torch.set_num_threads
    chosen = change.facts
    chosen["threads"] = change.cores

    @functools.wraps(original)
    def set_num_threads(count: int) -> None:
        if count > chosen["threads"] and change.applies():
            count = chosen["threads"]
        original(count)

    def look() -> None:
        chosen["threads"] = max(change.cores - (len(multiprocessing.active_children()) or loaders[0]), 1)
        if torch.get_num_threads() > chosen["threads"]:
            if change.applies(place=False):
                original(chosen["threads"])
        elif not change.count:
            change.refuses(f"operators run on {torch.get_num_threads()} of {change.cores} cores already")

    torch.set_num_threads = set_num_threads
    if torch.get_num_threads() > change.cores and change.applies(place=False):
        original(change.cores)
    loaders = [0]
    if not change.acts:
        _look_for_loaders(loaders)
    change.at_first_step(look)
    change.checks(lambda: "" if torch.get_num_threads() <= chosen["threads"] else "the program has set more threads")


def _look_for_loaders(loaders: list[int]) -> None:
    """In a run that only looks, the number is 1 once a loader without workers was made: it may get one."""
    from torch.utils import data

    original = data.DataLoader.__iter__

    @functools.wraps(original)
    def begin(self: Any) -> Any:
        loaders[0] = 1
        return original(self)

    data.DataLoader.__iter__ = begin


TRIAL = Trial(
    name="threads",
    title="compute on no more threads than there are cores for",
    answers=("HOST016",),
    put_in=put_in,
    effect="rounding",
    edit=Edit(
        calls=("set_num_threads",),
        keywords={"int": "{threads}"},
        positional=("int",),
        lines=("import torch", "torch.set_num_threads({threads})"),
    ),
)
