"""Which files a path means: a file, a folder, a pattern, here or in a store that fsspec knows."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, takewhile
from typing import Any, Final

from kinetoscope.errors import BrokenTraceError, LimitError, NotFoundError
from kinetoscope.model.trace.text import number_of
from kinetoscope.readers.files.stream import is_url
from kinetoscope.readers.job.probe import begun
from kinetoscope.readers.job.ranks import natural
from kinetoscope.readers.json.kineto import SIDECAR
from kinetoscope.readers.reader import CandidateFile
from kinetoscope.readers.registry import readers
from kinetoscope.readers.snapshot.alone import NAME as SNAPSHOT

_UNFINISHED: Final = re.compile(r"\.rank\d+of\d+\.step\d+\.\d+((?:\.\w+)*)\.part\Z")
"""How the names end of what the recorder has not finished; between number and ending, what its helpers write."""

_OF_OTHER_PROFILERS: Final = (".nsys-rep", ".qdrep", ".sqlite", ".ncu-rep")
"""Endings of what Nsight Systems and Nsight Compute write."""

_MAX_DEPTH: Final = 16
"""Folders in folders of a store: pages of a web server may lead to each other for ever."""


def find(path: str) -> list[CandidateFile]:
    """The files that a path means, in order of name; a trace as Parquet is a folder.

    Raises:
        NotFoundError: there is no such file, or the folder holds no trace.
        MissingExtraError: what reads the URL is not installed.
    """
    if is_url(path):
        return _find_remote(path)
    if os.path.isdir(path):
        errors: list[OSError] = []
        candidates = _of_run(_below(path, errors.append))
        if not candidates and errors:
            raise NotFoundError(f"{errors[0].filename}: cannot be listed: {errors[0].strerror}")
        if not candidates:
            candidates = [CandidateFile(file, size=_size(file)) for file in unfinished(path) if is_export(file)]
        if not candidates and (parts := unfinished(path)):
            raise NotFoundError(
                f"{path}: no finished trace in this folder, only {number_of(len(parts), 'file')} of a recording that "
                f"still runs, or was killed (*.part); if it was, remove what it left: rm {path}/*.part"
            )
        if not candidates:
            raise NotFoundError(
                f"{path}: no traces in this folder (looked for {_patterns()}); name the folder that torch.profiler "
                "wrote to"
            )
        return candidates
    if os.path.exists(path):
        return [CandidateFile(path, size=_size(path))]
    matches = [file for file in glob.glob(path, recursive=True) if not file.endswith(SIDECAR)]
    if not matches:
        raise NotFoundError(f"{path}: no such file or folder")
    return find_all(matches)


def unfinished(folder: str) -> list[str]:
    """Files in a local folder that a recorder of ours has given no final name: of one that runs, or was killed."""
    try:
        return sorted(each.path for each in os.scandir(folder) if _UNFINISHED.search(each.name))
    except OSError:
        return []


def is_export(file: str) -> bool:
    """Whether an unfinished file is what torch exported: the trace, if it was written to its end."""
    match = _UNFINISHED.search(file)
    return match is not None and not match[1]


def not_traces(folder: str) -> tuple[list[CandidateFile], list[str]]:
    """Of a local folder and all its folders: what may be memory snapshots by their names; files that nothing reads."""
    snapshots = [each for each in _below(folder, lambda _: None) if each.reader == SNAPSHOT]
    names = chain.from_iterable(
        (os.path.join(inside, name) for name in names) for inside, _, names in os.walk(folder, followlinks=False)
    )
    return _in_order(snapshots), sorted(name for name in names if name.endswith(_OF_OTHER_PROFILERS))


def find_all(paths: Sequence[str]) -> list[CandidateFile]:
    """The files that several paths mean, each once: a pattern can match a folder and what is in it.

    Raises: as `find`, for the first of them that is wrong.
    """
    return _in_order({each.url: each for path in paths for each in find(path)}.values())


def all_files(path: str) -> list[CandidateFile]:
    """All files that a path means, whatever they are, those in folders included.

    Raises: as `find`, but for what is in a folder.
    """
    if not is_url(path) and os.path.isdir(path):
        below = (os.path.join(inside, name) for inside, _, names in os.walk(path) for name in names)
        return _in_order(CandidateFile(file, size=_size(file)) for file in below if os.path.isfile(file))
    if is_url(path) and not glob.has_magic(path):
        from kinetoscope.readers.files.remote import locate, one_line_errors

        where = locate(path)
        with one_line_errors(path):
            if not where.is_http and where.system.isdir(where.path):
                infos = where.system.find(where.path, maxdepth=_MAX_DEPTH, detail=True).items()
                return _in_order(
                    _remote_candidate(str(where.system.unstrip_protocol(name)), info) for name, info in infos
                )
    return find(path)


def common_name(paths: Sequence[str]) -> str:
    """The name of several paths: the folder that all are in."""
    if len(paths) == 1:
        return paths[0]
    parts = zip(*(path.rstrip("/").split("/") for path in paths), strict=False)
    common = "/".join(each[0] for each in takewhile(lambda each: len(set(each)) == 1, parts))
    return common or ("/" if paths[0].startswith("/") else ".")


def _suffixes() -> tuple[str, ...]:
    return tuple(chain.from_iterable(reader.suffixes for reader in readers().values()))


def _patterns() -> str:
    return ", ".join(f"*{suffix}" for suffix in _suffixes())


def _below(folder: str, on_error: Callable[[OSError], None]) -> Iterator[CandidateFile]:
    """The traces in a folder and all its folders, links to folders included, each folder once.

    on_error: called for each folder that cannot be listed.
    """
    visited, formats = set[str](), [*readers().values()]
    for inside, folders, names in os.walk(folder, onerror=on_error, followlinks=True):
        real = os.path.realpath(inside)
        if real in visited:
            folders.clear()
            continue
        visited.add(real)
        folders.sort(key=lambda name: os.path.islink(os.path.join(inside, name)))  # real folders before links to them
        for name in names:
            file = os.path.join(inside, name)
            for reader in formats:
                if trace := reader.trace_at(file):
                    yield CandidateFile(trace, reader.name, _size(file) if trace == file else None)
                elif reader.named(name) and reader.recognises(file, _head(file)):
                    yield CandidateFile(file, reader.name, _size(file))


def _head(file: str) -> bytes:
    """The beginning of a file, decompressed; nothing of what cannot be read, or is no file."""
    try:
        return begun(CandidateFile(file, size=_size(file)), None)[1] if os.path.isfile(file) else b""
    except (NotFoundError, BrokenTraceError, LimitError):  # the reason is given when it is read
        return b""


def _size(file: str) -> int | None:
    try:
        return os.stat(file).st_size
    except OSError:  # the reason is given when it is read
        return None


def _of_run(candidates: Iterable[CandidateFile]) -> list[CandidateFile]:
    """The traces in a folder: those of all tools that record ranks, else of the first format that it has.

    What only has the name of one, as settings in JSON have, comes with those of the next format.
    """
    everything, formats = list(candidates), readers()
    of_tools = {each.url: each for each in everything if formats[each.reader].richness}
    of_others = (
        [each for each in everything if each.reader == reader] for reader, of in formats.items() if not of.richness
    )
    groups = [group for group in (list(of_tools.values()), *of_others) if group]
    strays: list[CandidateFile] = []
    for same in groups:
        if len(groups) == 1 or any(map(_may_be_trace, same)):
            return _in_order([*strays, *same])
        strays += same
    return _in_order(next(iter(groups), []))


def _may_be_trace(candidate: CandidateFile) -> bool:
    try:
        return not begun(candidate, None)[0].other_format
    except (NotFoundError, BrokenTraceError, LimitError):  # the reason is given when it is read
        return True


def _in_order(candidates: Iterable[CandidateFile]) -> list[CandidateFile]:
    return sorted(candidates, key=lambda candidate: (natural(candidate.url), candidate.url))


# --- in stores


def _find_remote(path: str) -> list[CandidateFile]:
    from kinetoscope.readers.files.remote import locate, one_line_errors

    where = locate(path)
    with one_line_errors(path):
        if where.is_http and not path.endswith("/"):  # a page is no folder, and ? begins a query
            return [CandidateFile(path)]
        if glob.has_magic(where.path) and not where.is_http:
            candidates = _in_pattern(where.system, where.system.glob(where.path, detail=True))
        elif where.is_http or (not path.endswith(_suffixes()) and where.system.isdir(where.path)):
            candidates = _of_run(_listed(where.system, where.path))
        else:
            info = where.system.info(where.path)
            if info.get("type") != "directory":
                return [_remote_candidate(path, info)]
            candidates = _of_run(_listed(where.system, where.path))
    if not candidates:
        raise NotFoundError(f"{path}: no traces there (looked for {_patterns()})")
    return candidates


def _in_pattern(system: Any, matches: dict[str, dict[str, Any]]) -> list[CandidateFile]:
    """The matches of a pattern: files, whatever their names, and the traces in folders."""
    candidates: dict[str, CandidateFile] = {}
    for name, info in matches.items():
        if info.get("type") == "directory":
            candidates |= {each.url: each for each in _of_run(_listed(system, name))}
        elif not name.endswith(SIDECAR):
            each = _remote_candidate(str(system.unstrip_protocol(name)), info)
            candidates[each.url] = each
    return _in_order(candidates.values())


def _listed(system: Any, folder: str) -> Iterator[CandidateFile]:
    """The traces in a folder of a store and all its folders."""
    from kinetoscope.readers.files.remote import FileFacts, facts_of

    formats = [*readers().values()]
    for name, info in system.find(folder, maxdepth=_MAX_DEPTH, detail=True).items():
        for reader in formats:
            if trace := reader.trace_at(name) or (name if reader.named(name.rpartition("/")[2]) else ""):
                url = str(system.unstrip_protocol(trace))
                facts = facts_of(info) if trace == name else FileFacts(None, "")
                yield CandidateFile(url, reader.name, facts.size, facts.version)


def _remote_candidate(url: str, info: dict[str, Any]) -> CandidateFile:
    from kinetoscope.readers.files.remote import facts_of

    facts = facts_of(info)
    return CandidateFile(url, size=facts.size, version=facts.version)
