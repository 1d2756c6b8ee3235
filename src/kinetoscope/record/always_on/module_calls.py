"""Steps of a program in which no optimizer of torch steps: a step begins with an outermost call of the largest module.

A short observation, with hooks on all modules, tells which module that is. Then one hook, on that module alone, counts
its calls: the calls of all other modules cost nothing more.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch

from kinetoscope.record.always_on.hooks import ModuleHooks, hidden_hooks

MIN_CALLS: Final = 3
"""Outermost calls from which on a module repeats."""

MAX_OBSERVED: Final = 32
"""Outermost calls after which a larger module that does not repeat, such as an encoder called once a request, is no
longer waited for."""

MAX_CALLS: Final = 10_000
"""Outermost calls, those of modules that hold nothing included, after which no module is looked for any more."""

Act = Callable[[torch.nn.Module], object]


def optimizer_was_made() -> bool:
    """True if the program has made an optimizer of torch: its steps will be the steps then, however late they begin."""
    return any(getattr(kind.__dict__.get("step"), "hooked", False) for kind in _kinds(torch.optim.Optimizer))


def _kinds(kind: Any) -> Iterator[Any]:
    for each in kind.__subclasses__():
        yield each
        yield from _kinds(each)


class ModuleCalls:
    """The calls that are steps: of the largest module that is called again and again, or of a class that is named.

    Args:
        named: the class of the module; "" for the largest.
        begins: called with the module before each of its outermost calls, on the thread that calls.
        ends: called after them.
        first: called before the outermost calls of any module with parameters, until the module is known.

    Attributes:
        calls_before: calls of the module before it was known that they are the steps.
    """

    def __init__(self, named: str, *, begins: Act, ends: Act, first: Act | None = None) -> None:
        self.calls_before = 0
        self._named, self._begins, self._ends, self._first = named, begins, ends, first
        self._sizes: dict[int, tuple[weakref.ref[torch.nn.Module], int]] = {}
        self._recent: deque[int] = deque(maxlen=MAX_OBSERVED)
        self._chosen: weakref.ref[torch.nn.Module] | None = None
        self._open = threading.local()
        self._left = MAX_CALLS
        self._over = False
        self._outermost: list[torch.nn.Module] = []
        self._hooks = ModuleHooks(self._enter, self._leave)
        self._handles: list[Any] = []

    def outermost(self) -> list[torch.nn.Module]:
        """Modules that hold numbers and were called by no other: all that were seen, or the chosen one."""
        if self._over:
            return self._outermost
        seen = [reference() for reference, size in self._sizes.values() if size]
        return [each for each in (*seen, self.chosen) if each is not None]

    @property
    def chosen(self) -> torch.nn.Module | None:
        """The module whose calls are the steps, once that is known."""
        return self._chosen() if self._chosen is not None else None

    def observe(self) -> None:
        """Begin to look for the module."""
        self._hooks.attach()
        self._wrap_compile()

    def forget(self) -> None:
        """Take all hooks away: what was to be known is known, or the program trains."""
        self._outermost = self.outermost()
        self._over = True
        self._hooks.detach()
        handles, self._handles = self._handles, []
        for handle in handles:
            handle.remove()
        self._sizes, self._chosen, self._open = {}, None, threading.local()

    def _wrap_compile(self) -> None:
        """Have calls of a module that is compiled in place seen: hooks are compiled into it, and run no more."""
        original = torch.nn.Module.compile
        enter, leave = self._enter, self._leave

        @functools.wraps(original)
        def compile_(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            result = original(module, *args, **kwargs)
            compiled = module._compiled_call_impl
            if compiled is not None:
                module._compiled_call_impl = _announced(module, compiled, enter, leave)
            return result

        torch.nn.Module.compile = compile_

    def _enter(self, module: torch.nn.Module, _: Any = None) -> None:
        if self._over or torch.compiler.is_compiling() or torch.jit.is_tracing():
            return
        chosen = self.chosen
        if chosen is not None:
            if module is chosen:
                self._begins(module)
            return
        stack = self._stack()
        if stack and stack[0] is module:  # an interrupt ended its last call, and no hook learned of that
            stack.clear()
        stack.append(module)
        if self._named:
            if type(module).__name__ == self._named:
                self._choose(module)
        elif len(stack) == 1:
            self._observe(module)

    def _leave(self, module: torch.nn.Module, *_: Any) -> None:
        if self._over or torch.compiler.is_compiling() or torch.jit.is_tracing():
            return
        if module is self.chosen:
            self._ends(module)
            return
        stack = self._stack()
        while stack and stack.pop() is not module:
            pass

    def _stack(self) -> list[torch.nn.Module]:
        with contextlib.suppress(AttributeError):
            return self._open.stack  # type: ignore[no-any-return]
        self._open.stack = []
        return self._open.stack  # type: ignore[no-any-return]

    def _observe(self, module: torch.nn.Module) -> None:
        self._left -= 1
        if not self._left:
            self.forget()
            return
        known = self._sizes.get(id(module))
        if known is None or known[0]() is not module:
            known = self._sizes[id(module)] = weakref.ref(module), _size(module)
        if not known[1]:
            return  # a loss, or what prepares a picture
        if self._first is not None:
            self._first(module)
        self._recent.append(id(module))
        counts = Counter(self._recent)
        repeated = [each for each, count in counts.items() if count >= MIN_CALLS]
        largest = max(self._sizes, key=lambda each: self._sizes[each][1])
        best = max(repeated, key=lambda each: self._sizes[each][1], default=None)
        if best == id(module) and (best == largest or len(self._recent) == MAX_OBSERVED):
            self.calls_before = counts[best] - 1
            self._choose(module)

    def _choose(self, module: torch.nn.Module) -> None:
        """From this call on, those of this module are the steps."""
        self._chosen, self._sizes, self._open = weakref.ref(module), {}, threading.local()
        try:
            if getattr(module, "_compiled_call_impl", None) is None:
                self._handles = hook_calls(module, self._enter, self._leave)
        except Exception:  # noqa: BLE001 - one of TorchScript takes none, and keeps those on all modules
            self._handles = []
        else:
            self._hooks.detach()
        self._begins(module)


def hook_calls(module: torch.nn.Module, begins: Act, ends: Act) -> list[Any]:
    """Have both called around each call of the module, and none of its copies; what takes that back."""
    return [
        module.register_forward_pre_hook(_Hook(module, begins)),
        module.register_forward_hook(_Hook(module, ends), always_call=True),
    ]


def announce_calls(module: torch.nn.Module, begins: Act, ends: Act) -> None:
    """Have both called around each call of the module for as long as it is there; it may be compiled in place."""
    compiled = getattr(module, "_compiled_call_impl", None)
    if compiled is not None:
        module._compiled_call_impl = _announced(module, compiled, begins, ends)
    else:
        hook_calls(module, begins, ends)


def _size(module: torch.nn.Module) -> int:
    """Numbers that the module holds."""
    try:
        return sum(each.numel() for each in (*module.parameters(), *module.buffers()))
    except Exception:  # noqa: BLE001 - one that is not initialised yet
        return 0


def _announced(module: torch.nn.Module, call: Callable[..., Any], enter: Act, leave: Act) -> Callable[..., Any]:
    @functools.wraps(call)
    def announced(*args: Any, **kwargs: Any) -> Any:
        enter(module)
        try:
            with hidden_hooks():
                return call(*args, **kwargs)
        finally:
            leave(module)

    return announced


class _Hook:
    """A hook that means nothing to copies of its module, and that any Python can read from a file."""

    def __init__(self, module: torch.nn.Module, act: Act) -> None:
        self._module, self._act = weakref.ref(module), act

    def __call__(self, module: torch.nn.Module, *_: Any) -> None:
        if self._module() is module:
            self._act(module)

    def __deepcopy__(self, _: Any) -> _Hook:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (contextlib.nullcontext(), "__exit__")


class RangeCalls:
    """The ranges of one name: of `torch.profiler.record_function`, and of `kinetoscope.range`."""

    def __init__(self, named: str, *, begins: Callable[[None], object], ends: Callable[[None], object]) -> None:
        self._named, self._begins, self._ends = named, begins, ends

    def attach(self) -> None:
        """Have them seen from here on, for as long as the process runs."""
        from kinetoscope.record import ranges

        kind = torch.autograd.profiler.record_function
        enter, leave = kind.__enter__, kind.__exit__

        @functools.wraps(enter)
        def entered(mark: Any) -> Any:
            if mark.name == self._named and not torch.compiler.is_compiling():
                self._begins(None)
            return enter(mark)

        @functools.wraps(leave)
        def left(mark: Any, *error: Any) -> None:
            leave(mark, *error)
            if mark.name == self._named and not torch.compiler.is_compiling():
                self._ends(None)

        kind.__enter__, kind.__exit__ = entered, left
        ranges.always.add(self._named)
