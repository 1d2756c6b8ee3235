"""What tiles are made of, at hand without waiting.

Threads that ask a trace wait for one another, also while one of them derives something large. Who pans must not wait
for that: what is asked for with every tile is kept here too, as long as the trace is.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

from kinetoscope.model.trace.trace import Trace

T = TypeVar("T")

_READY: WeakKeyDictionary[Trace, dict[tuple[Hashable, ...], Any]] = WeakKeyDictionary()


def ready(trace: Trace, derive: Callable[..., T], *details: Hashable) -> T:
    """The same as `derive(trace, *details)`."""
    kept = _READY.get(trace)
    if kept is None:
        kept = _READY.setdefault(trace, {})
    question = (derive, *details)
    if question not in kept:
        kept[question] = derive(trace, *details)
    return cast(T, kept[question])
