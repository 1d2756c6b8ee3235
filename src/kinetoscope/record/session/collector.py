"""Python's garbage collector as spans of the trace: it stops the thread that it runs on, and leaves no mark itself."""

from __future__ import annotations

import contextlib
import gc
from typing import Any, Final

NAME: Final = "Python GC"
"""As torch itself calls such spans, which it records with stacks only."""

_OLDEST: Final = 2
"""Generation whose collections look at all objects; those of the younger ones take microseconds and are many."""


class Collections:
    """While it is open, each collection of the oldest generation is a span."""

    def __init__(self) -> None:
        self._span: Any = None

    def open(self) -> None:
        """From now on."""
        gc.callbacks.append(self._happens)

    def close(self) -> None:
        """Until now."""
        with contextlib.suppress(ValueError):
            gc.callbacks.remove(self._happens)

    def _happens(self, phase: str, info: dict[str, int]) -> None:
        """The interpreter calls this before and after each collection, on its thread; only one is under way."""
        with contextlib.suppress(Exception):  # what is raised here nobody can catch
            if phase == "start" and info.get("generation") == _OLDEST:
                import torch

                self._span = torch.profiler.record_function(NAME)
                self._span.__enter__()
            elif phase == "stop" and self._span is not None:
                span, self._span = self._span, None
                span.__exit__(None, None, None)
