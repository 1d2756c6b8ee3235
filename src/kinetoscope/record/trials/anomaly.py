"""Autograd's detection of anomalies is off."""

from __future__ import annotations

import functools
from typing import Any

from kinetoscope.record.trials.trial import Change, Edit, Trial


def put_in(change: Change) -> None:
    """Have no code of the program switch it on; all ways to do so end in `torch.set_anomaly_enabled`."""
    import torch

    original = torch.set_anomaly_enabled

    @functools.wraps(original)
    def set_anomaly_enabled(mode: bool, *args: Any, **kwargs: Any) -> None:
        original(mode and not change.applies(), *args, **kwargs)

    torch.set_anomaly_enabled = set_anomaly_enabled
    change.checks(lambda: "it was on at the end" if torch.is_anomaly_enabled() else "")


TRIAL = Trial(
    name="anomaly",
    title="leave the detection of anomalies off",
    answers=("HOST011",),
    put_in=put_in,
    effect="none",
    edit=Edit(
        calls=("set_detect_anomaly", "detect_anomaly", "set_anomaly_enabled"),
        removes=True,
        instead="torch.autograd.set_detect_anomaly(False)",
        text="leave out set_detect_anomaly and detect_anomaly",
    ),
    unasked=True,
)
