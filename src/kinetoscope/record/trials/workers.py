"""Workers load the batches, beside the training."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Final

from kinetoscope.record.trials.trial import Change, Edit, Trial

_MOST: Final = 8
"""Workers that are tried at most: memory and disks are shared."""

_PREFETCH: Final = 4


def put_in(change: Change) -> None:
    """Give loaders without workers, or with fewer than there are cores for, workers that stay from epoch to epoch."""
    from torch.utils import data

    workers = change.facts["workers"] = min(max(change.cores - 1, 1), _MOST)
    original = data.DataLoader.__init__
    signature = inspect.signature(original)
    started = [0]

    @functools.wraps(original)
    def make(self: Any, *args: Any, **kwargs: Any) -> None:
        given = signature.bind(self, *args, **kwargs).arguments
        if why := _unfit(given, workers):
            change.refuses(why)
        elif change.applies():
            kwargs = {name: value for name, value in given.items() if name != "self"}
            kwargs |= {"num_workers": workers, "persistent_workers": True}
            kwargs.setdefault("prefetch_factor", _PREFETCH)
            args = ()
        original(self, *args, **kwargs)

    data.DataLoader.__init__ = make  # type: ignore[method-assign]
    iterator = data.dataloader._MultiProcessingDataLoaderIter
    begin = iterator.__init__

    @functools.wraps(begin)
    def begun(self: Any, *args: Any, **kwargs: Any) -> None:
        started[0] += 1
        begin(self, *args, **kwargs)

    iterator.__init__ = begun  # type: ignore[method-assign]
    change.checks(lambda: "" if started[0] else "no loader with workers was iterated")


def _unfit(given: dict[str, Any], workers: int) -> str:
    """Why a loader must not get workers; "" if it may."""
    from torch.utils.data import IterableDataset, get_worker_info

    if get_worker_info() is not None:
        return "the loader is made in a worker"
    if given.get("num_workers", 0) >= workers:
        return f"the loader has {given['num_workers']} workers already"
    if isinstance(given.get("dataset"), IterableDataset):
        return "an iterable data set may repeat its data in each worker"
    return ""


TRIAL = Trial(
    name="workers",
    title="load batches in workers",
    answers=("DATA001", "DATA002"),
    put_in=put_in,
    effect="none",
    edit=Edit(keywords={"num_workers": "{workers}", "persistent_workers": "True", "prefetch_factor": str(_PREFETCH)}),
    beside=("threads",),
)
