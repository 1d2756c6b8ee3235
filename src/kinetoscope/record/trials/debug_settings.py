"""Settings that are for finding errors, and were left on, are off."""

from __future__ import annotations

import os
from typing import Final

from kinetoscope.record.trials.trial import Change, Edit, Trial

_OFF_VALUES: Final = {
    "CUDA_LAUNCH_BLOCKING": ("", "0"),
    "HIP_LAUNCH_BLOCKING": ("", "0"),
    "AMD_SERIALIZE_KERNEL": ("", "0"),
    "AMD_SERIALIZE_COPY": ("", "0"),
    "TORCH_DISTRIBUTED_DEBUG": ("", "OFF"),
    "TORCH_NCCL_BLOCKING_WAIT": ("", "0"),
    "PYTORCH_NO_CUDA_MEMORY_CACHING": ("",),
}
"""Variables, and values with which they are off. Each library reads them after torch was imported, but those that the
program sets later come too late for this change."""


def put_in(change: Change) -> None:
    """Take those that are on out of the environment, before anything has read them."""
    on = [name for name in _OFF_VALUES if _is_on(name)]
    change.facts["variables"] = ", ".join(on)
    for name in on:
        if change.applies(place=False):
            del os.environ[name]
    if change.acts and "TORCH_DISTRIBUTED_DEBUG" in on:
        from torch import distributed

        if distributed.is_available():
            distributed.set_debug_level_from_env()
    change.at_first_step(lambda: _come_later(change, on))


def _come_later(change: Change, before: list[str]) -> None:
    """Tell of those that the program has set itself."""
    for name in _OFF_VALUES:
        if _is_on(name) and (change.acts or name not in before):
            change.refuses(f"the program sets {name} itself, after it has imported torch")


def _is_on(name: str) -> bool:
    return os.environ.get(name, "").upper() not in _OFF_VALUES[name]


TRIAL = Trial(
    name="debug",
    title="leave settings for debugging off",
    answers=("HOST009",),
    put_in=put_in,
    effect="none",
    edit=Edit(text="start the program without {variables} in its environment"),
    unasked=True,
)
