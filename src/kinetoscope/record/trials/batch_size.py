"""Batches are twice as large: another training, of which samples in a second count."""

from __future__ import annotations

from typing import Any

from kinetoscope.record.trials.constructors import LOADER, choose_arguments
from kinetoscope.record.trials.trial import Change, Edit, Trial


def put_in(change: Change) -> None:
    """Have loaders make batches of twice the size."""
    from torch.utils import data

    doubled: set[tuple[int, int]] = set()

    def choose(_: Any, given: dict[str, Any]) -> dict[str, Any] | str:
        size, dataset = given.get("batch_size", 1), given.get("dataset")
        if (id(dataset), size) in doubled:
            return ""  # a framework makes a loader anew, of what we have given to it
        if why := _unfit(given, size):
            return why
        doubled.add((id(dataset), 2 * size))
        change.facts["batch_size"] = 2 * size
        return {"batch_size": 2 * size}

    choose_arguments(change, data.DataLoader, choose)


def _unfit(given: dict[str, Any], size: Any) -> str:
    if given.get("batch_sampler") is not None:
        return "a sampler of the program makes the batches"
    if size is None:
        return "the data set makes the batches"
    length = getattr(type(given.get("dataset")), "__len__", None)
    if length is not None and length(given["dataset"]) < 2 * size:
        return "the data set holds less than such a batch"
    return ""


TRIAL = Trial(
    name="batch-size",
    title="train with batches of twice the size",
    answers=("MEMORY001", "DEVICE003", "HOST001"),
    put_in=put_in,
    effect="training",
    edit=Edit(
        calls=("DataLoader",),
        keywords={"batch_size": "2 * {was}"},
        positional=LOADER,
        text="give the DataLoader twice its batch_size",
    ),
    allow="batch-size",
)
