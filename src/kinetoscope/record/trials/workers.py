"""Workers load the batches, beside the training."""

from __future__ import annotations

import functools
import io
import multiprocessing
import threading
from collections.abc import Iterator
from typing import Any, Final

from kinetoscope.record.trials.constructors import LOADER, choose_arguments
from kinetoscope.record.trials.trial import Change, Edit, Trial

_MAX_WORKERS: Final = 8
"""Workers that are tried at most: memory and disks are shared."""

_MIN_WORKERS: Final = 2
"""Workers that are tried at least: one alone does what the process did, and is waited for."""

_PREFETCH: Final = 4
_LOCKS: Final = (type(threading.Lock()), type(threading.RLock()), threading.Condition, threading.Event)


def put_in(change: Change) -> None:
    """Give loaders without workers, or with fewer than there are cores for, workers that stay from epoch to epoch."""
    from torch.utils import data

    workers = change.facts["workers"] = min(max(change.cores - 1, _MIN_WORKERS), _MAX_WORKERS)
    started = [0]

    def choose(_: Any, given: dict[str, Any]) -> dict[str, Any] | str:
        if why := _unfit(given, workers):
            return why
        prefetch = given.get("prefetch_factor") or _PREFETCH
        return {"num_workers": workers, "persistent_workers": True, "prefetch_factor": prefetch}

    choose_arguments(change, data.DataLoader, choose)
    if not change.acts:
        return
    iterator = data.dataloader._MultiProcessingDataLoaderIter
    begin = iterator.__init__

    @functools.wraps(begin)
    def begun(self: Any, *args: Any, **kwargs: Any) -> None:
        started[0] += 1
        begin(self, *args, **kwargs)

    iterator.__init__ = begun
    change.checks(lambda: "" if started[0] else "no loader with workers was iterated")


def _unfit(given: dict[str, Any], workers: int) -> str:
    """Why a loader must not get workers; "" if it may."""
    from torch.utils.data import IterableDataset, get_worker_info

    if get_worker_info() is not None or multiprocessing.current_process().daemon:
        return "the loader is made in a worker"
    if (has := given.get("num_workers", 0)) >= workers:
        return f"the loader has {has} worker{'s' * (has != 1)} already"
    if isinstance(given.get("dataset"), IterableDataset):
        return "an iterable data set may repeat its data in each worker"
    return next(filter(None, map(_unshareable, _parts(given.get("dataset")))), "")


def _parts(dataset: Any, depth: int = 3) -> Iterator[Any]:
    """All that a data set holds itself, and that data sets in it hold."""
    for each in list(getattr(dataset, "__dict__", {}).values()):
        yield each
        inner = each if isinstance(each, (list, tuple)) and len(each) < 100 else (each,)
        for part in inner:
            if depth and hasattr(part, "__getitem__") and hasattr(part, "__dict__"):
                yield from _parts(part, depth - 1)


def _unshareable(value: Any) -> str:
    import torch

    if isinstance(value, io.IOBase):
        return "the data set holds an open file, of which all workers would move the position"
    if isinstance(value, _LOCKS):
        return "the data set holds a lock, which each worker would have for itself"
    if isinstance(value, torch.Tensor) and value.device.type != "cpu":
        return "the data set holds tensors of a device, which workers cannot share"
    return ""


TRIAL = Trial(
    name="workers",
    title="load batches in workers",
    answers=("DATA001", "DATA002"),
    put_in=put_in,
    effect="none",
    edit=Edit(
        calls=("DataLoader",),
        keywords={"num_workers": "{workers}", "persistent_workers": "True", "prefetch_factor": str(_PREFETCH)},
        positional=LOADER,
        text="give the DataLoader num_workers={workers}, persistent_workers=True, prefetch_factor=4",
    ),
    partners=("threads",),
)
