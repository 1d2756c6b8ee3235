"""A view of the page as a value: it shows itself on a terminal and in a notebook, and is written as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from kinetoscope.errors import UsageError, nearest
from kinetoscope.model.job import Job, Readable, job_of, part_of
from kinetoscope.model.steps.selection import ALL, Selection
from kinetoscope.pages import ALL as ALL_RUNS
from kinetoscope.pages import PAGES, View, menu
from kinetoscope.pages.answered import answered, page_of
from kinetoscope.pages.blocks import Page

ROWS: Final = 10
"""Rows of each table."""


def page(
    of: Job | Readable,
    name: str,
    *,
    select: Selection = ALL,
    base: Job | Readable | None = None,
    runs: Sequence[Job | Readable] = (),
    limit: int = ROWS,
    params: Mapping[str, str] | None = None,
) -> Page:
    """A view of the page: what it found in a sentence, its pictures in characters, the first rows of its tables.

    Args:
        of: a job, or what `read` takes. Of several ranks a view shows sums, all together, or the first.
        name: of the view, as `kinetoscope page` lists them: `overview`, `memory`, `critical_path`.
        select: what is looked at; by default the steady steps, of some views all that was recorded.
        base: the run that `compare` holds it against.
        runs: the runs before it in `ledger`, oldest first.
        limit: rows of each table; 0 for all.
        params: what the view lets its reader choose: `{"by": "stack"}`.

    Raises:
        UsageError: there is no such view, or it cannot be so chosen.
        InputError: no rank can be read.
    """
    view = view_named(name)
    job, part = part_of(of, select)
    job, facts = _ranks(view, job)
    more: dict[str, Any] = {}
    if view.runs == ALL_RUNS:
        more = {"runs": [("", job_of(each)) for each in runs] + [("", job)], "listed": len(runs) + 1}
    elif view.runs > 1:
        more = {"base": None if base is None else job_of(base)}
        if base is None:
            raise UsageError("compare needs the run to compare with: base, or --base PATH")
    made = page_of(name.replace("-", "_"), job, part, params or {}, **more)
    made = replace(made, facts=(*facts, *made.facts))
    return answered(made, job, part, rows=limit)


def view_named(name: str) -> View:
    """The view of this name, if it is composed of blocks.

    Raises:
        UsageError: it is none.
    """
    spelled = name.replace("-", "_")
    known = composed_views()
    if spelled not in known:
        raise UsageError(f"there is no page {name[:60]!r}{nearest(name[:60], known)}; pages: {', '.join(known)}")
    return PAGES[spelled]


def composed_views() -> tuple[str, ...]:
    """The views that can be shown without a browser."""
    return tuple(name for name in menu() if PAGES[name].composed)


def _ranks(view: View, job: Job) -> tuple[Job, tuple[str, ...]]:
    """The part of a job that a view is about, and a few words on it."""
    count = len(job.ranks)
    if view.ranks != "one" or count == 1:
        return job, ()
    if view.sums:
        return job, (f"sum over {count} ranks",)
    first = job.ranks[0]
    sources = tuple(source for source in job.sources if source.rank == first)
    return replace(job, sources=sources), (f"of rank {first}: one rank at a time",)
