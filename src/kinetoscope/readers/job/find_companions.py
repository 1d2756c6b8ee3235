"""Companions of a run: found beside its traces or where the user says, joined with them, read when asked for."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Final

from kinetoscope.errors import BrokenTraceError, LimitError, NotATraceError, NotFoundError
from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.readers.companions import COMPANIONS, NO_FILES, Companion
from kinetoscope.readers.files.cache import Cache
from kinetoscope.readers.files.stream import is_url
from kinetoscope.readers.job.companion_files import CompanionFiles, stem
from kinetoscope.readers.job.discovery import all_files
from kinetoscope.readers.job.probe import begun
from kinetoscope.readers.reader import CandidateFile

_MAX_FOLDERS: Final = 1 << 16
_THREADS: Final = 4


@dataclass(frozen=True, slots=True)
class Opened:
    """The paths and files that a run was opened by.

    Attributes:
        paths: what the user named.
        files: all files that these mean, probed.
        cache: copies of remote files.
    """

    paths: Sequence[str]
    files: Sequence[CandidateFile]
    cache: Cache | None = None


def files_of(companion: Companion) -> CompanionFiles:
    """The description of the files of a kind."""
    files: CompanionFiles = import_module(f"kinetoscope.readers.job.{companion.module}").FILES
    return files


def read_file(trace: Trace, name: str, url: str) -> Any:
    """The content of a companion of a trace; see `Trace.companions`."""
    [companion] = (each for each in COMPANIONS if each.name == name)
    return files_of(companion).read(trace.source, url)


def without_companions(traces: Sequence[CandidateFile]) -> list[CandidateFile]:
    """The traces of the run; where nothing but companions of a kind are there, those are the run."""
    own = [*traces]
    for companion in COMPANIONS:
        takes = files_of(companion).takes
        own = [each for each in own if not takes(each.url, each.reader)] or own
    return own


def with_companions(
    companion: Companion, sources: list[Source], asked: Sequence[str] | None, run: Opened
) -> tuple[list[Source], list[Note]]:
    """The sources with the files of a kind that belong to them, and notes.

    asked: the files and folders that the user names; None for those that are found.

    Raises:
        NotFoundError: there is no such file.
        NotATraceError: a path that the user names has none.
    """
    files = files_of(companion)
    alone = any(files.takes(each.url, each.reader) for each in sources)
    if alone and files.is_run:
        return _with_themselves(companion, files, sources, run)
    if asked == [NO_FILES] or (alone and asked is None):
        return sources, []
    chosen = _lying_there(files, sources, run) if asked is None else _asked(files, asked, run.cache)
    if not chosen:
        return sources, []
    belonging, notes = files.join(sources, chosen)
    pairs = zip(sources, belonging, strict=True)
    return [replace(each, companions={**each.companions, companion.name: own}) for each, own in pairs], notes


def _with_themselves(
    companion: Companion, files: CompanionFiles, sources: list[Source], run: Opened
) -> tuple[list[Source], list[Note]]:
    """Sources that are such files, each with itself; or one of each rank, with all that the rank has."""
    if not files.one_run:
        return [replace(each, companions={**each.companions, companion.name: (each.url,)}) for each in sources], []
    own = [CandidateFile(each.url) for each in sources]
    first = [each for each in sources if each.cycle == 0]
    belonging, notes = files.join(first, [*own, *_lying_there(files, sources, run)])
    pairs = zip(first, belonging, strict=True)  # the name of a file that the user names may have no rank
    each_own = [(source, urls if source.url in urls else (source.url,)) for source, urls in pairs]
    return [replace(source, companions={**source.companions, companion.name: urls}) for source, urls in each_own], [
        *files.alone,
        *notes,
    ]


def _asked(files: CompanionFiles, paths: Sequence[str], cache: Cache | None) -> list[CandidateFile]:
    every: dict[str, CandidateFile] = {}
    for path in paths:
        recognised = _recognised(files, all_files(path), cache)
        if not recognised:
            raise NotATraceError(f"{path}: {files.missing}")
        every |= {each.url: each for each in recognised}
    return [*every.values()]


def _lying_there(files: CompanionFiles, sources: Sequence[Source], run: Opened) -> list[CandidateFile]:
    """Files of a kind among those of the run, in folders beside its traces, named after these, below opened folders."""
    known = {each.url for each in sources}
    among = {
        each.url: each
        for each in run.files
        if each.url not in known and not each.other_format and files.takes(each.url, each.reader)
    }
    homes: defaultdict[str, tuple[str, ...]] = defaultdict(tuple)
    for source in sources:
        if not is_url(source.url):
            homes[os.path.dirname(source.url)] += (stem(source.name),)
    folders = [os.path.join(home, folder) for home in homes for folder in files.folders]
    places = [each for folder in folders for each in _below(folder, files.named)]
    if files.named:
        places += [each for path in run.paths if os.path.isdir(path) for each in _below(path, files.named)]
        for home, stems in homes.items():
            inside = os.scandir(home or ".") if os.path.isdir(home or ".") else ()
            places += [each.path for each in inside if files.named(each.name) and each.name.startswith(stems)]
    new = dict.fromkeys(each for each in places if each not in known and each not in among)
    recognised = _recognised(files, [CandidateFile(each, size=os.path.getsize(each)) for each in new], run.cache)
    return [*among.values(), *recognised]


def _below(folder: str, named: Callable[[str], bool] | None) -> Iterator[str]:
    """The files in a folder and those in it, without hidden ones; links to folders are not followed."""
    for number, (inside, _, names) in enumerate(os.walk(folder)):
        if number >= _MAX_FOLDERS:
            return
        shown = (name for name in names if not name.startswith(".") and (named is None or named(name)))
        yield from (file for name in shown if os.path.isfile(file := os.path.join(inside, name)))


def _recognised(files: CompanionFiles, candidates: Sequence[CandidateFile], cache: Cache | None) -> list[CandidateFile]:
    """The files that are of the kind, with what their beginnings tell if these were read."""

    def look(candidate: CandidateFile) -> CandidateFile | None:
        looked = [candidate]

        def head() -> bytes:
            known, text = begun(candidate, cache)
            looked.append(known)
            return text

        try:
            is_one = files.recognises(candidate.url, head)
        except (NotFoundError, BrokenTraceError, LimitError):
            return None
        return looked[-1] if is_one else None

    with ThreadPoolExecutor(_THREADS, "kinetoscope-probe") as pool:
        return [each for each in pool.map(look, candidates) if each is not None]
