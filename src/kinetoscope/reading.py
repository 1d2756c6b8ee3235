"""`read(path)`: finds the files of a run, tells ranks apart, picks reader and engine, hands out the Job."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

from kinetoscope import __version__
from kinetoscope.engines import ENGINES, engine_maker
from kinetoscope.engines.worker import Files
from kinetoscope.errors import NotATraceError, UsageError
from kinetoscope.model.device.own_peaks import PeakOptions, own_peaks
from kinetoscope.model.job import Job, Readable
from kinetoscope.model.steps.grammar import numbers
from kinetoscope.model.trace.source import DEFAULT_MAX_EVENT, DEFAULT_MAX_SIZE, Source, SourceOptions
from kinetoscope.model.trace.text import listed, number_of
from kinetoscope.notes import Note
from kinetoscope.readers.companions import COMPANIONS, CompanionPaths
from kinetoscope.readers.files.cache import Cache
from kinetoscope.readers.files.stream import ProgressCallback, cache_for
from kinetoscope.readers.job.discovery import common_name, find, find_all, is_export, unfinished
from kinetoscope.readers.job.find_companions import Opened, with_companions, without_companions
from kinetoscope.readers.job.names import without_merged
from kinetoscope.readers.job.probe import probed
from kinetoscope.readers.job.ranks import assigned
from kinetoscope.readers.job.several import shortened
from kinetoscope.readers.reader import MAX_RANK, CandidateFile
from kinetoscope.readers.registry import load, readers, stamp


def read(
    path: Readable,
    *,
    ranks: Iterable[int] | str | None = None,
    jobs: int | None = None,
    engine: str = "threads",
    address: str | None = None,
    max_size: int = DEFAULT_MAX_SIZE,
    max_event: int = DEFAULT_MAX_EVENT,
    cache: str | os.PathLike[str] | None = None,
    cache_size: int | None = None,
    peak: PeakOptions = (),
    progress: ProgressCallback | None = None,
    files: Sequence[CandidateFile] | None = None,
    **companions: Unpack[CompanionPaths],
) -> Job:
    """The job at a path. Nothing but the ends of the files is read until a question is asked.

    Args:
        path: a file, a folder (of traces, or one that `convert --to parquet` made), a glob pattern or an fsspec URL;
            of several all traces are one job; of a mapping each path has the rank that is its key.
        ranks: only these ranks: numbers, or text as on the command line, `0,8-15`.
        jobs: how many traces to work on at once; as many as there are cores by default.
        engine: where to work on them: "threads" of this process, or the workers of "dask" or "ray".
        address: of the scheduler of Dask (`tcp://host:8786`, or its scheduler file) or of Ray (`host:6379`, `ray://…`,
            `auto`). Without it the connection that this process has already, else workers on this machine.
        max_size: bytes of text in one file beyond which reading stops (a guard against gzip bombs).
        max_event: bytes of one event beyond which reading stops.
        cache: folder that keeps copies of remote files; "off" for none. By default what KINETOSCOPE_CACHE says, else
            a folder in the user's cache.
        cache_size: bytes that it holds at most. By default what KINETOSCOPE_CACHE_SIZE says, else 10 GB.
        peak: peaks of the devices to take instead of what is known of them, in operations or bytes a second:
            `{"bf16": 800e12, "memory": 3.2e12}`, or as on the command line, `["bf16=800e12"]`; "attainable" takes
            those that `kinetoscope calibrate` measured. `devices` and `peaks` show what is known.
        progress: called with the bytes, as stored, read since.
        files: the traces, if they are known already; then `path` is only a name for them.
        companions: files and folders of files that belong to the traces, by kind: `capture`, `compile`, `snapshot`,
            `flight_recorder`; by default those that lie where their kind is written to; "off" for none.

    `capture`: traces that were recorded while the program captured its CUDA graphs, to be joined with the replays, or
    JSON files of annotations or Python stacks of their nodes; by default those in `capture_traces` or
    `graph_capture_profile` beside the traces or below the folder. `compile`: what TORCH_TRACE wrote, Inductor's cache,
    `torch_compile_debug`; by default those in `compile`, where our recorder puts them, and `torch_compile_debug` beside
    each trace. `snapshot`: memory snapshots of the run (`torch.cuda.memory._dump_snapshot`); by default those among the
    files, in `snapshots` beside each trace, and beside it: those named after it, or all where the folder is opened.
    `flight_recorder`: dumps of torch's Flight Recorder, the rank in their names; by default those in `flight_recorder`
    beside each trace, and in the folder that is opened.

    Raises:
        MissingExtraError: what reads the URL, or the engine, is not installed.
        NotFoundError: there is no such file, or no trace in the folder.
        NotATraceError: there are several files, and none of them is a trace.
        UsageError: no such engine, an address for threads, none of the ranks asked for, a rank or a peak that is none.
        InputError: the user's file of peaks cannot be read; or there is no cluster at the
            address, or its workers do not fit.
    """
    if engine not in ENGINES:
        raise UsageError(f"there is no engine {engine!r}; engines: {', '.join(ENGINES)}")
    paths = _paths(path)
    if not paths:
        raise UsageError("no path was given")
    chosen_ranks = _numbers(ranks) if isinstance(ranks, str) else ranks
    text = common_name(paths)
    at_once = max(1, jobs or _cores())
    folder = os.fspath(cache) if cache is not None else ""
    options = SourceOptions(max_size, max_event, 1, folder, cache_size, own_peaks(peak))
    candidates = find_all(paths) if files is None else files
    given = _given(path) if isinstance(path, Mapping) else {}
    copies = cache_for(text, options)
    candidates = probed(candidates, copies)
    sources, notes = sources_of(text, candidates, copies, given)
    if chosen_ranks is not None:
        sources, rank_notes = _chosen(text, sources, set(chosen_ranks))
        notes += rank_notes
    sources, more = _with_companions(sources, dict(companions), Opened(paths, candidates, copies))
    notes += more
    if files is None:
        notes += _unfinished_note(paths, candidates)
    options = replace(options, threads=max(1, at_once // min(at_once, len(sources))))
    make = engine_maker(engine)
    where = make(Files(load, stamp, __version__), address=address, jobs=at_once, ranks=len(sources), progress=progress)
    return Job(text, tuple(replace(source, options=options) for source in sources), where, tuple(notes))


def _unfinished_note(paths: Sequence[str], candidates: Sequence[CandidateFile]) -> list[Note]:
    """What is to be said of files that a recorder has not finished."""
    if any(is_export(each.url) for each in candidates):
        note = Note(
            "UNFINISHED_RECORDING",
            "The recording has not been finished, as it still runs or was killed: what torch exported of it is read "
            "(*.part), and nothing is known of the run. kinetoscope record to the same folder finishes it.",
        )
        return [note]
    parts = [file for path in paths if os.path.isdir(path) for file in unfinished(path)]
    note = Note(
        "UNFINISHED_LEFT_OUT",
        f"Left out: {number_of(len(parts), 'unfinished file')} of a recording that still runs or was killed (*.part). "
        "kinetoscope record to the same folder finishes or removes what a killed one left.",
    )
    return [note] if parts else []


def _paths(path: Readable) -> list[str]:
    several = path.values() if isinstance(path, Mapping) else [path] if isinstance(path, (str, os.PathLike)) else path
    return [os.fspath(each) for each in several]


def _with_companions(sources: list[Source], asked: dict[str, Any], run: Opened) -> tuple[list[Source], list[Note]]:
    """The sources with the files that belong to them, of all kinds, and notes.

    Raises:
        NotFoundError: there is no such file.
        NotATraceError: a path that the user names has no file of its kind.
        TypeError: there is no such kind.
    """
    if unknown := asked.keys() - {each.name for each in COMPANIONS}:
        raise TypeError(f"read() has no argument {min(unknown)!r}")
    notes = []
    for companion in COMPANIONS:
        named = asked.get(companion.name)
        sources, more = with_companions(companion, sources, None if named is None else _paths(named), run)
        notes += more
    return sources, notes


def _numbers(ranks: str) -> tuple[int, ...]:
    try:
        return numbers(ranks)
    except ValueError as error:
        raise UsageError(f"ranks: {error}") from error


def _given(path: Mapping[int, str | os.PathLike[str]]) -> dict[str, int]:
    """The rank of each file of `{rank: path}`, by URL.

    Raises:
        UsageError: a key is no rank, or a file has two.
    """
    ranks: dict[str, int] = {}
    for rank, each in path.items():
        if type(rank) is not int or not 0 <= rank < MAX_RANK:
            raise UsageError(f"{rank!r} is no rank: of {{rank: path}} the keys are whole numbers from 0")
        for file in find(os.fspath(each)):
            if ranks.setdefault(file.url, rank) != rank:
                raise UsageError(f"{file.url} is given as rank {ranks[file.url]} and as rank {rank}")
    return ranks


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _chosen(path: str, sources: list[Source], ranks: set[int]) -> tuple[list[Source], list[Note]]:
    existing = {source.rank for source in sources}
    if not ranks & existing:
        raise UsageError(f"{path} has none of the requested ranks ({listed(ranks)}); it has {listed(existing)}")
    missing = ranks - existing
    notes = [Note("NO_SUCH_RANKS", f"Requested ranks that do not exist: {listed(missing)}.")] if missing else []
    return [source for source in sources if source.rank in ranks], notes


def sources_of(
    path: str,
    candidates: Sequence[CandidateFile],
    cache: Cache | None = None,
    given: Mapping[str, int] | None = None,
) -> tuple[list[Source], list[Note]]:
    """A source, with rank and cycle, for each trace among probed files, and notes on what the ranks rest on.

    `given` has the rank of each URL where the user names them.

    Raises:
        NotATraceError: there are several files, and none of them is a trace.
    """
    notes = []
    if given:
        if other := [given[each.url] for each in candidates if each.rank not in (None, given[each.url])]:
            notes.append(
                Note(
                    "GIVEN_RANKS_COUNT",
                    f"The traces given as rank {listed(other)} name another rank; the given one counts.",
                )
            )
        candidates = [replace(each, rank=given[each.url], basis="") for each in candidates]
    traces = candidates if len(candidates) == 1 else [each for each in candidates if not each.other_format]
    traces = without_companions(traces)
    others = shortened(
        [f"{os.path.basename(each.url)} ({each.other_format})" for each in candidates if each.other_format]
    )
    if not traces:
        raise NotATraceError(f"{path}: none of {len(candidates)} files is a Kineto trace: {others}")
    traces, merged = without_merged(traces)
    if merged:
        notes.append(
            Note(
                "MERGED_LEFT_OUT",
                f"Left out as copies of other files: {shortened([os.path.basename(each.url) for each in merged])}.",
            )
        )
    if not given:
        traces = [
            part for each in traces for part in (readers()[each.reader].parts(each, cache) if each.merged else [each])
        ]
    sources, rank_notes = assigned(traces, {name: each.richness for name, each in readers().items()})
    notes += rank_notes
    if others and len(candidates) > 1:
        notes.insert(0, Note("NO_TRACE", f"Not a trace and left out: {others}."))
    return sources, notes
