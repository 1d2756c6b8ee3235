"""`kinetoscope summary PATH`: where the time of a step goes, the largest loss, and the next command, on one screen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kinetoscope.cli.shared.open_job import chosen, opened, stored
from kinetoscope.cli.shared.options import Parser, add_engine, add_reading, add_selection
from kinetoscope.readers.job.discovery import common_name

if TYPE_CHECKING:
    from kinetoscope.advisor.advice import Advice
    from kinetoscope.cli.shared.progress import Meter
    from kinetoscope.model.job import Job
    from kinetoscope.model.steps.selection import Selection
    from kinetoscope.schema import Result

_LARGEST_BYTES: Final = 300_000_000
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
        from kinetoscope.model.steps.selection import default_to_steady
        from kinetoscope.pages.parts.digest import digest

        results, advice = _answers(job, meter, default_to_steady(chosen(args)), args.jobs)
        summary = digest(common_name(args.path), results, advice)
    from kinetoscope.cli.screens.summary import lines
    from kinetoscope.cli.shared.output import width, write_lines

    write_lines(lines(summary, width=width()))
    return 0


def _answers(job: Job, meter: Meter, select: Selection, jobs: int | None) -> tuple[dict[str, Result], Advice | None]:
    """Results by name, and what to change; of large traces without that and without what compares ranks."""
    from kinetoscope.analyses import named
    from kinetoscope.pages.parts.digest import QUESTIONS, QUESTIONS_ACROSS_RANKS

    def ask(job: Job, asked: Mapping[str, Mapping[str, Any]]) -> dict[str, Result]:
        return job.ask({name: partial(named(name), select=select, **params) for name, params in asked.items()})

    if _text_bytes(job) > _LARGEST_BYTES:
        return ask(job, QUESTIONS), None
    from kinetoscope.advisor.advice import advise
    from kinetoscope.engines.threads import Threads
    from kinetoscope.readers.registry import load

    if isinstance(job.engine, Threads):
        kept = Threads(partial(load, progress=meter), jobs=jobs or len(job), keep=len(job))
        job = replace(job, engine=kept)
    return ask(job, QUESTIONS | (QUESTIONS_ACROSS_RANKS if len(job.ranks) > 1 else {})), advise(job, select=select)


def _text_bytes(job: Job) -> int:
    """About how much JSON the files hold; of files whose size is not known, much."""
    total = 0
    for source in job.sources:
        size = stored((source,))
        total += _LARGEST_BYTES + 1 if size is None else size * (1 if source.name.endswith(".json") else _PACKED)
    return total
