"""Several questions to one job, with each trace read once.

Ranks are worked on side by side, each as a job of its own that keeps its trace until it has answered everything.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import polars as pl

from kinetoscope.analyses import named
from kinetoscope.engines.threads import Threads
from kinetoscope.errors import KinetoscopeError
from kinetoscope.model.job import CYCLE, Job
from kinetoscope.model.trace.source import Source
from kinetoscope.readers.files.stream import Progress
from kinetoscope.readers.registry import load
from kinetoscope.schema import Analysis, Result

Answers = dict[str, Result]
Asked = Mapping[str, dict[str, Any]]


def ask(job: Job, asked: Asked, progress: Progress, *, jobs: int | None = None, **select: Any) -> Answers:
    """The results of the named analyses, over all ranks that can be read.

    Args:
        job: whom to ask.
        asked: names of analyses, and the parameters of each.
        progress: told how many more bytes have been read.
        jobs: ranks at a time.
        select: the keyword `select` of all analyses, if anything is selected.

    Raises:
        KinetoscopeError: no rank can be read, or asked this.
    """
    wanted = {named(each): {**params, **select} for each, params in asked.items()}
    if len(job) == 1 or not isinstance(job.engine, Threads):  # workers keep what they read
        return _asked(job, wanted)
    of_rank = partial(_of_source, job, wanted, progress)
    with ThreadPoolExecutor(jobs or os.cpu_count() or 1, "kinetoscope-rank") as pool:
        answers = list(pool.map(of_rank, job.sources))
    read = [answer for answer in answers if not isinstance(answer, KinetoscopeError)]
    if not read:
        raise next(answer for answer in answers if isinstance(answer, KinetoscopeError))
    notes = (*job.notes, *_failures(job.sources, answers))
    return {analysis.name: _joined(read, analysis.name, notes) for analysis in wanted}


def _asked(job: Job, wanted: Mapping[Analysis, dict[str, Any]]) -> Answers:
    return {analysis.name: analysis(job, **params) for analysis, params in wanted.items()}


def _of_source(
    job: Job, wanted: Mapping[Analysis, dict[str, Any]], progress: Progress, source: Source
) -> Answers | KinetoscopeError:
    engine = Threads(partial(load, progress=progress), jobs=1)
    try:
        return _asked(dataclasses.replace(job, sources=(source,), engine=engine, notes=()), wanted)
    except KinetoscopeError as error:
        return error


def _failures(sources: Sequence[Source], answers: Sequence[Answers | KinetoscopeError]) -> Iterator[str]:
    for source, answer in zip(sources, answers, strict=True):
        if isinstance(answer, KinetoscopeError):
            yield f"rank {source.rank} is left out: {answer}"


def _joined(answers: Sequence[Answers], name: str, notes: Sequence[str]) -> Result:
    # Of a trace of the first cycle alone the answer does not say the cycle; of later ones it does.
    first = max((answer[name] for answer in answers), key=lambda result: result.frame.width)
    frame = pl.concat([_alike(answer[name].frame, first.frame) for answer in answers])
    said = dict.fromkeys([*notes, *(note for answer in answers for note in answer[name].notes)])
    return dataclasses.replace(first, frame=frame, notes=tuple(said))


def _alike(frame: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    if CYCLE.name in other.columns and CYCLE.name not in frame.columns:
        frame = frame.with_columns(pl.lit(0, pl.Int64).alias(CYCLE.name))
    return frame.select(other.columns)
