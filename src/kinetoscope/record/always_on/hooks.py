"""The ends of steps, and spans inside them, by torch's own hooks: no line of the training program changes.

Torch marks the waiting for its `DataLoader` and the steps of optimizers by itself. What is marked here beside: the
forward pass, the backward pass, and the calls of modules, in the words that `kinetoscope show modules` reads. The hooks
stand only while a window is open: an idle job pays for the counting of steps alone.
"""

from __future__ import annotations

import contextlib
import functools
import re
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch

from kinetoscope.record.output.guards import untraced

FORWARD: Final = "forward"
BACKWARD: Final = "backward"
_OPTIMIZER_PREFIX: Final = "Optimizer."
_MODULE_PREFIX: Final = "[pl][module]"
"""How Lightning begins the names of the spans of modules; the analysis of modules reads them."""

_UNSAFE_CHARACTERS: Final = re.compile(r'[^ -~]|["\\]')
"""Characters with which torch's exporter breaks the file, or loses the name."""

_SCOPED_VERSION: Final = (2, 13)
"""The version of torch from which on a mark that is made fast is an annotation, as far as we have seen."""

_EXTRA_CALL_WARNING: Final = r"Using `torch\.compile\(module\)` when there are global hooks"


class ModuleHooks:
    """Hooks on the calls of all modules that torch.compile does not see.

    It would compile them in, and compile anew once they have gone; so they are away while it compiles. Behind a graph
    break it would compile whatever is called; so it is told to leave them alone.

    Args:
        enter: called before each call.
        leave: called after it, even if it raises.
    """

    def __init__(self, enter: Callable[[torch.nn.Module, Any], object], leave: Callable[..., object]) -> None:
        self._enter, self._leave = enter, leave
        self._before: Callable[[torch.nn.Module, Any], object] = self._looked_for
        self._after = leave
        self._handles: list[Any] = []
        self._compiler: Any = None
        self._is_attached = False
        self._hidden = 0

    def attach(self) -> None:
        """Have the calls seen from here on."""
        # Torch warns that a hook may do something in the extra call of a compiled module: ours do nothing there.
        warnings.filterwarnings("ignore", message=_EXTRA_CALL_WARNING)
        self._is_attached = True
        _ATTACHED.add(self)
        _hear_of_compiler()
        self._register()
        self.look_for_compiler()

    def detach(self) -> None:
        """Take the hooks away."""
        compiler, self._compiler = self._compiler, None
        self._is_attached, self._hidden = False, 0
        _ATTACHED.discard(self)
        if compiler is not None:
            with contextlib.suppress(ValueError):  # torch._dynamo.reset() takes all callbacks away
                compiler.remove_start_callback(self.hide)
                compiler.remove_end_callback(self.show)
        self._remove()

    def hide(self, _: object = None) -> None:
        """Take the hooks away until `show`, which is called as often."""
        self._hidden += 1
        self._remove()

    def show(self, _: object = None) -> None:
        """The hooks are back, if they are attached."""
        self._hidden = max(self._hidden - 1, 0)
        if self._is_attached and not self._hidden and not self._handles:
            self._register()

    def _register(self) -> None:
        from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

        self._handles = [
            register_module_forward_pre_hook(self._before),
            register_module_forward_hook(self._after, always_call=True),
        ]

    def _remove(self) -> None:
        handles, self._handles = self._handles, []
        for handle in handles:
            handle.remove()

    def look_for_compiler(self) -> None:
        """Hear of compilations, once the program has loaded the compiler."""
        compiler = _compiler()
        if compiler is not None and self._compiler is None and "torch._dynamo.decorators" in sys.modules:
            self._compiler = compiler
            compiler.register_start_callback(self.hide)
            compiler.register_end_callback(self.show)
            self._before, self._after = torch.compiler.disable(self._enter), torch.compiler.disable(self._leave)
            self._remove()
            self._register()

    def _looked_for(self, module: torch.nn.Module, arguments: Any) -> None:
        if not torch.compiler.is_compiling():
            self.look_for_compiler()
            self._enter(module, arguments)


_ATTACHED: Final[weakref.WeakSet[ModuleHooks]] = weakref.WeakSet()


@functools.cache
def _hear_of_compiler() -> None:
    """Have hooks look for the compiler once the program has it loaded, before it compiles with them."""
    original = torch.compile

    @functools.wraps(original)
    def compile_(*args: Any, **kwargs: Any) -> Any:
        compiled = original(*args, **kwargs)
        for each in list(_ATTACHED):
            each.look_for_compiler()
        for act in _LISTENERS:
            act(_compiler())
        return compiled

    torch.compile = compile_


_LISTENERS: Final[list[Callable[[Any], object]]] = []


def when_compiler_is_loaded(act: Callable[[Any], object]) -> None:
    """Call it with what torch calls back when it compiles, each time that the program asks for something compiled."""
    _LISTENERS.append(act)
    _hear_of_compiler()


def _compiler() -> Any:
    """The callbacks of torch when it compiles; None until the program has loaded the compiler."""
    return getattr(sys.modules.get("torch._dynamo.callback"), "callback_handler", None)


@contextlib.contextmanager
def hidden_hooks() -> Iterator[None]:
    """Without our hooks on all modules, while a module runs that is compiled in place: its code checks for them."""
    hidden = list(_ATTACHED)
    for each in hidden:
        each.hide()
    try:
        yield
    finally:
        for each in hidden:
            each.show()


def hidden_from_compiler(function: Callable[..., Any]) -> None:
    """Have torch.compile call a function as it is, and compile nothing of what that calls: as torch.compiler.disable.

    That one would import the compiler, which takes seconds, into programs that do not use it.
    """
    function._torchdynamo_disable = True  # type: ignore[attr-defined]
    function._torchdynamo_disable_msg = "Kinetoscope counts the optimizer's steps"  # type: ignore[attr-defined]
    frames: Any = sys.modules.get("torch._C._dynamo.eval_frame")
    with contextlib.suppress(AttributeError):  # torch before 2.7
        skip = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.SKIP)
        frames.set_code_exec_strategy(function.__code__, skip)


class OptimizerRounds:
    """Tells the steps of a training loop from those of its optimizers.

    A step is a round of all optimizers that take turns: it ends with the last of them. Where one of them steps more
    often than the others (the critic of a GAN), each of its steps is one. Gradient accumulation needs no care: what
    accumulates does not step.
    """

    def __init__(self) -> None:
        self._last: int | None = None
        self._since: list[int] = []
        self._settled = False

    def ended_by(self, optimizer: object) -> bool:
        """True if this step of an optimizer ends a round."""
        one = id(optimizer)
        if self._last is None:
            self._last = one
            return True
        if one == self._last:
            if self._since and not self._settled:
                # It was the first of a round, not the last: the round ends with whoever came before it.
                self._last, self._since, self._settled = self._since[-1], [one], True
                return False
            self._since.clear()
            return True
        if one not in self._since:
            self._since.append(one)
            return False
        # Twice since the last round ended: the one that ended rounds has stopped, or steps less often.
        self._last = one
        self._since.clear()
        return True


class StepEnds:
    """Puts off what is to be done at the end of a step until torch has closed its own mark of the optimizer's step.

    The hook runs within that mark. A window that ended there would cut the mark off, and each step would begin within
    the mark of the step before.
    """

    def __init__(self) -> None:
        self._then: Callable[[], None] | None = None
        self._thread = 0
        self._leave: Callable[..., None] | None = None

    @property
    def attached(self) -> bool:
        """True if it is attached."""
        return self._leave is not None

    def attach(self) -> None:
        """From here on, what is put off is done when a mark closes.

        The class stays as it is: what torch.compile made of an optimizer's step checks for the class.
        """
        if self._leave is not None:
            return
        mark, ends = torch.autograd.profiler.record_function, self
        original = mark.__exit__

        @functools.wraps(original)
        def leave(span: Any, *exception: Any) -> None:
            original(span, *exception)
            waits = ends._then is not None and ends._thread == threading.get_ident()
            if waits and span.name.startswith(_OPTIMIZER_PREFIX):
                ends.do()

        mark.__exit__ = self._leave = leave

    def detach(self) -> None:
        """Stand no longer."""
        mark = torch.autograd.profiler.record_function
        if self._leave is not None and mark.__exit__ is self._leave:
            mark.__exit__ = self._leave.__wrapped__  # type: ignore[attr-defined]
            self._leave = None

    def put_off(self, act: Callable[[], None]) -> None:
        """Do it when the mark closes; at once where there is none."""
        self.do()  # what an optimizer that makes no mark has left
        self._then, self._thread = act, threading.get_ident()
        if self._leave is None:
            self.do()

    def do(self) -> None:
        """Do what was put off, if anything was."""
        act, self._then = self._then, None
        if act is not None:
            act()


class PassSpans:
    """Marks the passes and the calls of modules on whatever thread they happen, from `attach` to `detach`.

    `poll` is called before each module: there the program can be interrupted on any thread.
    """

    def __init__(self, poll: Callable[[], None] = lambda: None) -> None:
        self._announced: weakref.ref[torch.nn.Module] | None = None
        self._poll = poll
        self._open = threading.local()
        self._names: dict[int, tuple[weakref.ref[torch.nn.Module], str]] = {}
        self._hooks = ModuleHooks(self._enter, self._leave)
        self._is_attached = False
        self._mark: Callable[[str], Any] = torch.autograd.profiler.record_function
        self._backward: Callable[..., Any] | None = None
        self._backwards = 0

    def attach(self, *, record_shapes: bool) -> None:
        """Begin to mark."""
        if self._is_attached:
            return
        self._is_attached = True
        self._mark = _marker(record_shapes=record_shapes)
        self._hooks.attach()
        self._wrap_backward()

    @property
    def attached(self) -> bool:
        """True if the hooks are registered."""
        return self._is_attached

    def detach(self, *, close: bool = True) -> None:
        """Stop marking, and forget the modules. In a child of fork, what is open is the parent's: nothing is closed."""
        self._hooks.detach()
        self._is_attached = False
        if self._backward is not None and torch.autograd.backward is self._backward:
            torch.autograd.backward = self._backward.__wrapped__  # type: ignore[attr-defined]
            self._backward = None
        stack = self._stack()
        while stack:
            marks = stack.pop()[1]
            if close:
                _close(marks)
        self._names, self._announced = {}, None
        self._open = threading.local()  # other threads' marks are gone, too

    def _wrap_backward(self) -> None:
        """Torch has no hook on the thread that calls `backward`; its hooks run on the thread of the device."""
        if self._backward is not None:  # someone wrapped ours: it stays, and marks only while attached
            return
        original = torch.autograd.backward

        @functools.wraps(original)
        def backward(*args: Any, **kwargs: Any) -> Any:
            if not self._is_attached or torch.compiler.is_compiling():
                return original(*args, **kwargs)
            stack = self._stack()
            mark = self._mark(BACKWARD)
            mark.__enter__()
            stack.append((None, [mark]))
            self._backwards += 1
            try:
                return original(*args, **kwargs)
            finally:
                self._backwards -= 1
                self._close_until(None)

        torch.autograd.backward = self._backward = backward

    def _enter(self, module: torch.nn.Module, _: Any) -> None:
        if torch.compiler.is_compiling() or torch.jit.is_tracing():
            return
        self._poll()
        if self._announced is None or module is not self._announced():
            self.enter(module)

    def announce(self, module: torch.nn.Module) -> None:
        """Calls of this one are not marked by its hooks: `enter` and `leave` are called for it."""
        self._announced = weakref.ref(module)

    def enter(self, module: torch.nn.Module) -> None:
        """A call of the module begins."""
        if not self._is_attached:
            return
        stack = self._stack()
        is_root = not stack and not self._backwards  # checkpointing calls modules anew within the backward pass
        names = [FORWARD] if is_root else []
        names.append(self._name(module, is_root=is_root))
        marks = [self._mark(name) for name in names]
        for mark in marks:
            mark.__enter__()
        stack.append((module, marks))

    def _leave(self, module: torch.nn.Module, *_: Any) -> None:
        if torch.compiler.is_compiling() or torch.jit.is_tracing():
            return
        self.leave(module)

    def leave(self, module: torch.nn.Module) -> None:
        """A call of the module has ended."""
        self._close_until(module)

    def _close_until(self, owner: torch.nn.Module | None) -> None:
        """End the span of this one, and those inside it that an exception left open."""
        stack = self._stack()
        if any(each is owner for each, _ in stack):
            while stack:
                each, marks = stack.pop()
                _close(marks)
                if each is owner:
                    return

    def _stack(self) -> list[tuple[torch.nn.Module | None, list[Any]]]:
        with contextlib.suppress(AttributeError):
            return self._open.stack  # type: ignore[no-any-return]
        self._open.stack = []
        return self._open.stack  # type: ignore[no-any-return]

    def _name(self, module: torch.nn.Module, *, is_root: bool) -> str:
        known = self._known(module)
        if known is None and is_root:
            kind = type(module).__name__
            for path, each in module.named_modules():
                if self._known(each) is None:
                    name = _spelled(each, f"{kind}.{path}" if path else kind)
                    self._names[id(each)] = weakref.ref(each), name
            known = self._known(module)
        return known or _spelled(module, type(module).__name__)

    def _known(self, module: torch.nn.Module) -> str | None:
        """Its name, unless its number was that of a module that is gone: the program may delete a model any time."""
        known = self._names.get(id(module))
        return known[1] if known is not None and known[0]() is module else None


def _spelled(module: torch.nn.Module, path: str) -> str:
    kind = type(module)
    return _UNSAFE_CHARACTERS.sub("_", f"{_MODULE_PREFIX}{kind.__module__}.{kind.__qualname__}: {path}")


def _close(marks: list[Any]) -> None:
    """End the marks; torch raises for one that began before its profiler, as that of a call around the first step."""
    for mark in reversed(marks):
        try:
            with untraced() if isinstance(mark, torch.autograd.profiler.record_function) else contextlib.nullcontext():
                mark.__exit__(None, None, None)
        except RuntimeError:
            continue


def _marker(*, record_shapes: bool) -> Callable[[str], Any]:
    """The cheapest thing that makes an annotation: 1 µs where torch has it and shapes are recorded, else 7 µs.

    Older versions of torch (2.4 does) take no notice of the scope, and make an operator of it.
    """
    fast = getattr(getattr(torch._C, "_profiler", None), "_RecordFunctionFast", None)
    if fast is None or not record_shapes or _version() < _SCOPED_VERSION:
        return torch.autograd.profiler.record_function  # type: ignore[no-any-return]
    scope = {"scope": "user_scope"}
    return lambda name: fast(name, (), scope)


def _version() -> tuple[int, int]:
    version = re.match(r"(\d+)\.(\d+)", str(torch.__version__))
    return (int(version[1]), int(version[2])) if version else (0, 0)
