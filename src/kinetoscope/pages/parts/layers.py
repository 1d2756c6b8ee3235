"""Layers of one class together: torch numbers the modules of a class, and a picture of 24 alike says less than one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from kinetoscope.views.numbers import grouped, shown

Path = tuple[str, ...]

_NUMBERED: Final = re.compile(r"(.+)_\d+")


@dataclass(slots=True)
class Node:
    """A place of the tree: time in all, calls, and the paths that are joined in it."""

    time: int = 0
    calls: int = 0
    paths: set[Path] = field(default_factory=set)

    def label(self, name: str) -> str:
        """`24 × Qwen2DecoderLayer`; of one its own name."""
        if len(self.paths) == 1:
            return next(iter(self.paths))[-1]
        return f"{grouped(len(self.paths))} × {name}"

    def words(self) -> str:
        """Calls, and what one of several takes."""
        calls = f"{grouped(self.calls)} call{'s' * (self.calls != 1)}" if self.calls else ""
        each = f"{shown(self.time / len(self.paths), 'ns')} each" if len(self.paths) > 1 else ""
        return ", ".join(part for part in (calls, each) if part)


def joined(nodes: Iterable[tuple[Path, int, int]], prefix: str = "") -> dict[Path, Node]:
    """Nodes of a tree, each path with time and calls, by paths in which the numbers of modules are left out.

    `prefix` is how the names of modules begin; only these are joined.
    """
    nodes_by_path: dict[Path, Node] = {}
    keys: dict[str, str] = {}
    for path, time, calls in nodes:
        key = tuple(keys.setdefault(name, _class(name, prefix)) for name in path)
        node = nodes_by_path.setdefault(key, Node())
        node.time += time
        node.calls += calls
        node.paths.add(path)
    return nodes_by_path


def _class(name: str, prefix: str) -> str:
    match = _NUMBERED.fullmatch(name)
    return match[1] if match and name.startswith(prefix) else name
