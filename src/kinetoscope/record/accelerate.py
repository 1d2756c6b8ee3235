"""Hugging Face Accelerate: `with profile(accelerator, "runs/a") as prof: ... prof.step(samples=len(batch))`.

`step` is called once a batch, at its end; batches whose gradients accumulate are one step, as the accelerator says.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kinetoscope.record import profile as recorder


class Batches:
    """Counts batches, and ends a step where gradients are synchronised."""

    def __init__(self, accelerator: Any, profile: recorder.profile) -> None:
        self.profile = profile
        self._accelerator = accelerator
        self._samples: int | None = None

    def step(self, samples: int | None = None) -> None:
        """A batch ended, with so many samples."""
        if samples is not None:
            self._samples = (self._samples or 0) + samples
        if self._accelerator.sync_gradients:
            self.profile.step(samples=self._samples)
            self._samples = None


@contextlib.contextmanager
def profile(accelerator: Any, dir: str | Path, **options: Any) -> Iterator[Batches]:  # noqa: A002 - as in profile
    """Record steps of the loop inside; the options are those of `kinetoscope.profile`."""
    about = {
        "precision": accelerator.mixed_precision,
        "accumulation_steps": accelerator.gradient_accumulation_steps,
        **options.pop("about", {}),
    }
    with recorder.profile(dir, about=about, **{"spans": True, **options}) as inner:
        yield Batches(accelerator, inner)
