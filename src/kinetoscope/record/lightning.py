"""PyTorch Lightning: `Trainer(callbacks=[KinetoscopeCallback("runs/a")])`, or `profiler=KinetoscopeProfiler("runs/a")`.

The callback counts the steps of the optimizer; batches that accumulate gradients are one step. The profiler also marks
what Lightning tells its profilers (hooks, strategies, the fetching of data), and counts batches.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from kinetoscope.record.output.memory_snapshots import keep_early
from kinetoscope.record.profile import profile
from kinetoscope.record.ranges import range as marked

try:
    from lightning.pytorch import Callback
    from lightning.pytorch.profilers import Profiler
except ImportError:  # the package's other name
    from pytorch_lightning import Callback
    from pytorch_lightning.profilers import Profiler

_BATCH: Final = "run_training_batch"


class KinetoscopeCallback(Callback):  # type: ignore[misc]
    """Records steps of `fit`; the options are those of `kinetoscope.profile`."""

    def __init__(self, dir: str | Path = "runs/lightning", **options: Any) -> None:  # noqa: A002 - as in profile
        super().__init__()
        self._dir, self._options = dir, options
        keep_early(dir, options)
        self._profile: profile | None = None
        self._step = 0
        self._samples: int | None = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin with the schedule."""
        about = {
            "parameters": sum(each.numel() for each in pl_module.parameters()),
            "precision": str(trainer.precision),
            "accumulate_grad_batches": trainer.accumulate_grad_batches,
            **self._options.get("about", {}),
        }
        self._step = trainer.global_step
        self._profile = profile(self._dir, **{"spans": True, **self._options, "about": about, "step": self._step})
        self._profile.start()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:  # noqa: ARG002
        """A step ended, if the optimizer stepped."""
        size = _size(batch)
        self._samples = size if self._samples is None or size is None else self._samples + size
        if self._profile is not None and trainer.global_step != self._step:
            self._step = trainer.global_step
            self._profile.step(samples=self._samples)
            self._samples = None

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        """Write what there is."""
        self._end(None)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:  # noqa: ARG002
        """Write what there is, marked."""
        self._end(exception)

    def _end(self, error: BaseException | None) -> None:
        if self._profile is not None:
            self._profile.__exit__(None if error is None else type(error), error, None)
            self._profile = None


def _size(batch: Any) -> int | None:
    """Samples in a batch: the length of its first tensor."""
    while isinstance(batch, (list, tuple, dict)) and batch:
        batch = next(iter(batch.values())) if isinstance(batch, dict) else batch[0]
    shape = getattr(batch, "shape", None)
    return int(shape[0]) if shape else None


class KinetoscopeProfiler(Profiler):  # type: ignore[misc]
    """Records batches of `fit`, with what Lightning does marked; the options are those of `kinetoscope.profile`."""

    def __init__(self, dir: str | Path = "runs/lightning", **options: Any) -> None:  # noqa: A002 - as in profile
        super().__init__(dirpath=dir, filename=None)
        self._profile = profile(dir, **{"spans": True, **options})
        self._running = False
        self._open: dict[str, Any] = {}

    def start(self, action_name: str) -> None:
        """Lightning begins something."""
        if action_name == _BATCH and not self._running:
            self._running = True
            self._profile.start()
        if self._running:
            mark = self._open[action_name] = marked(f"[pl][profile]{action_name}")
            mark.__enter__()

    def stop(self, action_name: str) -> None:
        """Lightning has ended it."""
        mark = self._open.pop(action_name, None)
        if mark is not None:
            mark.__exit__(None, None, None)
        if action_name == _BATCH and self._running:
            self._profile.step()

    def summary(self) -> str:
        """Nothing: the trace says it all."""
        return ""

    def teardown(self, stage: str | None) -> None:
        """Write what there is."""
        if self._running:
            self._running = False
            self._profile.stop()
        super().teardown(stage)
