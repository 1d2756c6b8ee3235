"""Trees of calls as pictures; layers of one class are together: 24 alike say less than one that stands for all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from kinetoscope.pages.blocks import IcicleBlock
from kinetoscope.views.names import short_names
from kinetoscope.views.numbers import grouped, shown, significant
from kinetoscope.views.sentences import EMPTY, constant, join, say

Path = tuple[str, ...]

_NUMBERED: Final = re.compile(r"(.+)_\d+")


@dataclass(slots=True)
class Node:
    """A place of the tree: time in all, calls, and the paths that are joined in it."""

    time: int = 0
    calls: int = 0
    paths: set[Path] = field(default_factory=set)

    def name(self, key: str, alike: int) -> str:
        """The name of what is alike; of one its own."""
        return next(iter(self.paths))[-1] if alike == 1 else key

    def words(self, steps: int = 1) -> str:
        """Calls, and what one of several takes in one of so many steps."""
        calls = f"{_count(self.calls / steps)} call{'s' * (self.calls != steps)}" if self.calls else ""
        each = f"{shown(self.time / steps / len(self.paths), 'ns')} each" if len(self.paths) > 1 else ""
        return ", ".join(part for part in (calls, each) if part)


def class_of_module(prefix: str = "") -> Callable[[str], str]:
    """A function of names: torch numbers the modules of a class, and the number is left out.

    `prefix` is how the names of modules begin; other names stay.
    """

    def key(name: str) -> str:
        match = _NUMBERED.fullmatch(name)
        return match[1] if match and name.startswith(prefix) else name

    return key


def joined(nodes: Iterable[tuple[Path, int, int]], key: Callable[[str], str]) -> dict[Path, Node]:
    """Nodes of a tree, each path with time and calls, by paths of the keys of their names."""
    nodes_by_path: dict[Path, Node] = {}
    keys: dict[str, str] = {}
    for path, time, calls in nodes:
        place = tuple(keys.get(name) or keys.setdefault(name, key(name)) for name in path)
        node = nodes_by_path.setdefault(place, Node())
        node.time += time
        node.calls += calls
        node.paths.add(path)
    return nodes_by_path


def icicle(
    title: str,
    tree: Mapping[Path, Node],
    *,
    kind: str,
    note: str,
    max_nodes: int,
    picks: str = "",
    upward: bool = False,
    steps: int = 1,
) -> tuple[IcicleBlock, list[Path]]:
    """The picture of a tree in one of so many steps, and the path of each node.

    What is too narrow to be seen is left out; the note says how much that is.
    """
    widest = sorted((path for path in tree if tree[path].time), key=lambda path: (-tree[path].time, path))
    order = sorted(widest[:max_nodes], key=lambda path: (len(path), -tree[path].time, path))
    places = {path: place for place, path in enumerate(order)}
    left_out = len(widest) - len(order)
    # The callers of one thing are as many as their names: their paths end in the different things that were called.
    alike = [len({each[-1] for each in tree[path].paths} if upward else tree[path].paths) for path in order]
    names = [tree[path].name(path[-1], count) for path, count in zip(order, alike, strict=True)]
    picture = IcicleBlock(
        title,
        names,
        [places.get(path[:-1], -1) for path in order],
        [tree[path].time / steps if steps > 1 else tree[path].time for path in order],
        [kind] * len(order),
        ["" if upward else tree[path].words(steps) for path in order],
        alike,
        note=join([note, say("{count} narrow ones are left out.", count=constant(left_out)) if left_out else EMPTY]),
        short=short_names(pl.DataFrame({"name": names}, schema={"name": pl.String})),
        picks=picks,
        upward=upward,
    )
    return picture, order


def _count(calls: float) -> str:
    return grouped(int(calls)) if calls == int(calls) else significant(calls)
