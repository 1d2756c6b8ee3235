"""Calls from the program down to the kernel as icicles: all of them, or the callers and callees of one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import polars as pl

from kinetoscope.analyses import named
from kinetoscope.model.execution.marks import MODULE
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import Selection
from kinetoscope.pages.blocks import Block, IcicleBlock, Link, NoteBlock
from kinetoscope.pages.pictures.layers import Node, Path, class_of_module, icicle, joined
from kinetoscope.schema import Result
from kinetoscope.views.sentences import code, say, total

FRAME: Final = "frame"
"""The parameter of a page that names the call whose callers and callees are shown."""

MAX_FLAME_NODES: Final = 3000
"""Rectangles of a picture; what is narrower cannot be seen."""

WHERE_FROM: Final = {
    "host": "Host time.",
    "device": "Device time, charged to the calls that launched the work.",
}


@dataclass(frozen=True, slots=True)
class Stacks:
    """The stacks of calls of a run.

    Attributes:
        rows: names from the outermost to the innermost, time in the innermost alone (ns), calls of it.
        weight: `host` or `device`: what the time is of.
        result: the answer of `flame` that they are of.
    """

    rows: tuple[tuple[Path, int, int], ...]
    weight: str
    result: Result


def stacks_of(job: Job, select: Selection, *, weight: str = "auto", frames: str = "all") -> Stacks:
    """The stacks of calls; device time where there is any, unless `weight` says which; `frames`: all, or modules."""
    alone = frames == "modules"
    result = named("flame")(job, select=select, weight=weight, python=frames, operators=not alone)
    on_host = weight == "host" or any(note.code == "VALUES_ARE" and note.about == "host" for note in result.notes)
    rows = result.frame.select("stack", "value", "calls").iter_rows()
    return Stacks(
        tuple((tuple(stack.split(";")), value, calls) for stack, value, calls in rows),
        "host" if on_host else "device",
        result,
    )


def totals(rows: Iterable[tuple[Path, int, int]]) -> Iterator[tuple[Path, int, int]]:
    """Each path with the time in it and all calls inside, and its calls."""
    time: dict[Path, int] = {}
    count: dict[Path, int] = {}
    for names, value, calls in rows:
        count[names] = count.get(names, 0) + calls
        for depth in range(1, len(names) + 1):
            time[names[:depth]] = time.get(names[:depth], 0) + value
    return ((path, total, count.get(path, 0)) for path, total in time.items())


def flame(job: Job, select: Selection, *, weight: str = "auto", chosen: str = "") -> Iterator[Block]:
    """Time by call stack, and the callers and callees of the `chosen` name."""
    stacks = stacks_of(job, select, weight=weight)
    tree = joined(totals(stacks.rows), class_of_module(MODULE))
    depth = trunk(tree)
    if chosen:
        yield from _sandwich(stacks, chosen, depth)
    tree = {path[depth:]: node for path, node in tree.items() if len(path) > depth}
    note = "Calls around are above; as wide as the time in them. Modules of one class are together. "
    note += WHERE_FROM[stacks.weight]
    note += " Calls around everything are left out." if depth else ""
    yield _picture("From the program down to the kernel", tree, stacks, note)


def _sandwich(stacks: Stacks, chosen: str, depth: int) -> Iterator[Block]:
    """The calls around those of one name, and the calls inside. Of a name inside itself the outermost counts.

    The `depth` calls around everything are left out.
    """
    key = class_of_module(MODULE)
    name = key(chosen)
    callers: list[tuple[Path, int, int]] = []
    callees: list[tuple[Path, int, int]] = []
    for names, value, calls in stacks.rows:
        place = next((place for place, each in enumerate(names) if key(each) == name), -1)
        if place >= 0:
            callers.append((names[min(depth, place) : place + 1][::-1], value, 0))
            callees.append((names[place:], value, calls))
    close = Link("Close.", params={FRAME: ""})
    if not callees:
        none = say("No call is named {name} here.", name=code(chosen))
        yield NoteBlock(none, "Callers and callees", link=close)
        return
    time, whole = total(stacks.result, "value", _holding(name)), total(stacks.result, "value")
    takes = say("{name} takes {time}, {share} of all.", name=code(name), time=time, share=time / whole)
    yield NoteBlock(takes, "Callers and callees", link=close)
    around = joined(totals(callers), key)
    yield _picture("Callers", around, stacks, "What called it is above: the last caller next to it.", upward=True)
    inside = "What it called is below. Of a call inside one of its own name the outer one counts."
    yield _picture("Callees", joined(totals(callees), key), stacks, f"{inside} {WHERE_FROM[stacks.weight]}")


def _holding(name: str) -> pl.Expr:
    """Stacks in which a call has a name, all modules of a class being one."""
    key = class_of_module(MODULE)
    return pl.col("stack").map_elements(lambda stack: name in map(key, stack.split(";")), return_dtype=pl.Boolean)


def _picture(title: str, tree: Mapping[Path, Node], stacks: Stacks, note: str, *, upward: bool = False) -> IcicleBlock:
    kind = "host" if stacks.weight == "host" else "computation"
    return icicle(title, tree, kind=kind, note=note, max_nodes=MAX_FLAME_NODES, picks=FRAME, upward=upward)[0]


def trunk(tree: Mapping[Path, Node]) -> int:
    """The number of nested calls around everything, less the innermost: the way into the program."""
    whole = sum(node.time for path, node in tree.items() if len(path) == 1)
    depth = 0
    while True:
        here = [node.time for path, node in tree.items() if len(path) == depth + 1 and node.time]
        if here != [whole]:
            return max(depth - 1, 0)
        depth += 1
