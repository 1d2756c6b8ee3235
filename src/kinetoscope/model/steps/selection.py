"""A selection: the part of a job that an analysis is about: ranks, steps, a range of time, devices, threads, calls."""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal

from kinetoscope.errors import UsageError, nearest

STEADY_STEPS: Final = "steady"
"""Value of `Selection.steps`: all steps but those of the warm-up and an empty last one."""

_MAX_SHOWN: Final = 60
"""Characters of a wrong value that a message repeats."""


@dataclass(frozen=True, slots=True, repr=False)
class Selection:
    """One argument of every analysis; what is None selects everything, and an event must fulfil all that is not.

    A pattern is a name in which `*` stands for any text; `|` parts several names: `aten::mm|aten::addmm*`.

    Attributes:
        steps: numbers of the steps; −1 is the last one; a range may reach beyond the last; "steady" is all but those of
            the warm-up (see `steps.steady`). Device work belongs to the step that contains its launch (work whose
            launch was not recorded: the device step that contains its start) and is not clipped.
        time: start and end in ns after the first event of the trace. Intervals are clipped to it; what is counted are
            events that start in it.
        devices, streams: numbers of devices and streams; they choose device work only.
        threads: numbers of host threads; they choose host events, and device work launched from them.
        annotation: name of an annotation; chooses what happens inside it on its thread, and device work launched there.
        steps_by: name of the annotation that is a step, instead of the profiler's own `ProfilerStep#N`.
        ranks: numbers of ranks; the others are not asked.
        name: pattern; chooses calls of the host of such a name, device work of such a name, and what they launched.
        under: pattern; chooses calls of the host of such a name, what is called inside them, and what that launched.
        before, after: patterns; they choose, in each step, what begins on the host before the first call of such a name
            begins, or when the last one has ended; and what that launched.

    Raises:
        UsageError: there is no such field, or it cannot have this value.
    """

    steps: tuple[int, ...] | range | Literal["steady"] | None = None
    time: tuple[int, int] | None = None
    devices: tuple[int, ...] | None = None
    streams: tuple[int, ...] | None = None
    threads: tuple[int, ...] | None = None
    annotation: str | None = None
    steps_by: str | None = None
    ranks: tuple[int, ...] | None = None
    name: str | None = None
    under: str | None = None
    before: str | None = None
    after: str | None = None

    def __new__(cls, *_: object, **given: object) -> Selection:
        """Refuse a field that is none in one line, before `__init__` refuses it with what Python says."""
        known = cls.__match_args__
        for name in given:
            if name not in known:
                raise UsageError(f"a Selection has no {name!r}{nearest(name, known)}; it has {', '.join(known)}")
        return object.__new__(cls)

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None:
                object.__setattr__(self, each.name, _checked(each.name, value))

    def __repr__(self) -> str:
        chosen = ((each.name, getattr(self, each.name)) for each in fields(self))
        return f"Selection({', '.join(f'{name}={value!r}' for name, value in chosen if value is not None)})"

    @property
    def is_of_calls(self) -> bool:
        """It chooses calls of the host: by steps, threads, or names of calls."""
        return self.steps is not None or self.is_within_steps

    @property
    def is_within_steps(self) -> bool:
        """It chooses some of the calls of a step: by threads, or names of calls."""
        return any(each is not None for each in (self.threads, self.annotation, *self.patterns.values()))

    @property
    def patterns(self) -> dict[str, str]:
        """Fields that choose by names of calls, `annotation` apart: those that have a pattern."""
        given = {"name": self.name, "under": self.under, "before": self.before, "after": self.after}
        return {field: pattern for field, pattern in given.items() if pattern is not None}


ALL: Final = Selection()
"""Everything that was recorded."""

EVERY_STEP: Final = range(sys.maxsize)
"""All steps, those of the warm-up too: the meaning of `all` on the command line and the page."""


def default_to_steady(select: Selection) -> Selection:
    """The selection with the steady steps, where it has neither steps nor a time range: the default of all faces."""
    return replace(select, steps=STEADY_STEPS) if select.steps is None and select.time is None else select


_TEXTS: Final = ("annotation", "steps_by", "name", "under", "before", "after")


def _checked(name: str, value: Any) -> Any:
    """The value of a field, lists of numbers as tuples.

    Raises:
        UsageError: the field cannot have it.
    """
    if name in _TEXTS:
        if isinstance(value, str) and value:
            return value
        raise _wrong(name, value, "a name, such as 'aten::mm'")
    if name == "steps" and (isinstance(value, range) or value == STEADY_STEPS):
        return value
    several = _numbers(value)
    if name == "time" and (several is None or len(several) != 2):
        raise _wrong(name, value, "a pair of ns after the first event, such as (0, 5_000_000)")
    if several is None:
        words = f", a range or {STEADY_STEPS!r}" if name == "steps" else ""
        raise _wrong(name, value, f"a tuple of numbers, such as (0, 1){words}")
    return several


def _numbers(value: Any) -> tuple[int, ...] | None:
    """Whole numbers of any kind that Python indexes with, as a tuple; None for anything else."""
    if isinstance(value, str):
        return None
    try:
        return tuple(each.__index__() for each in value)
    except (AttributeError, TypeError):
        return None


def _wrong(name: str, value: object, can_be: str) -> UsageError:
    shown = repr(value)
    if len(shown) > _MAX_SHOWN:
        shown = f"a {type(value).__name__}"
    return UsageError(f"{name} is {shown}; it can be {can_be}")
