"""The events that patterns of a Selection choose: calls of a name, what is inside them, what is before or after."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterator

import numpy as np

from kinetoscope.algorithms.arrays import Bools, any_of, marked
from kinetoscope.errors import UsageError, nearest
from kinetoscope.model.execution.call_tree import inside
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.steps.steps import Steps, step_of
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import HOST_KINDS, EventKind
from kinetoscope.model.trace.trace import Trace


@derived
def has_name(trace: Trace, pattern: str) -> Bools:
    """Calls of the host and pieces of device work whose name fits, as it is or as tables know it.

    Args:
        trace: of these events.
        pattern: a name in which `*` stands for any text; several are parted by `|`.

    Returns:
        bool [events].

    Raises:
        UsageError: none has such a name.
    """
    from kinetoscope.model.execution.calls import call_name

    candidates = any_of(trace.kind, HOST_KINDS) & (trace.name >= 0)
    candidates[device_work(trace).rows] = True
    names = np.unique(trace.name[candidates]).tolist()
    texts = [trace.strings.glance(name) for name in names]
    fits = _fits(pattern)
    wanted = np.zeros(len(trace.strings) + 1, np.bool_)  # the last is that of −1, no name
    for name, text in zip(names, texts, strict=True):
        wanted[name] = bool(fits(text) or fits(call_name(text, EventKind.HOST_OP)))
    result = wanted[trace.name] & candidates
    if not result.any():
        raise UsageError(f"no call and no kernel is called {pattern!r} in this trace{nearest(pattern, texts)}")
    return np.asarray(result)


def chosen_calls(trace: Trace, select: Selection, every: Steps) -> Iterator[Bools]:
    """The events that each of `under`, `before` and `after` leaves: bool [events]; `every` has all steps.

    Raises:
        UsageError: no call has such a name.
    """
    if select.under is not None:
        yield inside(trace, _calls(trace, select.under))
    if select.before is not None:
        yield _before_or_after(trace, _calls(trace, select.before), every, after=False)
    if select.after is not None:
        yield _before_or_after(trace, _calls(trace, select.after), every, after=True)


def _fits(pattern: str) -> Callable[[str], object]:
    """A test whether a name fits; `[` and `?`, which names have, stand for themselves."""
    parts = [part.strip().replace("[", "[[]").replace("?", "[?]") for part in pattern.split("|")]
    return re.compile("|".join(fnmatch.translate(part) for part in parts if part)).match


def _calls(trace: Trace, pattern: str) -> Bools:
    calls = has_name(trace, pattern) & any_of(trace.kind, HOST_KINDS)
    if not calls.any():
        raise UsageError(f"no call of the host is called {pattern!r} in this trace; device work is (name chooses it)")
    return np.asarray(calls)


def _before_or_after(trace: Trace, calls: Bools, every: Steps, *, after: bool) -> Bools:
    """Events that begin, in each step with any of the calls, when the last has ended, or before the first begins."""
    step, edge = step_of(every.host, trace.start), np.zeros(len(every) + 1, np.int64)
    times = trace.end if after else trace.start
    of_step, times = step[calls], times[calls]
    edge[of_step] = times  # any of them, to begin with; the last element is that of no step
    (np.maximum if after else np.minimum).at(edge, of_step, times)
    has_any = marked(len(edge), of_step)
    has_any[-1] = False
    begins = trace.start >= edge[step] if after else trace.start < edge[step]
    return np.asarray(begins & has_any[step])
