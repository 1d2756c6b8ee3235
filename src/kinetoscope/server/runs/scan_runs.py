"""Which runs lie below the paths that were named: a run is the traces of one job, a file for each rank and cycle.

Files in one folder are one run if their names say so (`rank3.json`, torch's `host_pid.time.pt.trace.json`), or if
their contents tell ranks that differ; else each file is a run of its own. A folder for each rank counts as one.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from kinetoscope.errors import KinetoscopeError, NotFoundError
from kinetoscope.model.job import Job
from kinetoscope.readers.files.stream import TextBlocks, is_url
from kinetoscope.readers.history.alone import ENDING, FOLDER
from kinetoscope.readers.job import ranks
from kinetoscope.readers.job.discovery import find, not_traces
from kinetoscope.readers.job.find_companions import without_companions
from kinetoscope.readers.job.names import of_engine
from kinetoscope.readers.job.probe import probed
from kinetoscope.readers.job.snapshots import of_no_run
from kinetoscope.readers.reader import HEAD_BYTES, CandidateFile
from kinetoscope.readers.registry import stamp
from kinetoscope.readers.snapshot import is_snapshot

_RANK_FOLDER: Final = re.compile(r"(?:rank|worker|node|host)[-_=]?\d{1,9}", re.IGNORECASE)
_PROCESS_FILE: Final = re.compile(r".*_\d+\.\d{10,19}(?:\.pt)?(?:\.trace)?\.json(?:\.\w+)?")
_VARYING_PARTS: Final = re.compile(
    r"(?:rank|worker)[-_=]?\d{1,9}(?!\d)|[A-Z][a-z]{2}_\d{1,2}_\d\d_\d\d_\d\d\.\d+|\d{6,}", re.IGNORECASE
)
"""What differs between the names of a run's files: the rank; times and processes."""

_ENDINGS: Final = re.compile(r"(?:(?:\.pt)?(?:\.trace)?\.json|\.pickle|\.pkl)(?:\.gz|\.zst)?\Z")
_NAMED: Final = 3
"""Files that nothing reads which are named."""

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class RunFile:
    """A file of a run: where, its size, what changes when it does, seconds since 1970 of that (0: not known)."""

    candidate: CandidateFile
    size: int
    stamp: str
    modified: float


@dataclass(frozen=True, slots=True)
class RunFiles:
    """A run, as its folder lists it.

    Attributes:
        id: stable for a path, fit for a URL.
        name: for people.
        path: folder or file.
        files: its traces.
    """

    id: str
    name: str
    path: str
    files: tuple[RunFile, ...]

    @property
    def stamp(self) -> str:
        """Changes when a file does, comes or goes."""
        text = "\n".join(f"{file.candidate.url} {file.stamp}" for file in self.files)
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]

    @property
    def modified(self) -> float:
        """The time of the last change of a file."""
        return max((file.modified for file in self.files), default=0.0)

    @property
    def bytes(self) -> int:
        """Bytes of all files, as stored."""
        return sum(file.size for file in self.files)


class RunScanner:
    """Looks below paths, again and again; what a file's beginning tells is looked at once.

    Args:
        paths: files, folders, patterns, fsspec URLs.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = [path if is_url(path) else os.path.abspath(path) for path in paths]
        self._ranks: dict[tuple[str, str], int | None] = {}
        self._ids: dict[str, str] = {}
        self._snapshots: dict[tuple[str, str], bool] = {}

    def scan(self) -> tuple[list[RunFiles], list[str]]:
        """The runs that are there now, and what is wrong with a path, one line each."""
        candidates: dict[str, CandidateFile] = {}
        wrong = []
        for path in self._paths:
            try:
                candidates |= {file.url: file for file in find(path)}
            except KinetoscopeError as error:
                wrong.append(str(error))
        traces = without_companions([*candidates.values()])  # they are read with the run beside them
        recognised = self._runs(traces)
        runs = [(path, self._files(files)) for path, files in (*recognised, *self._others(traces, recognised, wrong))]
        names, used = _names([path for path, _ in runs]), set[str]()
        return [
            RunFiles(self._identity(files, path, used), name, path, files)
            for (path, files), name in zip(runs, names, strict=True)
            if files
        ], wrong

    def _others(
        self, traces: Sequence[CandidateFile], runs: Sequence[tuple[str, Sequence[CandidateFile]]], wrong: list[str]
    ) -> list[tuple[str, list[CandidateFile]]]:
        """Runs of memory snapshots below folders that belong to no trace; of what nothing reads `wrong` gets a line."""
        known, others = {trace.url for trace in traces}, dict[str, CandidateFile]()
        for path in self._paths:
            if is_url(path) or not os.path.isdir(path):
                continue
            snapshots, unread = not_traces(path)
            others |= {each.url: each for each in snapshots if each.url not in known and self._is_snapshot(each)}
            if unread := [each for each in unread if each not in known]:
                names = ", ".join(os.path.relpath(each, path) for each in unread[:_NAMED])
                more = f" and {len(unread) - _NAMED} more" if len(unread) > _NAMED else ""
                wrong.append(f"{path}: files of Nsight are not read beside these: {names}{more}; open them by name")
        alone = self._runs(of_no_run(others.values(), traces, [path for path, _ in runs]))
        homes = {_home(url) for url in known}  # a folder is named after its traces
        return [(files[0].url if path in homes and len(files) == 1 else path, files) for path, files in alone]

    def _is_snapshot(self, file: CandidateFile) -> bool:
        """Whether a file begins as a snapshot does; there are many other pickles."""
        key = (file.url, f"{file.size}")
        if key not in self._snapshots:
            try:
                with TextBlocks(file.url) as blocks:
                    self._snapshots[key] = is_snapshot(next(iter(blocks), b"")[:HEAD_BYTES])
            except KinetoscopeError:
                self._snapshots[key] = False
        return self._snapshots[key]

    def _identity(self, files: Sequence[RunFile], path: str, used: set[str]) -> str:
        """The id that one of these files had before, whatever the folder is called for now; else a new one."""
        urls = [file.candidate.url for file in files]
        before = (self._ids[url] for url in urls if url in self._ids)
        identity = next((each for each in before if each not in used), "") or _identity(path, urls[0])
        used.add(identity)
        self._ids |= dict.fromkeys(urls, identity)
        return identity

    def _files(self, files: Iterable[CandidateFile]) -> tuple[RunFile, ...]:
        return tuple(file for each in files if (file := _file(each)))

    def _runs(self, files: Iterable[CandidateFile]) -> list[tuple[str, list[CandidateFile]]]:
        folders: defaultdict[str, list[CandidateFile]] = defaultdict(list)
        for file in files:
            folders[_home(file.url)].append(file)
        runs: list[tuple[str, list[CandidateFile]]] = []
        for folder, inside in folders.items():
            groups = self._groups(inside)
            for name, members in groups.items():
                runs.append((folder if len(groups) == 1 and folder not in self._alone() else name, members))
        return runs

    def _alone(self) -> set[str]:
        """Folders of files that were named themselves: the run has the name of the file."""
        return {os.path.dirname(path) for path in self._paths if not is_url(path) and not os.path.isdir(path)}

    def _groups(self, files: Sequence[CandidateFile]) -> dict[str, list[CandidateFile]]:
        """The files of a folder by the path of their run."""
        groups: defaultdict[str, list[CandidateFile]] = defaultdict(list)
        others: list[CandidateFile] = []
        for file in files:
            home, name = _home(file.url), file.url.rstrip("/").rpartition("/")[2]
            if _PROCESS_FILE.fullmatch(name) or (len(files) > 1 and of_engine(file)) or name.endswith(ENDING):
                groups[home].append(file)
            elif ranks.rank_in_name(name) is not None or _RANK_FOLDER.fullmatch(_folder(file.url).rpartition("/")[2]):
                groups[f"{home}/{_common_name(name)}"].append(file)
            else:
                others.append(file)
        ranks_inside = self._ranks_inside(others) if len(others) > 1 else []
        if ranks_inside and None not in ranks_inside and len(set(ranks_inside)) == len(ranks_inside):
            groups[_home(others[0].url)].extend(others)
        else:
            for file in others:
                groups[file.url].append(file)
        return groups

    def _ranks_inside(self, files: Sequence[CandidateFile]) -> list[int | None]:
        """The rank that each file's contents name."""
        keys = [(file.url, f"{file.size} {file.version}") for file in files]
        new = [file for file, key in zip(files, keys, strict=True) if key not in self._ranks]
        if new:
            # Two at least: of one alone it would be an error that it cannot be read.
            for file in probed([*new, *new[:1]])[: len(new)]:
                self._ranks[file.url, f"{file.size} {file.version}"] = file.rank
        return [self._ranks[key] for key in keys]


class JobScanner:
    """Looks at the files of a job that is open, and at no others that lie beside them."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def scan(self) -> tuple[list[RunFiles], list[str]]:
        """The run, as long as one of its files is there."""
        path = self._job.path if is_url(self._job.path) else os.path.abspath(self._job.path)
        every = {each.url: each for each in self._job.sources}
        candidates = [CandidateFile(each.url, each.reader, None if each.part else each.size) for each in every.values()]
        files = tuple(file for each in candidates if (file := _file(each)))
        if not files:
            return [], [f"{self._job.path}: no trace is there any more"]
        return [RunFiles(_identity(path, candidates[0].url), _names([path])[0], path, files)], []


def _file(candidate: CandidateFile) -> RunFile | None:
    """The file with size and time; None if it is gone by now."""
    if is_url(candidate.url):
        return RunFile(candidate, candidate.size or 0, f"{candidate.version} {candidate.size}", 0.0)
    try:
        text = stamp(candidate)
    except NotFoundError:
        return None
    size, _, time = text.partition(" ")
    return RunFile(candidate, int(size), text, int(time) / 1e9)


def _folder(url: str) -> str:
    return url.rstrip("/").rpartition("/")[0]


def _home(url: str) -> str:
    """The folder of a run's file: above the folders that each rank has of its own."""
    folder = _folder(url)
    name = folder.rpartition("/")[2]
    is_below = _RANK_FOLDER.fullmatch(name) or (name == FOLDER and url.endswith(ENDING))
    return _folder(folder) if is_below else folder


def _common_name(name: str) -> str:
    """The common part of the names of a run's files: `ddp4_rank1.pt.trace.json.gz` → `ddp4`."""
    left = re.split(r"[-_.=]+", _VARYING_PARTS.sub("", _ENDINGS.sub("", name)))
    return "_".join(filter(None, left)) or "ranks"


def _names(paths: Sequence[str]) -> list[str]:
    """A name for each path: its part below the folder that all have in common."""
    if not paths:
        return []
    parts = [path.rstrip("/").split("/") for path in paths]
    common = 0
    while all(len(each) > common + 1 and each[common] == parts[0][common] for each in parts):
        common += 1
    return [_ENDINGS.sub("", "/".join(each[common:])) or each[-1] for each in parts]


def _identity(path: str, first: str) -> str:
    """Words of the path for people; the first file makes it unlike all others."""
    unlike = hashlib.sha256(f"{path}\n{first}".encode("utf-8", "surrogateescape")).hexdigest()[:8]
    words = _UNSAFE.sub("_", _ENDINGS.sub("", path.rstrip("/").rpartition("/")[2]))[:40] or "run"
    return f"{words}~{unlike}"
