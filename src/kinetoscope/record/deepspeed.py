"""DeepSpeed: `with profile(engine, "runs/a"): ...` around the loop that calls `engine.step()`; the loop stays as it is.

Engines call no hooks and wrap their optimizers, so it is the engine's `step` that is watched. What it does between the
boundaries of gradient accumulation is part of one step.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kinetoscope.record import profile as recorder


@contextlib.contextmanager
def profile(engine: Any, dir: str | Path, **options: Any) -> Iterator[recorder.profile]:  # noqa: A002 - as in profile
    """Record steps of the loop inside; the options are those of `kinetoscope.profile`."""
    samples = engine.train_micro_batch_size_per_gpu() * engine.gradient_accumulation_steps()
    about = {
        "batch_size": engine.train_micro_batch_size_per_gpu(),
        "accumulation_steps": engine.gradient_accumulation_steps(),
        "parameters": sum(each.numel() for each in engine.module.parameters()),
        **options.pop("about", {}),
    }
    original = engine.step
    with recorder.profile(dir, about=about, **{"step": engine.global_steps, "spans": True, **options}) as prof:

        @functools.wraps(original)
        def step(*args: Any, **kwargs: Any) -> Any:
            ends = engine.is_gradient_accumulation_boundary()
            result = original(*args, **kwargs)
            if ends:
                prof.step(samples=samples)
            return result

        engine.step = step
        try:
            yield prof
        finally:
            engine.step = original
