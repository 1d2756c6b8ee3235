"""`kinetoscope summary PATH`: where a step goes, the largest loss, and what to type next, on one screen."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from kinetoscope.cli.shared.open_job import chosen, opened, stored
from kinetoscope.cli.shared.options import Parser, add_engine, add_reading, add_selection
from kinetoscope.readers.job.discovery import common_name

if TYPE_CHECKING:
    from kinetoscope.advisor.advice import Advice
    from kinetoscope.cli.shared.progress import Meter
    from kinetoscope.model.job import Job
    from kinetoscope.model.steps.selection import Selection
    from kinetoscope.schema import Result

_LARGEST: Final = 300_000_000
"""Bytes of JSON up to which all ranks are kept and the rules of `advise` are asked; more would take long."""

_PACKED: Final = 15
"""So many times larger is JSON than its gzip or zstd, or than the same trace as Parquet."""


def run(arguments: list[str]) -> int:
    """Ask the analyses and draw the screen."""
    parser = Parser(prog="kinetoscope summary", description=__doc__)
    add_reading(parser)
    add_engine(parser)
    add_selection(parser)
    args = parser.parse_args(arguments)
    with opened(args) as (job, meter):
        from kinetoscope.model.steps.selection import settled
        from kinetoscope.pages.parts.digest import digest

        small = _text_bytes(job) <= _LARGEST
        answers = _all_of if small else _one_by_one
        results, advice = answers(job, meter, settled(chosen(args)), args.jobs)
        found = digest(common_name(args.path), results, advice)
    from kinetoscope.cli.screens.summary import lines
    from kinetoscope.cli.shared.output import width, write_lines

    write_lines(lines(found, width=width()))
    return 0


# (results by name, and what to change)
Answers = tuple[dict[str, "Result"], "Advice | None"]


def _all_of(job: Job, meter: Meter, select: Selection, jobs: int | None) -> Answers:
    """All questions, with the traces of all ranks in memory; what is told of several ranks is told of all together."""
    from kinetoscope.advisor.advice import advise
    from kinetoscope.analyses import named
    from kinetoscope.engines.threads import Threads
    from kinetoscope.pages.parts.digest import ACROSS, ASKED
    from kinetoscope.readers.registry import load

    if isinstance(job.engine, Threads):
        kept = Threads(partial(load, progress=meter), jobs=jobs or len(job), keep=len(job))
        job = replace(job, engine=kept)
    asked = ASKED | (ACROSS if len(job.ranks) > 1 else {})
    results = {name: named(name)(job, select=select, **params) for name, params in asked.items()}
    return results, advise(job, select=select)


def _one_by_one(job: Job, meter: Meter, select: Selection, jobs: int | None) -> Answers:
    """What can be asked with the traces of a few ranks in memory at a time."""
    from kinetoscope.cli.shared.asking import ask
    from kinetoscope.pages.parts.digest import ASKED

    return ask(job, ASKED, meter, jobs=jobs, select=select), None


def _text_bytes(job: Job) -> int:
    """About how much JSON the files hold; of files whose size is not known, much."""
    total = 0
    for source in job.sources:
        size = stored((source,))
        total += _LARGEST + 1 if size is None else size * (1 if source.name.endswith(".json") else _PACKED)
    return total
