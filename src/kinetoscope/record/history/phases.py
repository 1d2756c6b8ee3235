"""Phases of a run as marks: what timers of frameworks, `record_function` and `kinetoscope.range` have around parts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, Final

from kinetoscope.record import ranges
from kinetoscope.record.always_on.when_imported import when_imported

_LEAST_NS: Final = 100_000_000
"""Shorter ones are no marks: an hour of marks is no more than a few megabytes then."""

_TIMERS: Final = {
    "codetiming._timer": ("Timer", "start", "stop"),  # of verl, by its name
    "slime.utils.timer": ("Timer", "start", "end"),
    "nemo_rl.utils.timer": ("Timer", "start", "stop"),
    "trl.extras.profiling": ("ProfilingContext", "__enter__", "__exit__"),
    "torch.autograd.profiler": ("record_function", "__enter__", "__exit__"),
}
"""Classes of timers by module, and their methods that begin and end a phase: of the name that is their argument, or
the timer's own."""

_NO_PHASES: Final = ("forward", "backward", "optimizer", "nn.module", "python gc")
"""Beginnings of names that are no phases: parts of a step, modules, and what the recorder itself names; so are names
with a number sign, which torch gives."""

_MOST_OPEN: Final = 1000
"""Phases that are under way; what begins beyond these is none."""


class Phases:
    """Timers and ranges that begin and end phases, once it is attached.

    Attributes:
        add: takes the name, the start and the end of each, by `perf_counter_ns`.
    """

    def __init__(self, add: Callable[[str, int, int], object]) -> None:
        self._add = add
        self._open: dict[tuple[int, str], int] = {}

    def attach(self) -> None:
        """Look for phases from here on."""
        ranges.ended = self.ended
        when_imported({module: functools.partial(self._wrap, *names) for module, names in _TIMERS.items()})

    def ended(self, name: str, start: int, end: int) -> None:
        """A phase has ended."""
        if end - start >= _LEAST_NS and "#" not in name and not name.lower().startswith(_NO_PHASES):
            self._add(name[:200], start, end)

    def _wrap(self, kind: str, begins: str, ends: str, module: Any) -> None:
        timer = getattr(module, kind, None)
        begin, end = getattr(timer, begins, None), getattr(timer, ends, None)
        if timer is None or begin is None or end is None:  # another version of it
            return

        open_, ended = self._open, self.ended
        if begins == "__enter__":
            _wrap_context(timer, begin, end, ended)
            return

        @functools.wraps(begin)
        def started(self: Any, *args: Any, **kwargs: Any) -> Any:
            if len(open_) < _MOST_OPEN and (name := _name_of(self, args, kwargs)):
                open_[id(self), name] = perf_counter_ns()
            return begin(self, *args, **kwargs)

        @functools.wraps(end)
        def stopped(self: Any, *args: Any, **kwargs: Any) -> Any:
            if (name := _name_of(self, args, kwargs)) and (since := open_.pop((id(self), name), 0)):
                ended(name, since, perf_counter_ns())
            return end(self, *args, **kwargs)

        setattr(timer, begins, started)
        setattr(timer, ends, stopped)


def _wrap_context(timer: Any, enter: Any, leave: Any, ended: Callable[[str, int, int], object]) -> None:
    """A class whose instances are one range at a time; optimizers enter some in each step, so it costs least."""

    @functools.wraps(enter)
    def entered(self: Any) -> Any:
        self._kinetoscope_since = perf_counter_ns()
        return enter(self)

    @functools.wraps(leave)
    def left(self: Any, *exception: Any) -> Any:
        now = perf_counter_ns()
        since = getattr(self, "_kinetoscope_since", now)
        if now - since >= _LEAST_NS and (name := _name_of(self, (), {})):
            ended(name, since, now)
        return leave(self, *exception)

    timer.__enter__, timer.__exit__ = entered, left


def _name_of(timer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """The name of the phase that a call of a timer's method is about; "" for none."""
    given = args[0] if args else kwargs.get("name", kwargs.get("label"))
    name = given if isinstance(given, str) else getattr(timer, "name", None)
    return name if isinstance(name, str) else ""
