"""The calls from the program down to the kernel, as one icicle."""

from __future__ import annotations

from typing import Final

from kinetoscope.analyses import named
from kinetoscope.model.job import Job
from kinetoscope.model.selection import Selection
from kinetoscope.pages.blocks import Icicle

_NARROWEST: Final = 1 / 2000
"""Of the whole: what is narrower cannot be seen, and is left out."""


def flame(job: Job, select: Selection, *, weight: str = "auto", python: str = "all") -> Icicle:
    """Time by call stack; device time where there is any, unless `weight` says which."""
    result = named("flame")(job, select=select, weight=weight, python=python)
    totals: dict[tuple[str, ...], int] = {}
    calls: dict[tuple[str, ...], int] = {}
    for stack, value, count in result.frame.select("stack", "value", "calls").iter_rows():
        names = tuple(stack.split(";"))
        calls[names] = calls.get(names, 0) + count
        for depth in range(1, len(names) + 1):
            totals[names[:depth]] = totals.get(names[:depth], 0) + value
    whole = sum(total for path, total in totals.items() if len(path) == 1)
    wide = {path: total for path, total in totals.items() if total and total >= _NARROWEST * whole}
    order = sorted(wide, key=lambda path: (len(path), -wide[path], path))
    places = {path: place for place, path in enumerate(order)}
    on_host = "Values are host time." in result.notes
    words = [f"{calls[path]} calls" if path in calls else "" for path in order]
    note = "Calls around are above; as wide as the time in them. "
    note += "Host time." if on_host else "Device time, charged to the calls that launched the work."
    left_out = sum(1 for total in totals.values() if total) - len(order)
    return Icicle(
        "From the program down to the kernel",
        [path[-1] for path in order],
        [places.get(path[:-1], -1) for path in order],
        [wide[path] for path in order],
        ["host" if on_host else "computation"] * len(order),
        words,
        note=note + (f" {left_out} narrow ones are left out." if left_out else ""),
    )
