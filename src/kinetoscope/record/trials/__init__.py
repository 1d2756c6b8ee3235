"""The trials: one module each, one line each here.

A module has `TRIAL`, a `Trial`: which finding it answers, what it changes in the process, how the change is kept.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Final

from kinetoscope.errors import InputError
from kinetoscope.extensions import declared, extend
from kinetoscope.record.trials.trial import Trial

NAMES: Final = (
    "anomaly",
    "debug_settings",
    "workers",
    "persistent_workers",
    "threads",
    "pinned_memory",
    "fused_optimizer",
    "set_to_none",
    "compile",
    "sixteen_bits",
    "matmul_precision",
    "channels_last",
    "convolution_search",
    "no_gradients",
    "garbage_collection",
    "expandable_segments",
    "bucket_views",
    "bucket_size",
    "static_graph",
    "batch_size",
)
"""The modules of all trials, in the order in which they are listed."""


def ours() -> tuple[Trial, ...]:
    """Our trials."""
    return tuple(importlib.import_module(f"{__name__}.{name}").TRIAL for name in NAMES)


def by_name(extensions: Sequence[str] = (), *, wanted: Sequence[str] | None = None) -> dict[str, Trial]:
    """All trials by their names: ours, and those that extensions declare at their top level.

    extensions: Python files or modules of the user, besides those that have been loaded. In the process of a job they
    are loaded with what that process has: an extension that declares trials imports torch inside its functions.
    wanted: names; where all of them are ours, no extension is loaded. None: all.

    Raises:
        InputError: an extension cannot be loaded, or two trials have one name.
    """
    trials = {trial.name: trial for trial in ours()}
    if wanted is not None and trials.keys() >= set(wanted):
        return trials
    extend(*extensions)
    for trial in declared(Trial):
        if trials.setdefault(trial.name, trial) is not trial:
            raise InputError(f"two trials are called {trial.name!r}: give yours another name")
    return trials
