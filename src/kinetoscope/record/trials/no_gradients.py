"""Modules in evaluation record no graph for gradients that nobody computes."""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from kinetoscope.record.trials.trial import Change, Edit, Trial

if TYPE_CHECKING:
    import torch

_OBSERVED: Final = 2
"""Calls of a module that are only looked at: whether a backward pass comes to what they return."""

_MAX_DEPTH: Final = 4


def put_in(change: Change) -> None:
    """Call under `no_grad` what is called in `eval()` with gradients on, and to whose outputs no backward pass comes.

    As `inference_mode` does, but for tensors that a program goes on to train with: those of a teacher, say. It begins
    after the first step, and after two calls of the module.
    """
    import torch

    from kinetoscope.record.trials.outermost import Hook, Outermost

    stepped: list[bool] = []
    training_lines: set[tuple[str, int] | None] = set()
    Outermost(change, lambda _, where: training_lines.add(where))
    change.at_first_step(lambda: stepped.append(True))
    known: weakref.WeakSet[Any] = weakref.WeakSet()
    handles: list[Any] = []
    original = torch.nn.Module.eval

    @functools.wraps(original)
    def begin(self: Any) -> Any:
        if self not in known and not isinstance(self, torch.jit.ScriptModule):
            known.add(self)
            calls = _Calls(change, stepped, training_lines)
            handles.append(self.register_forward_pre_hook(Hook(calls.before), prepend=True))
            handles.append(self.register_forward_hook(Hook(calls.after), always_call=True))
        return original(self)

    torch.nn.Module.eval = begin  # not `train(False)`, which goes through all modules inside
    for name in ("script", "trace"):
        _without_hooks(torch.jit, name, handles)


def _without_hooks(module: Any, name: str, handles: list[Any]) -> None:
    """Have TorchScript, which would compile the hooks of a module, see none."""
    original = getattr(module, name)

    @functools.wraps(original)
    def script(*args: Any, **kwargs: Any) -> Any:
        while handles:
            handles.pop().remove()
        return original(*args, **kwargs)

    setattr(module, name, script)


class _Calls:
    """The calls of one module that is in evaluation at times.

    training_lines: lines of the program that train, too, and that no `with` may be put around.
    """

    def __init__(self, change: Change, stepped: list[bool], training_lines: set[tuple[str, int] | None]) -> None:
        self._change, self._stepped, self._training_lines = change, stepped, training_lines
        self._seen = 0
        self._is_used = False
        self._local = threading.local()

    def before(self, module: torch.nn.Module, args: Any = ()) -> None:
        """Begin one: under `no_grad`, if nothing is against it."""
        import torch

        if torch.compiler.is_compiling() or torch.jit.is_tracing():
            return
        if not hasattr(self._local, "open"):
            self._local.open = []
        context = None
        if not module.training and torch.is_grad_enabled() and not self._is_used:
            if any(each.requires_grad for each in _tensors(args)):
                self._use()
            elif self._seen < _OBSERVED or not self._stepped:
                self._seen += 1
            elif self._applies():
                context = torch.no_grad()
                context.__enter__()
        self._local.open.append(context)

    def after(self, module: torch.nn.Module, _: Any = None, output: Any = None) -> None:
        """End it; of one that is looked at, learn of a backward pass."""
        import torch

        if torch.compiler.is_compiling() or torch.jit.is_tracing() or not getattr(self._local, "open", None):
            return
        context = self._local.open.pop()
        if context is not None:
            context.__exit__(None, None, None)
        elif not module.training and not self._is_used and torch.is_grad_enabled():
            for each in _tensors(output):
                if each.requires_grad and not each.is_leaf:
                    each.register_hook(lambda _: self._use())

    def _applies(self) -> bool:
        where = self._change.place(sys._getframe(1))
        return self._change.applies(place=False, where=None if where in self._training_lines else where)

    def _use(self) -> None:
        if not self._is_used:
            self._is_used = True
            self._change.refuses("gradients go through a module in evaluation")


def _tensors(value: Any, depth: int = 0) -> Iterator[torch.Tensor]:
    """The tensors in what a module is called with, or returns."""
    if hasattr(value, "requires_grad"):
        yield value
    elif depth < _MAX_DEPTH and isinstance(value, (tuple, list, Mapping)):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _tensors(each, depth + 1)


TRIAL = Trial(
    name="no-grad",
    title="evaluate without recording gradients",
    answers=("HOST012", "MEMORY014"),
    put_in=put_in,
    effect="none",
    edit=Edit(within="torch.no_grad()", text="evaluate within `with torch.no_grad():`"),
    unasked=True,
)
