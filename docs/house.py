"""Draws which folder imports which: docs/images/house.svg for the whole package, house-model.svg for `model/`.

`python docs/generate.py` writes both, and `--check` says when they are stale. `python docs/house.py` prints the circles
that the imports make between folders and between modules, and exits with 1 if there is any. An arrow that follows from
others is left out: if the page imports the advisor and the advisor the model, the picture has no third arrow.
"""

from __future__ import annotations

import ast
import functools
import gc
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "kinetoscope"
PACKAGES = {"house.svg": "kinetoscope", "house-model.svg": "kinetoscope.model"}

WIDTH, BOX, FLOOR, LETTER, MARGIN = 1000, 36, 84, 8.2, 20
"""Of the picture, the height of a box and of a floor, the width of a letter, and what stays free; in pixels."""

Graph = dict[str, set[str]]
"""Folder or module → those that it imports."""


def pictures() -> dict[str, str]:
    """File name to text."""
    return {name: svg(graph(package)) for name, package in PACKAGES.items()}


# --- who imports what


def modules() -> dict[str, Path]:
    """Each module by its dotted name."""
    named = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return named


@functools.cache
def tree(path: Path) -> ast.Module:
    """The syntax tree of a module."""
    gc.disable()  # it would visit a million nodes again and again, four fifths of the time
    try:
        return ast.parse(path.read_text("utf-8"))
    finally:
        gc.enable()


@functools.cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a module's syntax tree."""
    return tuple(ast.walk(tree(path)))


def imports(path: Path, known: Mapping[str, Path], *, eager: bool = False) -> Iterator[str]:
    """The modules of ours that a module imports, inside functions and for types too; `eager`: at its top alone."""
    for node in tree(path).body if eager else nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in known else str(node.module)


def room(module: str, package: str) -> str:
    """The folder, or the lone module, of a package that a module is in; "" if none."""
    rest = module.removeprefix(f"{package}.").split(".")
    return rest[0] if module.startswith(f"{package}.") and rest[0] != "__main__" else ""


def graph_of_modules() -> Graph:
    """Module → modules that it imports."""
    known = modules()
    return {module: {*imports(path, known)} - {module} for module, path in known.items()}


def graph(package: str) -> Graph:
    """Folder of a package → folders that it imports."""
    known = modules()
    found: Graph = {name: set() for name in (room(module, package) for module in known) if name}
    for module, path in known.items():
        for other in imports(path, known):
            one, two = room(module, package), room(other, package)
            if one and two and one != two:
                found[one].add(two)
    return found


# --- order


def reached(graph: Graph, start: str) -> set[str]:
    """All that a folder or module imports, directly or not."""
    seen: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += graph[name]
    return seen


def circles(graph: Graph) -> list[set[str]]:
    """Folders, or modules, that import each other, by whatever way."""
    below = {name: reached(graph, name) for name in graph}
    groups = {frozenset({name, *(other for other in below[name] if name in below[other])}) for name in graph}
    return sorted((set(group) for group in groups if len(group) > 1), key=sorted)


def reduced(graph: Graph) -> Graph:
    """Without the arrows that follow from others."""
    below = {name: reached(graph, name) for name in graph}
    return {
        name: {two for two in others if not any(two in below[via] for via in others - {two})}
        for name, others in graph.items()
    }


def floors(graph: Graph) -> tuple[list[list[str]], dict[tuple[str, str], list[str]]]:
    """The rows from the top, who imports above what it imports; and the stations of each arrow, from box to box.

    An arrow that passes a floor has a station there, which takes its place in the row, so that no box hides it.
    """
    height: dict[str, int] = {}

    def level(name: str) -> int:
        if name not in height:
            height[name] = 1 + max((level(other) for other in graph[name]), default=-1)
        return height[name]

    rows = [sorted(name for name in graph if level(name) == each) for each in range(max(map(level, graph)) + 1)]
    ways = {}
    for one, two in sorted((one, two) for one, others in graph.items() for two in others):
        passed = [f"{one}>{two}>{each}" for each in range(height[one] - 1, height[two], -1)]
        ways[one, two] = [one, *passed, two]
        for each in passed:
            rows[int(each.rpartition(">")[2])].append(each)
    pairs = [pair for way in ways.values() for pair in pairwise(way)]
    joined = {name: [b if a == name else a for a, b in pairs if name in (a, b)] for row in rows for name in row}
    for _ in range(12):
        for row in [*rows, *rows[::-1]]:
            place = {name: (at + 0.5) / len(each) for each in rows for at, name in enumerate(each)}
            middle = {name: sum(place[each] for each in joined[name]) / max(len(joined[name]), 1) for name in row}
            row.sort(key=lambda name, middle=middle: (middle[name], name))  # type: ignore[misc]
    return rows[::-1], ways


# --- drawing


class Box(NamedTuple):
    """Of a folder, or a station of an arrow; in pixels."""

    left: float
    top: int
    width: float

    @property
    def middle(self) -> float:
        return self.left + self.width / 2

    def towards(self, other: Box) -> float:
        """Where an arrow to or from another box begins or ends."""
        return self.middle + 0.8 * self.width * max(min((other.middle - self.middle) / WIDTH, 0.5), -0.5)


def svg(graph: Graph) -> str:
    rows, ways = floors(reduced(graph))
    boxes: dict[str, Box] = {}
    for down, row in enumerate(rows):
        widths = [max(len(name), 10) * LETTER + 26 if name in graph else 10.0 for name in row]
        free = (WIDTH - 2 * MARGIN - sum(widths)) / len(row)
        left = MARGIN + free / 2
        for name, width in zip(row, widths, strict=True):
            boxes[name] = Box(left, MARGIN + down * FLOOR, width)
            left += width + free
    height = 2 * MARGIN + (len(rows) - 1) * FLOOR + BOX
    parts = _STYLE.format(width=WIDTH, height=height).splitlines()
    parts += [_arrow([boxes[name] for name in way]) for way in ways.values()]
    parts += [_box(name, boxes[name]) for name in sorted(graph)]
    return "\n".join([*parts, "</svg>"]) + "\n"


_STYLE = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="ui-monospace, Menlo, monospace">
<style>
rect {{ fill: #eef3fb; stroke: #2f5d9b; stroke-width: 1.2 }}
text {{ text-anchor: middle; font-size: 14px; fill: #14233a }}
.paper {{ fill: #ffffff; stroke: none }}
.arrow {{ fill: none; stroke: #7d8ea6; stroke-width: 1.2 }}
</style>
<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0 0L8 4L0 8z" fill="#7d8ea6"/></marker>
<rect class="paper" width="{width}" height="{height}"/>"""


def _box(name: str, box: Box) -> str:
    return (
        f'<rect x="{box.left:.0f}" y="{box.top}" width="{box.width:.0f}" height="{BOX}" rx="6"/>'
        f'<text x="{box.middle:.0f}" y="{box.top + 23}">{escape(name)}</text>'
    )


def _arrow(way: Sequence[Box]) -> str:
    """From the bottom of a box to the top of another, straight through the floors between."""
    x, y = way[0].towards(way[1]), way[0].top + BOX
    path = f"M{x:.0f} {y}"
    for above, box in pairwise(way):
        end = box.towards(above)
        path += f"C{x:.0f} {y + 25} {end:.0f} {box.top - 25} {end:.0f} {box.top}"
        x, y = end, box.top + BOX
        path += f"V{y}" if box is not way[-1] else ""
    return f'<path class="arrow" marker-end="url(#head)" d="{path}"/>'


def main() -> int:
    graphs = {package: graph(package) for package in PACKAGES.values()} | {"modules": graph_of_modules()}
    all_circles = [(name, circle) for name, each in graphs.items() for circle in circles(each)]
    for name, circle in all_circles:
        print(f"{name}: {', '.join(sorted(circle))} import each other")
    return 1 if all_circles else 0


if __name__ == "__main__":
    sys.exit(main())
