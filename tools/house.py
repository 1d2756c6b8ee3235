"""Counts what the code is made of: lines, complexity, what a module needs, circles of imports, words.

    python tools/house.py [CHECKOUT]

prints lines by folder, and the counts that `tests/test_house.py` holds with others of their kind. Definitions:

*Logic*: lines that are not blank, a comment, a docstring, an import, a signature or a declaration (a constant of a
module, a field of a class).
*Strict* complexity of a function: 1, and 1 for each `if`, loop, `except`, conditional expression, `assert`,
comprehension, condition of one, and further operand of `and` or `or`; those of functions inside it count, too.
*mccabe*: `if`, loop, `except`, comprehension.
*Names* of a module: those that it imports from other modules of ours.
*Circles*: modules that import each other, wherever the import stands, as `docs/house.py` counts them; *eager* ones by
imports at the top alone.
*Climbing arrows* in `model/`: the fewest that have to go so that no room imports another in a circle, as the order of
rooms in `pyproject.toml` has it.
*Names with words*: a function, class, parameter, variable or attribute that is given a name of which a part is one of
`WORDS`. *Lines with words*: lines on which one stands, also as a part of a name.
*Without noun*: docstrings whose first word is one of `NO_NOUN`.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Final

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from docs import house

ROOT: Final = Path(__file__).resolve().parents[1]

WORDS: Final = ("found", "told", "judged", "beside", "lest", "what_it", "few", "alike", "kept")
"""Words that say nothing of what they name."""

NO_NOUN: Final = ("What", "Which", "Whether", "Where", "Of", "Those")
"""First words of a sentence that names no thing."""

MAX_COMPLEXITY: Final = 10

NEEDING: Final = {"analysis": "analyses/", "rule": "advisor/rules/", "page": "pages/"}
"""Kinds of modules of which it is counted what they need, and their folders."""

LINE_KINDS: Final = ("logic", "docstring", "import", "signature", "declaration", "comment", "blank")

Function = ast.FunctionDef | ast.AsyncFunctionDef

_BRANCHES: Final = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.comprehension)
_COUNTED: Final = (*_BRANCHES, ast.IfExp, ast.Assert, ast.BoolOp)
_WORD: Final = re.compile(f"(?<![a-zA-Z])(?:{'|'.join(WORDS)})(?![a-zA-Z])", re.IGNORECASE)


@dataclass(frozen=True)
class Module:
    """A module of the package: its path below it, and its text."""

    path: str
    file: Path

    @cached_property
    def text(self) -> str:
        """All of it."""
        return self.file.read_text("utf-8")

    @property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All nodes of its syntax tree."""
        return house.nodes(self.file)

    @property
    def functions(self) -> list[Function]:
        """The functions, also those inside others."""
        return [node for node in self.nodes if isinstance(node, Function)]

    @property
    def docstrings(self) -> list[str]:
        """The docstrings of the module, its classes and functions."""
        documented = (node for node in self.nodes if isinstance(node, (ast.Module, ast.ClassDef, Function)))
        return list(filter(None, map(ast.get_docstring, documented)))

    @property
    def imports(self) -> set[tuple[str, str]]:
        """Module and name of each import of ours."""
        froms = [node for node in self.nodes if isinstance(node, ast.ImportFrom)]
        ours = [(node, node.module) for node in froms if node.module and node.module.startswith("kinetoscope")]
        return {(module, alias.name) for node, module in ours for alias in node.names}

    @property
    def given_names(self) -> Iterator[str]:
        """The names that it gives."""
        for node in self.nodes:
            if isinstance(node, (Function, ast.ClassDef)):
                yield node.name
            elif isinstance(node, ast.arg):
                yield node.arg
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                yield node.attr

    @property
    def line_kinds(self) -> list[str]:
        """The kind of each line."""
        lines = self.text.splitlines()
        kinds = ["logic"] * len(lines)
        for kind, first, last in sorted(_ranges(self.nodes), key=lambda each: LINE_KINDS[::-1].index(each[0])):
            kinds[first - 1 : last] = [kind] * (last - first + 1)
        bare = [line.strip() for line in lines]
        return ["blank" if not line else "comment" if line[0] == "#" else kinds[at] for at, line in enumerate(bare)]


def _ranges(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, int, int]]:
    """Kind, first and last line of what is no logic."""
    for node in nodes:
        if isinstance(node, (ast.Module, ast.ClassDef)):
            fields = (each for each in node.body if isinstance(each, (ast.Assign, ast.AnnAssign)))
            yield from (("declaration", each.lineno, each.end_lineno or 0) for each in fields)
        if isinstance(node, (Function, ast.ClassDef)):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            yield "signature", first, max(node.lineno, node.body[0].lineno - 1)
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield "import", node.lineno, node.end_lineno or 0
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield "docstring", node.lineno, node.end_lineno or 0


def modules(root: Path = ROOT) -> list[Module]:
    """The modules of the package in a checkout."""
    source = root / "src" / "kinetoscope"
    return [Module(path.relative_to(source).as_posix(), path) for path in sorted(source.rglob("*.py"))]


# --- complexity


def complexity(function: Function, *, strict: bool = True) -> int:
    """That of a function, as the docstring of this module defines it."""
    counted = [node for node in ast.walk(function) if isinstance(node, _COUNTED)]
    if not strict:
        return 1 + sum(isinstance(node, _BRANCHES) for node in counted)
    operands = sum(len(node.values) - 2 for node in counted if isinstance(node, ast.BoolOp))
    conditions = sum(len(node.ifs) for node in counted if isinstance(node, ast.comprehension))
    return 1 + len(counted) + operands + conditions


def complex_share(of: Sequence[Module], *, strict: bool = True) -> float:
    """The percentage of functions beyond `MAX_COMPLEXITY`."""
    functions = [function for module in of for function in module.functions]
    return 100 * sum(complexity(each, strict=strict) > MAX_COMPLEXITY for each in functions) / len(functions)


# --- what a module needs, and who imports whom


def needs(of: Sequence[Module], folder: str) -> tuple[float, float]:
    """Medians of the names, and of the modules, that the modules of a folder import."""
    imports = [each.imports for each in of if each.path.startswith(folder) and not each.path.endswith("__init__.py")]
    return median(map(len, imports)), median(len({module for module, _ in each}) for each in imports)


def in_circles(graph: house.Graph) -> int:
    """How many modules import each other."""
    return sum(map(len, house.circles(graph)))


def graph_of(of: Sequence[Module], *, eager: bool = False) -> house.Graph:
    """Module → modules that it imports; `eager`: at its top."""
    names = (["kinetoscope", *Path(each.path).with_suffix("").parts] for each in of)
    known = {
        ".".join(name[:-1] if name[-1] == "__init__" else name): each.file for name, each in zip(names, of, strict=True)
    }
    return {name: {*house.imports(path, known, eager=eager)} - {name} for name, path in known.items()}


def arrows_in_model(graph: house.Graph) -> tuple[int, int]:
    """How many pairs of rooms of the model import one another, and how many of these climb."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    rows = next(each["layers"] for each in contracts if each["id"] == "model")
    floor = {room: at for at, row in enumerate(rows) for room in row.split(" | ")}
    rooms = {name: house.room(name, "kinetoscope.model") for name in graph}
    pairs = {(rooms[one], rooms[two]) for one, others in graph.items() for two in others}
    arrows = {(one, two) for one, two in pairs if one and two and one != two}
    return len(arrows), sum(floor.get(one, 0) >= floor.get(two, len(rows)) for one, two in arrows)


# --- words


def names_with_words(of: Sequence[Module]) -> int:
    """Given names of which a part is one of `WORDS`."""
    return sum(_WORD.search(name) is not None for module in of for name in module.given_names)


def lines_with_words(of: Sequence[Module]) -> int:
    """Lines on which one of `WORDS` stands."""
    return sum(_WORD.search(line) is not None for module in of for line in module.text.splitlines())


def without_noun(of: Sequence[Module]) -> int:
    """Docstrings that begin with one of `NO_NOUN`."""
    return sum(text.split(None, 1)[0] in NO_NOUN for module in of for text in module.docstrings)


HELD: Final[dict[str, Callable[[Sequence[Module]], float]]] = {
    "names that an analysis imports (median)": lambda of: needs(of, NEEDING["analysis"])[0],
    "modules in circles of imports": lambda of: in_circles(graph_of(of)),
    "functions of strict complexity above 10 (%)": lambda of: round(complex_share(of), 1),
    "names with a word of the list": names_with_words,
    "docstrings without a noun": without_noun,
}
"""The counts that may only fall, by what CONTRIBUTING calls them."""


def report(root: Path) -> Iterator[str]:
    """All counts of a checkout, a line each."""
    of = modules(root)
    folders = sorted({each.path.partition("/")[0] for each in of if "/" in each.path})
    yield f"{'':14}{'files':>7}{'lines':>9}" + "".join(f"{kind:>13}" for kind in LINE_KINDS)
    for folder in (*folders, ""):
        chosen = [each for each in of if each.path.startswith(f"{folder}/" if folder else "")]
        kinds = [kind for each in chosen for kind in each.line_kinds]
        counts = "".join(f"{kinds.count(kind):13,}" for kind in LINE_KINDS)
        yield f"{folder or 'all':14}{len(chosen):7,}{len(kinds):9,}{counts}"
    yield ""
    yield from (f"{name:48}{count(of):8g}" for name, count in HELD.items())
    for kind, folder in NEEDING.items():
        names, imported = needs(of, folder)
        yield f"{f'{kind}: names, modules that it imports (median)':48}{names:8g}{imported:8g}"
    graph = graph_of(of)
    arrows, climbing = arrows_in_model(graph)
    yield f"{'arrows between rooms of the model, and climbing':48}{arrows:8}{climbing:8}"
    yield f"{'modules in circles of imports at the top':48}{in_circles(graph_of(of, eager=True)):8}"
    yield f"{'functions of mccabe above 10 (%)':48}{complex_share(of, strict=False):8.1f}"
    yield f"{'lines with a word of the list':48}{lines_with_words(of):8}"
    yield f"{'docstrings':48}{sum(len(each.docstrings) for each in of):8}"


if __name__ == "__main__":
    print("\n".join(report(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT)))
