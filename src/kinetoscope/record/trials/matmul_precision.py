"""Products of FP32 matrices are computed in TF32."""

from __future__ import annotations

import functools
from typing import Any, Final

from kinetoscope.record.trials.trial import NO_DEVICE, Change, Edit, Trial, uses_device

_ITS_OWN: Final = "the program sets the precision of products itself"


def put_in(change: Change) -> None:
    """Set the precision of products, unless the program sets it itself."""
    import torch

    original = torch.set_float32_matmul_precision
    if change.acts:
        original("high")

    @functools.wraps(original)
    def set_precision(*args: Any, **kwargs: Any) -> None:
        change.refuses(_ITS_OWN)
        original(*args, **kwargs)

    torch.set_float32_matmul_precision = set_precision
    change.at_first_step(lambda: _look(change))
    change.checks(lambda: "" if _precision() == "high" else _ITS_OWN)


def _look(change: Change) -> None:
    if not uses_device():
        change.refuses(NO_DEVICE)
    elif _precision() == ("high" if change.acts else "highest"):
        change.applies(place=False)
    else:
        change.refuses(_ITS_OWN)


def _precision() -> str:
    """The precision of products; "" where the newer settings say it, which must not be mixed with the older."""
    import torch

    try:
        return str(torch.get_float32_matmul_precision())
    except RuntimeError:
        return ""


TRIAL = Trial(
    name="tf32",
    title="compute products of FP32 in TF32",
    answers=("DEVICE001",),
    put_in=put_in,
    effect="rounding",
    edit=Edit(lines=("import torch", 'torch.set_float32_matmul_precision("high")')),
    needs="device",
    loss_within=5e-3,
)
