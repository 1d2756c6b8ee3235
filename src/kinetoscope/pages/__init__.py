"""The views of the page, in the order of its menu: one module each with `page(job, select, params) -> Page`.

A page gets a job of the ranks and the cycle that it is about, the selection of the header, and its own parameters as
text. It reports what it cannot tell in `Page.cannot`, and raises only what is the asker's fault (`UsageError`).
"""

from __future__ import annotations

import importlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol, cast

if TYPE_CHECKING:
    from kinetoscope.model.job import Job
    from kinetoscope.model.steps.selection import Selection
    from kinetoscope.pages.blocks import Page

__all__ = ["ALL", "PAGES", "View", "menu", "named"]


@dataclass(frozen=True, slots=True)
class View:
    """An entry of the menu.

    Attributes:
        title: its words.
        ranks: `one`: it is about the one chosen, else the first; `all`: about all together, whichever is chosen;
            `job`: about the one chosen, else all together.
        sums: of several ranks its numbers are sums; else it shows one rank at a time.
        recorded: it is about all that was recorded, unless steps or a time are chosen; else about the steady steps.
        composed: a module of this package makes it; else the front end does.
        runs: how many runs it is about; `ALL` for all that are listed, oldest first.
        programs: kinds of programs (`program.program_kind`) that it is about; of others it is not in the menu.
        alone: kinds of files of which it is about those without a trace, too: `readers.companions` lists the kinds.
        needs: kinds of files without which there is nothing to see in it.
    """

    title: str
    ranks: Literal["one", "all", "job"] = "one"
    sums: bool = False
    recorded: bool = False
    composed: bool = True
    runs: int = 1
    programs: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()

    def is_about(self, program: str, files: Collection[str]) -> bool:
        """Test for something to see of a kind of program, or of files of a kind (`ALONE_KINDS`) without a trace.

        `files` are all kinds of files of the run.
        """
        if self.needs and not set(self.needs) & set(files):
            return False
        return program in self.alone if program in ALONE_KINDS else not self.programs or program in self.programs


SNAPSHOT: Final = "snapshot"
DUMP: Final = "flight_recorder"
HOSTS: Final = "hang"
HISTORY: Final = "history"
ALONE_KINDS: Final = (SNAPSHOT, DUMP, HOSTS, HISTORY)
"""Kinds of files that are runs without a trace: they stand in the place of the kind of program."""

_OF_HANGS: Final = (DUMP, HOSTS)
"""Kinds of files that only a run has that may hang."""


ALL: Final = 0
"""Of `View.runs`: all runs that are listed."""

CHOSEN: Final = "runs"
"""The parameter of a page about all runs that holds the ids of those that its reader chose, separated by commas."""

PAGES: Final[dict[str, View]] = {
    "overview": View("Overview", ranks="job"),
    "findings": View("What to change", ranks="all", alone=(SNAPSHOT,)),
    "timeline": View("Timeline", recorded=True, composed=False),
    "operators": View("Operators", sums=True),
    "kernels": View("Kernels", sums=True),
    "modules": View("Modules", sums=True),
    "efficiency": View("Device efficiency", sums=True),
    "memory": View("Memory", recorded=True, alone=(SNAPSHOT,)),
    "idle": View("Idle & launches", sums=True),
    "critical_path": View("Critical path"),
    "serving": View("Serving", ranks="job", recorded=True, programs=("serving", "inference")),
    "distributed": View("Distributed", ranks="all"),
    "hang": View("Hang", ranks="all", recorded=True, alone=_OF_HANGS, needs=_OF_HANGS),
    "history": View("History", ranks="all", recorded=True, alone=(HISTORY,), needs=(HISTORY,)),
    "sources": View("Sources", sums=True),
    "compare": View("Compare", ranks="job", runs=2, alone=(SNAPSHOT, HISTORY)),
    "ledger": View("Ledger", ranks="all", runs=ALL),
    "own": View("Your own", ranks="job", alone=ALONE_KINDS),
    "analyses": View("All analyses", composed=False, alone=ALONE_KINDS),
    "sql": View("SQL", ranks="all", recorded=True, composed=False, alone=ALONE_KINDS),
}
"""All views by name."""


def menu() -> tuple[str, ...]:
    """The views that there is something to see in: all, but for `own` where no extension declares an analysis."""
    from kinetoscope.analyses import OWN, groups

    return tuple(name for name in PAGES if name != "own" or OWN in groups())


def views_of(program: str, files: Collection[str]) -> tuple[str, ...]:
    """Those of the menu that there is something to see in, for a run: see `View.is_about`."""
    return tuple(name for name in menu() if PAGES[name].is_about(program, files))


def first_view(program: str) -> str:
    """The view that a run opens with."""
    return {SNAPSHOT: "memory", DUMP: "hang", HOSTS: "hang", HISTORY: "history"}.get(program, "overview")


class Composer(Protocol):
    """A module of this package that makes a page."""

    def page(self, job: Job, select: Selection, params: Mapping[str, str]) -> Page:
        """The page about `job` under the selection of the header."""
        ...


def named(name: str) -> Composer:
    """The module of a view of `PAGES` that is composed here, imported when it is first asked for."""
    return cast(Composer, importlib.import_module(f"{__name__}.{name}"))
