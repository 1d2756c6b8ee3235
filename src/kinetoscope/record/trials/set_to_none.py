"""Gradients are dropped between steps, instead of being set to zero."""

from __future__ import annotations

import functools
from typing import Any

from kinetoscope.record.trials.trial import Change, Edit, Trial


def put_in(change: Change) -> None:
    """Have `zero_grad(set_to_none=False)`, of optimizers and modules, drop the gradients."""
    import torch

    _wrap(change, torch.optim.Optimizer)
    _wrap(change, torch.nn.Module)


def _wrap(change: Change, kind: Any) -> None:
    original = kind.zero_grad

    @functools.wraps(original)
    def zero_grad(self: Any, set_to_none: bool = True) -> Any:
        return original(self, set_to_none or change.applies())

    kind.zero_grad = zero_grad


TRIAL = Trial(
    name="set-to-none",
    title="drop gradients instead of setting them to zero",
    answers=("HOST005",),
    put_in=put_in,
    effect="none",
    edit=Edit(
        calls=("zero_grad",),
        keywords={"set_to_none": "True"},
        positional=("set_to_none",),
        text="call zero_grad() without set_to_none=False",
    ),
    unasked=True,
)
