"""Batches are loaded into pinned memory, and copied to the device while the program goes on."""

from __future__ import annotations

import functools
from typing import Any

from kinetoscope.record.trials.constructors import LOADER, choose_arguments
from kinetoscope.record.trials.trial import NO_DEVICE, Change, Edit, Trial, uses_device


def put_in(change: Change) -> None:
    """Have loaders pin their batches, and copies from pinned memory not wait."""
    import torch
    from torch.utils import data

    copies = [0]

    def choose(_: Any, given: dict[str, Any]) -> dict[str, Any] | str:
        return "the loader pins its batches already" if given.get("pin_memory") else {"pin_memory": True}

    def look() -> None:
        if not uses_device():
            change.refuses(NO_DEVICE)
            change.count = 0

    choose_arguments(change, data.DataLoader, choose)
    change.at_first_step(look)
    if change.acts:
        _wrap(change, torch.Tensor, "to", copies)
        _wrap(change, torch.Tensor, "cuda", copies)
        change.checks(lambda: "" if copies[0] else "nothing was copied to the device from pinned memory")


def _wrap(change: Change, tensor: Any, name: str, copies: list[int]) -> None:
    original = getattr(tensor, name)

    @functools.wraps(original)
    def copy(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.device.type != "cpu" or not _goes_to_device(name, args, kwargs) or not self.is_pinned():
            return original(self, *args, **kwargs)
        copies[0] += 1
        if "non_blocking" in kwargs or any(isinstance(each, bool) for each in args):
            return original(self, *args, **kwargs)
        change.applies()
        return original(self, *args, **kwargs, non_blocking=True)

    setattr(tensor, name, copy)


def _goes_to_device(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Does a call of `to` or `cuda` copy to a device?"""
    import torch

    if name == "cuda":
        return True
    target = kwargs.get("device", kwargs.get("other", args[0] if args else None))
    if isinstance(target, torch.Tensor):
        target = target.device
    if isinstance(target, torch.device):
        return bool(target.type == "cuda")
    return isinstance(target, int) or (isinstance(target, str) and target.startswith("cuda"))


TRIAL = Trial(
    name="pinned",
    title="load into pinned memory and copy without waiting",
    answers=("DATA005", "DATA007"),
    put_in=put_in,
    effect="none",
    edit=Edit(
        calls=("DataLoader",),
        keywords={"pin_memory": "True"},
        keywords_of={"to": {"non_blocking": "True"}, "cuda": {"non_blocking": "True"}},
        positional=LOADER,
        text="give the DataLoader pin_memory=True, and copies to the device non_blocking=True",
    ),
    needs="device",
    partners=("workers",),
)
