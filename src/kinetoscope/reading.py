"""`read(path)`: finds the files of a run, tells ranks apart, picks reader and engine, hands out the Job."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from kinetoscope.engines.threads import Threads
from kinetoscope.errors import BrokenTraceError, NotATraceError, NotFoundError, UsageError
from kinetoscope.model.job import Engine, Job
from kinetoscope.model.naming import listed
from kinetoscope.model.source import DEFAULT_MAX_EVENT, DEFAULT_MAX_SIZE, Options, Source
from kinetoscope.model.trace import Trace
from kinetoscope.readers import kineto, parquet
from kinetoscope.readers.discovery import Look, find, is_parquet, look, rank_in_name
from kinetoscope.readers.stream import Progress

READERS: Final[dict[str, Callable[..., Trace]]] = {kineto.NAME: kineto.load, parquet.NAME: parquet.load}
"""Readers by name: each loads a Source."""

ENGINES: Final = ("threads",)
"""Engines by name."""


def read(
    path: str | os.PathLike[str],
    *,
    ranks: Iterable[int] | None = None,
    jobs: int | None = None,
    engine: str = "threads",
    max_size: int = DEFAULT_MAX_SIZE,
    max_event: int = DEFAULT_MAX_EVENT,
    progress: Progress | None = None,
) -> Job:
    """The job at a path. Nothing but the beginnings of the files is read until a question is asked.

    Args:
        path: a file, a folder (of traces, or one that `convert --to parquet` made), a glob pattern or an fsspec URL.
        ranks: only these ranks.
        jobs: how many traces to work on at once; as many as there are cores by default.
        engine: where to work on them.
        max_size: bytes of text in one file beyond which reading stops (a guard against gzip bombs).
        max_event: bytes of one event beyond which reading stops.
        progress: told how many more bytes, as stored, have been read.

    Raises:
        NotFoundError: there is no such file, or no trace in the folder.
        NotATraceError: there are several files, and none of them is a trace.
        UsageError: no such engine, or none of the ranks asked for.
    """
    if engine not in ENGINES:
        raise UsageError(f"there is no engine {engine!r}; engines: {', '.join(ENGINES)}")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    at_once = max(1, jobs or cores)
    text = os.fspath(path)
    sources, notes = assign(text, find(text))
    if ranks is not None:
        sources, said = _chosen(text, sources, set(ranks))
        notes += said
    options = Options(max_size, max_event, threads=max(1, at_once // min(at_once, len(sources))))
    engine_: Engine = Threads(partial(load, progress=progress), jobs=at_once, keep=1 if len(sources) == 1 else 0)
    return Job(text, tuple(replace(source, options=options) for source in sources), engine_, tuple(notes))


def _chosen(path: str, sources: list[Source], ranks: set[int]) -> tuple[list[Source], list[str]]:
    there = {source.rank for source in sources}
    if not ranks & there:
        raise UsageError(f"{path} has none of the ranks asked for ({listed(ranks)}); it has {listed(there)}")
    notes = [f"Ranks {listed(ranks - there)} were asked for and are not there."] if ranks - there else []
    return [source for source in sources if source.rank in ranks], notes


def load(source: Source, *, progress: Progress | None = None) -> Trace:
    """The trace of a source, by the reader that it names."""
    return READERS[source.reader](source, progress=progress)


def assign(path: str, files: list[str]) -> tuple[list[Source], list[str]]:
    """Give each trace among the files its rank and cycle, and say what was assumed.

    Ranks are told by `distributedInfo`, else by the name, else by order of name. Files of one rank are cycles.

    Raises:
        NotFoundError: the only file cannot be read.
        NotATraceError: there are several files, and none of them is a trace.
    """
    if len(files) == 1:
        return [_source(files[0], _look_into(files[0]).rank or 0)], []
    found = [_look(file) for file in files]
    traces = [each for each in found if not each.other]
    others = [f"{os.path.basename(each.file)} ({each.other})" for each in found if each.other]
    if not traces:
        raise NotATraceError(f"{path}: none of {len(files)} files is a Kineto trace: {_shortened(others)}")
    notes = [f"Not a trace and left out: {_shortened(others)}."] if others else []
    unknown = sum(each.rank is None for each in traces)
    if unknown and len(traces) > 1:
        notes.append(f"{unknown} of {len(traces)} files do not say their rank; they are numbered in order of name.")
    taken = {each.rank for each in traces}
    free = (rank for rank in range(len(files)) if rank not in taken)
    cycles: Counter[int] = Counter()
    sources = []
    for each in traces:
        rank = next(free) if each.rank is None else each.rank
        sources.append(_source(each.file, rank, cycles[rank]))
        cycles[rank] += 1
    notes += _on_ranks(cycles, max(each.world for each in traces))
    return sorted(sources, key=lambda source: (source.rank, source.cycle)), notes


def _on_ranks(cycles: Counter[int], world: int) -> list[str]:
    """What to say about ranks that have several files, and about those of the job that have none."""
    notes = []
    if repeated := [rank for rank, count in cycles.items() if count > 1]:
        said = f"Several files hold the same rank ({listed(repeated)})"
        notes.append(f"{said}: they are taken as cycles of the profiler, in order of name.")
    if missing := set(range(world)) - set(cycles):
        notes.append(f"The job had {world} ranks; not here: {listed(missing)}.")
    return notes


def _shortened(texts: list[str]) -> str:
    return ", ".join([*texts[:5], f"and {len(texts) - 5} more"] if len(texts) > 5 else texts)


def _source(file: str, rank: int, cycle: int = 0) -> Source:
    return Source(file, rank, cycle, parquet.NAME if is_parquet(file) else kineto.NAME)


def _look_into(file: str) -> Look:
    return parquet.look(file) if is_parquet(file) else look(file)


def _look(file: str) -> Look:
    try:
        return _look_into(file)
    except (NotFoundError, BrokenTraceError):
        return Look(file, rank_in_name(file))  # it is named, with the reason, when it is asked
