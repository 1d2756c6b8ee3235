"""Hugging Face Transformers: `Trainer(..., callbacks=[KinetoscopeCallback("runs/a")])`.

A step is one of the optimizer's; the batches that accumulate to it are part of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from kinetoscope.record.output.memory_snapshots import keep_early
from kinetoscope.record.profile import profile


class KinetoscopeCallback(TrainerCallback):  # type: ignore[misc]
    """Records steps of `train`; the options are those of `kinetoscope.profile`."""

    def __init__(self, dir: str | Path = "runs/huggingface", **options: Any) -> None:  # noqa: A002 - as in profile
        self._dir, self._options = dir, options
        keep_early(dir, options)
        self._profile: profile | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:  # noqa: ARG002
        """Begin with the schedule."""
        about = {
            "batch_size": args.train_batch_size,
            "accumulation_steps": args.gradient_accumulation_steps,
            "precision": "bf16" if args.bf16 else "fp16" if args.fp16 else "fp32",
            "parameters": None if model is None else sum(each.numel() for each in model.parameters()),
            **self._options.get("about", {}),
        }
        self._profile = profile(
            self._dir, **{"spans": True, **self._options, "about": about, "step": state.global_step}
        )
        self._profile.start()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """A step ended."""
        if self._profile is not None:
            self._profile.step(samples=args.train_batch_size * args.gradient_accumulation_steps)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Write what there is. Where `train` raises, this is not called, and the end of the program writes it."""
        if self._profile is not None:
            self._profile.stop()
            self._profile = None
