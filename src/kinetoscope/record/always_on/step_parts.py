"""The parts of a step on the host: waiting for the loader, the passes, the optimizer, by hooks that always stand.

Each adds to a sum, on the thread that takes the steps; whoever counts steps takes the sums at a step's end. A step
starts with the first of its parts: what the program does before that (it logs, saves, collects garbage) is in no step.

Where gradients are off, or the model is not in training, the program evaluates: that is no part of a step if it
comes before the step's own parts, but a stretch that `evaluated` is called with, once training goes on.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from threading import get_ident
from time import perf_counter_ns
from typing import Any, Final

import torch

from kinetoscope.record.always_on.hooks import hidden_from_compiler


class StepParts:
    """The parts of the step that runs.

    Attributes:
        since: when this process began to look; 0 before that.
        thread: the one that takes steps; what happens on others is not counted.
        start: when its first part began; 0 before that.
        data, forward, backward, optimizer: time in each so far, ns.
        samples: that loaders gave since the process began, as far as their batch size says.
        has_data, has_forward, has_backward: something of this kind was ever seen.
        losses: of each call of `backward` its one number, if somebody wants them; else None.
        on_start: called when a step starts.
        evaluated: called with start and end of a stretch of evaluation.
        by_calls: calls of a module are the steps: gradients say nothing then.
    """

    def __init__(self) -> None:
        self.thread = threading.main_thread().ident or 0
        self.samples = 0
        self.has_data = self.has_forward = self.has_backward = False
        self.losses: list[torch.Tensor] | None = None
        self.on_start: Callable[[], object] | None = None
        self.evaluated: Callable[[int, int], object] = lambda _start, _end: None
        self.by_calls = False
        self.since = 0
        self._evaluates = self._evaluates_until = 0
        self._enters = 0
        self._optimizer_enters = self._others_before = 0
        self.reset()

    def reset(self) -> None:
        """The next step begins."""
        self.start = self.data = self.forward = self.backward = self.optimizer = 0

    def attach(self) -> None:
        """Look from here on, for as long as the process runs."""
        if self.since:
            return
        self.since = perf_counter_ns()
        _wrap_loader(self)
        _wrap_backward(self)
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        register_optimizer_step_pre_hook(_optimizer_enters)

    def forked(self) -> None:
        """In a child process, whose steps are its own."""
        self.thread, self.by_calls, self.samples, self.since = get_ident(), False, 0, perf_counter_ns()
        self._evaluates = self._enters = self._optimizer_enters = 0
        self.reset()

    def begin(self, now: int) -> None:
        """A part of the step begins: the first of them begins the step."""
        if not self.start:
            self.start = now
            if self.on_start is not None:
                self.on_start()

    def _train(self, since: int) -> None:
        """A part of the step is computed, since then."""
        if self._evaluates:
            self.end_evaluation()
        self.begin(since)

    def _evaluate(self, since: int, until: int) -> None:
        """The program evaluates, if it is not in the midst of a step."""
        if self.forward or self.backward or self.optimizer:
            return
        if not self._evaluates:
            self._evaluates = self.start or since  # what it waited for was not the step's
            self.start = self.data = 0
        self._evaluates_until = until

    def end_evaluation(self) -> None:
        """Training goes on, or the program ends."""
        if self._evaluates:
            began, self._evaluates = self._evaluates, 0
            self.evaluated(began, self._evaluates_until)

    def waited(self, since: int, loader: Any) -> None:
        """A loader was waited for until now; `loader`: if it gave a batch, the one."""
        now = perf_counter_ns()
        trains = torch.is_grad_enabled()
        if trains and loader is not None:
            self.samples += getattr(loader, "batch_size", None) or 0
        if get_ident() != self.thread:
            return
        if trains or self.by_calls:
            self.begin(since)
            self.data += now - since
            self.has_data = True
        else:
            self._evaluate(since, now)

    def forward_enters(self, _: torch.nn.Module) -> None:
        """A call of an outermost module begins."""
        if get_ident() == self.thread and not self._enters:
            self._enters = perf_counter_ns()

    def forward_leaves(self, module: torch.nn.Module) -> None:
        """It has ended."""
        if get_ident() != self.thread or not self._enters:
            return
        began, self._enters = self._enters, 0
        now = perf_counter_ns()
        if (module.training and torch.is_grad_enabled()) or self.by_calls:
            self._train(began)
            self.forward += now - began
            self.has_forward = True
        else:
            self._evaluate(began, now)

    def went_back(self, since: int) -> None:
        """A backward pass has ended."""
        if get_ident() == self.thread:
            if not self.start or self._evaluates:
                self._train(since)
            self.backward += perf_counter_ns() - since
            self.has_backward = True

    def optimizer_enters(self) -> None:
        """A step of an optimizer begins."""
        if get_ident() == self.thread:
            self._others_before = self.data + self.forward + self.backward
            self._optimizer_enters = perf_counter_ns()

    def optimizer_leaves(self, now: int) -> None:
        """It has ended; passes of a closure that it has called, as Lightning does, are not its own time."""
        if self._optimizer_enters:
            if not self.start or self._evaluates:
                self._train(self._optimizer_enters)
            others = self.data + self.forward + self.backward - self._others_before
            self.optimizer += max(now - self._optimizer_enters - others, 0)
            self._optimizer_enters = 0


def _optimizer_enters(*_: Any) -> None:
    """The hook. Where torch compiles the step, it compiles nothing of this, and the step's time is not known."""
    if not torch.compiler.is_compiling():
        parts.optimizer_enters()


def _wrap_loader(parts: StepParts) -> None:
    """Have the batches of loaders waited for, and the start of their workers, which is a wait as well."""
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    original, made = _BaseDataLoaderIter.__next__, _BaseDataLoaderIter.__init__

    @functools.wraps(original)
    def following(self: Any) -> Any:
        began, loader = perf_counter_ns(), None
        try:
            batch = original(self)
            loader = getattr(self, "_loader", None)
        finally:
            parts.waited(began, loader)
        return batch

    @functools.wraps(made)
    def make(self: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
        began = perf_counter_ns()
        made(self, loader, *args, **kwargs)
        self._loader = loader
        parts.waited(began, None)

    _BaseDataLoaderIter.__next__, _BaseDataLoaderIter.__init__ = following, make


def _wrap_backward(parts: StepParts) -> None:
    """Torch has no hook on the thread that calls `backward`."""
    original = torch.autograd.backward

    @functools.wraps(original)
    def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        if parts.losses is not None:
            first = tensors if isinstance(tensors, torch.Tensor) else next(iter(tensors), None)
            if isinstance(first, torch.Tensor) and first.numel() == 1:
                parts.losses.append(first.detach())
        began = perf_counter_ns()
        try:
            return original(tensors, *args, **kwargs)
        finally:
            parts.went_back(began)

    hidden_from_compiler(backward)
    torch.autograd.backward = backward


parts: Final = StepParts()
"""Those of this process."""
