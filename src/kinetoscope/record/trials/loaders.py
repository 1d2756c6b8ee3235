"""What several changes know of torch's `DataLoader`."""

from __future__ import annotations

from typing import Final

POSITIONAL: Final = (
    "dataset",
    "batch_size",
    "shuffle",
    "sampler",
    "batch_sampler",
    "num_workers",
    "collate_fn",
    "pin_memory",
    "drop_last",
    "timeout",
    "worker_init_fn",
    "multiprocessing_context",
    "generator",
)
"""Its parameters that may be given without a name, in order."""
