"""The table of comparisons: a row for each section of a golden file and each analysis that answers it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final

from tests.golden import comparisons, hta, plugin, tracelens
from tests.golden.outcome import Agrees, CannotApply, Differs, Outcome

PACKAGES: Final[dict[str, ModuleType]] = {"hta": hta, "plugin": plugin, "tracelens": tracelens}
"""The peers."""

FILE: Final = Path(__file__).parent / "outcomes.tsv"
"""What each comparison comes to, a row a line; `python -m tests.golden` writes it."""


@dataclass(frozen=True, order=True)
class Row:
    """A comparison: the peer, its golden file, what of it, and which analysis answers (`-` for none)."""

    peer: str
    name: str
    section: str
    analysis: str

    def __str__(self) -> str:
        return f"{self.peer}/{self.name}/{self.section}/{self.analysis}"

    def line(self) -> str:
        """As in the file."""
        return "\t".join((self.peer, self.name, self.section, self.analysis))


def modules(peer: str) -> list[ModuleType]:
    """The comparisons with a peer: each has the analysis, the sections that it answers, and `compare`."""
    names = sorted(module.name for module in pkgutil.iter_modules(comparisons.__path__))
    return [importlib.import_module(f"{comparisons.__name__}.{name}") for name in names if name.startswith(f"{peer}_")]


def rows() -> Iterator[Row]:
    """All rows there are golden values for. A section that nothing answers has a row without an analysis."""
    for peer, package in PACKAGES.items():
        for name, section in package.sections():
            answered = [module.ANALYSIS for module in modules(peer) if section in module.SECTIONS]
            for analysis in answered or ["-"]:
                yield Row(peer, name, section, analysis)


def outcome(row: Row) -> Outcome:
    """Make the comparison."""
    package = PACKAGES[row.peer]
    if row.analysis == "-":
        return CannotApply(package.NOT_THIS[row.section])
    case = package.Case(row.name, row.section)
    if case.error:
        return CannotApply(f"{package.NAME} fails here")
    found: Outcome = _comparison(row).compare(case)
    return found


def _comparison(row: Row) -> ModuleType:
    fitting = (each for each in modules(row.peer) if row.analysis == each.ANALYSIS and row.section in each.SECTIONS)
    return next(fitting)


def expected() -> dict[Row, str]:
    """The committed outcomes."""
    lines = FILE.read_text().splitlines()
    return {Row(*parts[:4]): parts[4] for parts in (line.split("\t") for line in lines)}


def kind(text: str) -> type[Outcome]:
    """Of which kind an outcome is, from its text."""
    return Agrees if text.startswith("agrees") else Differs if text.startswith("differs: ") else CannotApply


def names(text: str) -> list[str]:
    """The names of the differences in an outcome, from its text."""
    return text.removeprefix("differs: ").split(", ") if text.startswith("differs: ") else []
