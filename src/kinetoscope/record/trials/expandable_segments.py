"""Segments of the device's allocator grow, so that memory between blocks is not lost."""

from __future__ import annotations

import os
from typing import Any, Final

from kinetoscope.record.trials.trial import NO_DEVICE, Change, Edit, Trial, uses_device

_SETTING: Final = "expandable_segments:True"
_OLD, _NEW = "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"


def put_in(change: Change) -> None:
    """Add the setting to those of the user, before the first block is allocated."""
    import torch

    variable = _variable(str(torch.__version__))
    settings = os.environ.get(variable, "") or os.environ.get(_OLD, "")
    change.facts |= {"variable": variable, "settings": ",".join(filter(None, (settings, _SETTING)))}
    if "expandable_segments" in settings:
        change.refuses("the user has chosen how segments grow")
        return
    if "backend:cudaMallocAsync" in settings:
        change.refuses("the driver's allocator is used")
        return
    if change.acts and not _set(change.facts["settings"]):
        change.refuses("this torch has no such setting")
        return
    change.at_first_step(lambda: _look(change))
    change.checks(lambda: "" if _grows() else "no segment grows")


def _variable(version: str) -> str:
    """The variable of the allocator's settings: renamed in torch 2.9."""
    major, minor = (int(part) for part in version.split(".")[:2])
    return _NEW if (major, minor) >= (2, 9) else _OLD


def _set(settings: str) -> bool:
    import torch

    names = "_accelerator_setAllocatorSettings", "_cuda_cudaCachingAllocator_set_allocator_settings"
    setter: Any = next((each for name in names if (each := getattr(torch._C, name, None))), None)
    if setter is None or not torch.backends.cuda.is_built():
        return False
    setter(settings)
    return True


def _look(change: Change) -> None:
    if uses_device():
        change.applies(place=False)
    else:
        change.refuses(NO_DEVICE)


def _grows() -> bool:
    import torch

    return any(segment.get("is_expandable") for segment in torch.cuda.memory_snapshot())


TRIAL = Trial(
    name="expandable-segments",
    title="let segments of the allocator grow",
    answers=("MEMORY002", "MEMORY003", "MEMORY004", "MEMORY009"),
    put_in=put_in,
    effect="none",
    edit=Edit(environment={"{variable}": "{settings}"}),
    needs="device",
)
