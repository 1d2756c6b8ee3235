"""`read(path)`: finds the files of a run, tells ranks apart, picks reader and engine, hands out the Job."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from kinetoscope.engines.threads import Threads
from kinetoscope.errors import NotFoundError, UsageError
from kinetoscope.model.job import Engine, Job
from kinetoscope.model.source import DEFAULT_MAX_EVENT, DEFAULT_MAX_SIZE, Options, Source
from kinetoscope.model.trace import Trace
from kinetoscope.readers import kineto
from kinetoscope.readers.stream import Blocks, Progress, is_url

READERS: Final[dict[str, Callable[..., Trace]]] = {kineto.NAME: kineto.load}
"""Readers by name: each loads a Source."""

ENGINES: Final = ("threads",)
"""Engines by name."""

_SUFFIXES: Final = (".json", ".json.gz", ".json.zst")
_RANK_IN_TEXT: Final = re.compile(rb'"distributedInfo"\s*:\s*\{[^{}]*?"rank"\s*:\s*(\d{1,9})')
_RANK_IN_NAME: Final = re.compile(r"(?:rank|worker)[-_]?(\d{1,9})(?!\d)", re.IGNORECASE)
_HEAD: Final = 1 << 16


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
    """The job at a path. Nothing but the first bytes of the files is read until a question is asked.

    Args:
        path: a file, a folder, a glob pattern or an fsspec URL.
        ranks: only these ranks.
        jobs: how many traces to work on at once; as many as there are cores by default.
        engine: where to work on them.
        max_size: bytes of text in one file beyond which reading stops (a guard against gzip bombs).
        max_event: bytes of one event beyond which reading stops.
        progress: told how many more bytes, as stored, have been read.

    Raises:
        NotFoundError: there is no such file, or no trace in the folder.
        UsageError: no such engine, or none of the ranks asked for.
    """
    if engine not in ENGINES:
        raise UsageError(f"there is no engine {engine!r}; engines: {', '.join(ENGINES)}")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    at_once = max(1, jobs or cores)
    text = os.fspath(path)
    files = find(text)
    threads = max(1, at_once // min(at_once, len(files)))
    options = Options(max_size=max_size, max_event=max_event, threads=threads)
    sources, notes = assign(files, options)
    if ranks is not None:
        wanted = set(ranks)
        there = sorted({source.rank for source in sources})
        sources = [source for source in sources if source.rank in wanted]
        if not sources:
            raise UsageError(f"{text} has none of the ranks asked for; it has {', '.join(map(str, there[:20]))}")
    engine_: Engine = Threads(partial(load, progress=progress), jobs=at_once, keep=1 if len(sources) == 1 else 0)
    return Job(text, tuple(sources), engine_, tuple(notes))


def load(source: Source, *, progress: Progress | None = None) -> Trace:
    """The trace of a source, by the reader that it names."""
    return READERS[source.reader](source, progress=progress)


def find(path: str) -> list[str]:
    """The files that a path means, sorted by name.

    Raises:
        NotFoundError: there is no such file, or the folder holds no `*.json`, `*.json.gz` or `*.json.zst`.
    """
    if is_url(path):
        return _find_remote(path)
    if os.path.isdir(path):
        found = [
            os.path.join(folder, name)
            for folder, _, names in os.walk(path)
            for name in names
            if name.endswith(_SUFFIXES) and not name.endswith(".meta.json")
        ]
        if not found:
            raise NotFoundError(
                f"{path}: no traces in this folder (looked for *.json, *.json.gz, *.json.zst); name the folder that "
                "torch.profiler wrote to"
            )
        return sorted(found)
    if os.path.exists(path):
        return [path]
    matching = sorted(glob.glob(path, recursive=True))
    if not matching:
        raise NotFoundError(f"{path}: no such file or folder")
    return [file for match in matching for file in (find(match) if os.path.isdir(match) else [match])]


def _find_remote(path: str) -> list[str]:
    import fsspec

    try:
        system, inner = fsspec.core.url_to_fs(path)
        if glob.has_magic(inner):
            found = system.glob(inner)
        elif system.isdir(inner):
            found = [name for name in system.find(inner) if name.endswith(_SUFFIXES)]
        else:
            return [path]
    except (OSError, ValueError, ImportError) as error:
        raise NotFoundError(f"{path}: cannot be read: {error}") from error
    if not found:
        raise NotFoundError(f"{path}: no traces there (looked for *.json, *.json.gz, *.json.zst)")
    return sorted(str(system.unstrip_protocol(name)) for name in found)


def assign(files: list[str], options: Options) -> tuple[list[Source], list[str]]:
    """Give each file its rank and cycle: by `distributedInfo`, else by the name, else by order."""
    if len(files) == 1:
        rank = rank_of(files[0])
        return [Source(files[0], rank if rank is not None else 0, options=options)], []
    found = {file: rank_of(file) for file in files}
    notes = []
    unknown = [file for file, rank in found.items() if rank is None]
    if unknown:
        free = (rank for rank in range(len(files)) if rank not in set(found.values()))
        for file in unknown:
            found[file] = next(free)
        notes.append(f"{len(unknown)} of {len(files)} files do not say their rank; they are numbered by name.")
    cycles: dict[int, int] = {}
    sources = []
    for file in files:
        rank = found[file] or 0
        sources.append(Source(file, rank, cycles.get(rank, 0), options=options))
        cycles[rank] = cycles.get(rank, 0) + 1
    repeated = sum(count > 1 for count in cycles.values())
    if repeated:
        notes.append(f"{repeated} ranks have several files; they are taken as cycles of the profiler, in order of name.")
    return sorted(sources, key=lambda source: (source.rank, source.cycle)), notes


def rank_of(file: str) -> int | None:
    """The rank that a file says it holds: in the text before its events, else in its name; None if neither tells."""
    try:
        with Blocks(file, max_size=DEFAULT_MAX_SIZE) as blocks:
            head = next(blocks, b"")[:_HEAD]
    except NotFoundError:
        return None  # it is named again, with the reason, when it is read
    match = _RANK_IN_TEXT.search(head)
    if match:
        return int(match.group(1))
    in_name = _RANK_IN_NAME.findall(os.path.basename(file))
    return int(in_name[-1]) if in_name else None
