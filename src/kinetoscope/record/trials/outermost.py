"""The outermost modules that a program calls: what is compiled, or run in other types or layouts, as a whole.

Hooks on all modules stand until the first step has ended, and cost nothing after it.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import types
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch

from kinetoscope.record.always_on.hooks import ModuleHooks
from kinetoscope.record.trials.trial import Change, calling_line

_MAX_CALLS: Final = 500
"""Outermost calls after which no more are looked at, in a program that takes no steps."""

Place = tuple[str, int] | None


def _nothing(module: torch.nn.Module) -> None:
    """Nothing is done."""


@dataclass
class _Seen:
    """A module that was called: where from, and whether it was to be trained then."""

    module: weakref.ref[torch.nn.Module]
    where: Place
    trains: bool


class _Open(threading.local):
    """The calls of modules that have not returned on this thread, outermost first."""

    def __init__(self) -> None:
        self.stack: list[torch.nn.Module] = []


class Outermost:
    """The outermost modules with parameters that are called in the first step: those in training, else all.

    Args:
        change: whose first step it is.
        then: called with each, and with the line of the program that called it, when the first step has ended.
        first: called before the first call of each that is in training.
        enter: called before each call of these in the first step.
        leave: called after it, even if it raises.
    """

    def __init__(
        self,
        change: Change,
        then: Callable[[torch.nn.Module, Place], object],
        *,
        first: Callable[[torch.nn.Module, Place], object] = lambda *_: None,
        enter: Callable[[torch.nn.Module], object] = _nothing,
        leave: Callable[[torch.nn.Module], object] = _nothing,
    ) -> None:
        self._change, self._on_leave = change, leave
        self._then, self._first = self._harmless(then), self._harmless(first)
        self._on_enter = self._harmless(enter)
        self._seen: dict[int, _Seen] = {}
        self._open = _Open()
        self._calls = 0
        self._hooks = ModuleHooks(self._enter, self._leave)
        self._hooks.attach()
        change.at_first_step(self._known)

    def _harmless(self, act: Callable[..., object]) -> Callable[..., object]:
        """An act on a module; in a run that only looks, an error in it is noted, and the program goes on."""

        def acted(*args: Any) -> None:
            try:
                act(*args)
            except Exception as error:  # whatever a module raises that is looked at, one without sizes yet for example
                if self._change.acts:
                    raise
                self._change.refuses(f"it cannot be looked at: {error!r:.200}")

        return acted

    def _enter(self, module: torch.nn.Module, _: Any = None) -> None:
        if torch.compiler.is_compiling() or torch.jit.is_tracing():
            return
        stack = self._open.stack
        if stack and stack[0] is module:  # an interrupt ended its last call, and no hook learned of that
            stack.clear()
        stack.append(module)
        if len(stack) == 1:
            self._called(module)

    def _leave(self, module: torch.nn.Module, *_: Any) -> None:
        if torch.compiler.is_compiling() or torch.jit.is_tracing():
            return
        stack = self._open.stack
        while stack:
            last = stack.pop()
            if last is module:
                if not stack and id(module) in self._seen and self._seen[id(module)].trains:
                    self._on_leave(module)
                return

    def _called(self, module: torch.nn.Module) -> None:
        self._calls += 1
        if self._calls > _MAX_CALLS:
            self._hooks.detach()
            return
        seen = self._seen.get(id(module))
        if seen is None or seen.module() is not module:
            if next(module.parameters(), None) is None:
                return  # a loss, or what prepares a picture
            seen = self._seen[id(module)] = _Seen(weakref.ref(module), calling_line(sys._getframe(1)), trains=False)
        if trains(module):
            if not seen.trains:
                seen.trains = True
                self._first(module, seen.where)
            self._on_enter(module)

    def _known(self) -> None:
        self._hooks.detach()
        training = [each for each in self._seen.values() if each.trains]
        for each in training or list(self._seen.values()):
            if (module := each.module()) is not None:
                self._then(module, each.where)
        self._seen = {}


def trains(module: torch.nn.Module) -> bool:
    """Is this call of the module one whose gradients are wanted?"""
    return module.training and torch.is_grad_enabled() and any(each.requires_grad for each in module.parameters())


def inner(module: torch.nn.Module) -> torch.nn.Module:
    """The program's module in a wrapper that makes it data parallel, or itself."""
    is_wrapped = isinstance(module, (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel))
    return module.module if is_wrapped else module


def is_sharded(module: torch.nn.Module) -> bool:
    """Are parameters of the module spread over ranks?"""
    return any(
        hasattr(each, "_is_fsdp_managed_module")
        or type(each).__name__.startswith(("FSDP", "FullySharded"))
        for each in module.modules()
    ) or any(type(each).__name__ == "DTensor" for each in module.parameters())  # fmt: skip


def is_compiled(module: torch.nn.Module) -> bool:
    """Has the program compiled the module or a part of it?"""
    return any(
        getattr(each, "_compiled_call_impl", None) is not None
        or type(each).__name__ == "OptimizedModule"
        or hasattr(each.forward, "_torchdynamo_orig_callable")
        for each in module.modules()
    )


class Forward:
    """A `forward` in the dictionary of one module: copies and files of the module have that of its class instead."""

    def __init__(self, module: torch.nn.Module, call: Callable[..., Any]) -> None:
        original = module.forward
        self.__wrapped__ = original  # the signature that frameworks read
        self.__name__, self.__doc__ = "forward", original.__doc__
        self._module, self._call = module, call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The call."""
        return self._call(*args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return types.MethodType(type(self._module).forward, memo.get(id(self._module), self._module))

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self._module, "forward")  # where it is read, the module has that of its class


class Hook:
    """A hook that copies of its module share, and that files of the module do not hold."""

    def __init__(self, act: Callable[..., object]) -> None:
        self._act = act

    def __call__(self, *args: Any) -> None:
        """The call."""
        self._act(*args)

    def __deepcopy__(self, _: Any) -> Hook:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (contextlib.nullcontext(), "__exit__")
