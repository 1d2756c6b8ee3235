"""The calls from the program down to the kernel, as one icicle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kinetoscope.analyses import named
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import Selection
from kinetoscope.pages.parts.blocks import IcicleBlock
from kinetoscope.pages.parts.layers import Node, Path, joined

_SMALLEST_NODE_SHARE: Final = 1 / 2000
"""Of the whole: what is narrower cannot be seen, and is left out."""

_MODULE: Final = "nn.Module: "


def flame(job: Job, select: Selection, *, weight: str = "auto", python: str = "all") -> IcicleBlock:
    """Time by call stack; device time where there is any, unless `weight` says which."""
    result = named("flame")(job, select=select, weight=weight, python=python)
    totals: dict[tuple[str, ...], int] = {}
    calls: dict[tuple[str, ...], int] = {}
    for stack, value, count in result.frame.select("stack", "value", "calls").iter_rows():
        names = tuple(stack.split(";"))
        calls[names] = calls.get(names, 0) + count
        for depth in range(1, len(names) + 1):
            totals[names[:depth]] = totals.get(names[:depth], 0) + value
    tree = joined(((path, total, calls.get(path, 0)) for path, total in totals.items()), _MODULE)
    whole = sum(node.time for path, node in tree.items() if len(path) == 1)
    trunk = _trunk(tree, whole)
    tree = {path[trunk:]: node for path, node in tree.items() if len(path) > trunk}
    wide = {path: node for path, node in tree.items() if node.time and node.time >= _SMALLEST_NODE_SHARE * whole}
    order = sorted(wide, key=lambda path: (len(path), -wide[path].time, path))
    places = {path: place for place, path in enumerate(order)}
    on_host = weight == "host" or "Values are host time." in result.notes
    note = "Calls around are above; as wide as the time in them. Modules of one class are together. "
    note += "Host time." if on_host else "Device time, charged to the calls that launched the work."
    note += f" The {trunk} calls around everything are left out." if trunk else ""
    left_out = sum(1 for node in tree.values() if node.time) - len(order)
    return IcicleBlock(
        "From the program down to the kernel",
        [wide[path].label(path[-1]) for path in order],
        [places.get(path[:-1], -1) for path in order],
        [wide[path].time for path in order],
        ["host" if on_host else "computation"] * len(order),
        [wide[path].words() for path in order],
        note=note + (f" {left_out} narrow ones are left out." if left_out else ""),
    )


def _trunk(tree: Mapping[Path, Node], whole: int) -> int:
    """The number of nested calls around everything, less the innermost: the way into the program."""
    depth = 0
    while True:
        here = [node.time for path, node in tree.items() if len(path) == depth + 1 and node.time]
        if here != [whole]:
            return max(depth - 1, 0)
        depth += 1
