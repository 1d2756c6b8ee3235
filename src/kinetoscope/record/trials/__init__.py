"""The trials: one module each, one line each here.

A module has `TRIAL`, a `Trial`: which finding it answers, what it changes in the process, how the change is kept.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Final

from kinetoscope.record.trials.trial import Trial

NAMES: Final = ("workers",)
"""All trials, in the order in which they are listed."""


def ours() -> tuple[Trial, ...]:
    """Our trials."""
    return tuple(importlib.import_module(f"{__name__}.{name}").TRIAL for name in NAMES)


def by_name(extensions: Sequence[str] = ()) -> dict[str, Trial]:
    """All trials by their names."""
    return {trial.name: trial for trial in ours()}
