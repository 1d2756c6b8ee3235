"""The summary of a job: where the time of a step goes, what to change, what is odd about the traces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from kinetoscope.advisor.advice import advise
from kinetoscope.analyses import named
from kinetoscope.engines.threads import Threads
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import ALL, Selection, default_to_steady
from kinetoscope.outputs.opening import opened, stored
from kinetoscope.pages.parts.digest import QUESTIONS, QUESTIONS_ACROSS_RANKS, Digest, digest
from kinetoscope.reading import Readable
from kinetoscope.schema import Result

_LARGEST_BYTES: Final = 300_000_000
"""Bytes of JSON up to which all ranks are kept and the rules of `advise` are asked; more would take long."""

_PACKED_RATIO: Final = 15
"""So many times larger is JSON than its gzip or zstd, or than the same trace as Parquet."""


def summary(of: Job | Readable, *, select: Selection = ALL, jobs: int | None = None) -> Digest:
    """Where the time of a step goes, the largest loss, and what to change, on one screen.

    Of large traces the rules are not asked, and ranks are not compared.

    Args:
        of: a job, or what `read` takes.
        select: what is looked at; by default all steps without the warm-up.
        jobs: how many traces to work on at once; by default all.

    Raises:
        InputError: no rank can be read.
    """
    job, select = opened(of), default_to_steady(select)

    def ask(job: Job, asked: Mapping[str, Mapping[str, Any]]) -> dict[str, Result]:
        return job.ask({name: partial(named(name), select=select, **params) for name, params in asked.items()})

    if _text_bytes(job) > _LARGEST_BYTES:
        return digest(job.path, ask(job, QUESTIONS))
    if isinstance(job.engine, Threads):
        job = replace(job, engine=Threads(job.engine.trace, jobs=jobs or len(job), keep=len(job)))
    results = ask(job, QUESTIONS | (QUESTIONS_ACROSS_RANKS if len(job.ranks) > 1 else {}))
    return digest(job.path, results, advise(job, select=select))


def _text_bytes(job: Job) -> int:
    """About how much JSON the files hold; of files whose size is not known, much."""
    total = 0
    for source in job.sources:
        size = stored((source,))
        total += _LARGEST_BYTES + 1 if size is None else size * (1 if source.name.endswith(".json") else _PACKED_RATIO)
    return total
