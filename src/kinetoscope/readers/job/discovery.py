"""Which files a path means: a file, a folder, a pattern, here or in a store that fsspec knows."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final

from kinetoscope.errors import NotFoundError
from kinetoscope.model.tables import parquet as stored
from kinetoscope.readers.files.stream import is_url
from kinetoscope.readers.job.ranks import natural

_SUFFIXES: Final = (".json", ".json.gz", ".json.zst")
_SIDECAR: Final = ".meta.json"
"""What our own recorder writes beside a trace."""

_EXPORTS: Final = (".perfetto.json", ".perfetto.json.gz")
"""What `convert --to perfetto` writes: the trace once more, with additions."""

_INNER: Final = f"{stored.FOLDER}/{stored.EVENTS}.parquet"
"""What is in a folder that holds a trace as Parquet."""

_MARKER: Final = f"{stored.EVENTS}.parquet"

_DEEPEST: Final = 16
"""Folders in folders, from afar: pages of a web server may lead to each other for ever."""


@dataclass(frozen=True, slots=True)
class Found:
    """A trace, or what may be one.

    Attributes:
        url: its file; of a trace as Parquet, its folder.
        size: bytes as stored; None where they are not known.
        version: changes when the content does; "" where nothing tells, and for local files.
        parquet: is it a folder of Parquet files?
    """

    url: str
    size: int | None = None
    version: str = ""
    parquet: bool = False


def find(path: str) -> list[Found]:
    """The files that a path means, in order of name; a trace as Parquet is a folder.

    Raises:
        NotFoundError: there is no such file, or the folder holds no `*.json`, `*.json.gz` or `*.json.zst`.
        MissingExtraError: what reads the URL is not installed.
    """
    if is_url(path):
        return _find_remote(path)
    if os.path.isdir(path):
        closed: list[OSError] = []
        found = _chosen(_below(path, closed.append))
        if not found and closed:
            raise NotFoundError(f"{closed[0].filename}: cannot be listed: {closed[0].strerror}")
        if not found:
            raise NotFoundError(
                f"{path}: no traces in this folder (looked for *.json, *.json.gz, *.json.zst); name the folder that "
                "torch.profiler wrote to"
            )
        return found
    if os.path.exists(path):
        return [Found(path, _size(path))]
    matching = [file for file in glob.glob(path, recursive=True) if not file.endswith(_SIDECAR)]
    if not matching:
        raise NotFoundError(f"{path}: no such file or folder")
    # A pattern can match a folder and what is in it.
    return _sorted({found for match in matching for found in find(match)})


def found_at(paths: Sequence[str]) -> list[Found]:
    """The files that several paths mean, each once.

    Raises: as `find`, for the first of them that is wrong.
    """
    return find(paths[0]) if len(paths) == 1 else _sorted({found for path in paths for found in find(path)})


def named(paths: Sequence[str]) -> str:
    """What to call several paths: the folder that all are in."""
    if len(paths) == 1:
        return paths[0]
    parts = zip(*(path.rstrip("/").split("/") for path in paths), strict=False)
    common = "/".join(each[0] for each in takewhile(lambda each: len(set(each)) == 1, parts))
    return common or ("/" if paths[0].startswith("/") else ".")


def _below(folder: str, refused: Callable[[OSError], None]) -> Iterator[Found]:
    """What has the name of a trace in a folder and all its folders, links to folders included, each folder once.

    refused: told of each folder that cannot be listed.
    """
    seen: set[str] = set()
    for inside, folders, names in os.walk(folder, onerror=refused, followlinks=True):
        real = os.path.realpath(inside)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders.sort(key=lambda name: os.path.islink(os.path.join(inside, name)))  # what is there has its own name
        for name in names:
            if _may_be_trace(name) or name == _MARKER:
                file = os.path.join(inside, name)
                yield Found(file, _size(file))


def _size(file: str) -> int | None:
    try:
        return os.stat(file).st_size
    except OSError:  # it is named, with the reason, when it is asked
        return None


def _may_be_trace(name: str) -> bool:
    """Does a file in a folder have the name of a trace? Hidden ones are what other programs left."""
    return name.endswith(_SUFFIXES) and not name.endswith((_SIDECAR, *_EXPORTS)) and not name.startswith(".")


def _chosen(files: Iterable[Found]) -> list[Found]:
    """The traces in a folder: its JSON files; only where it has none, copies of them as Parquet."""
    markers: list[str] = []
    others: list[Found] = []
    for file in files:
        if file.url.endswith(f"/{_MARKER}"):
            markers.append(file.url)
        else:
            others.append(file)
    inner = (Found(file.removesuffix(f"/{_INNER}"), parquet=True) for file in markers if file.endswith(f"/{_INNER}"))
    return _sorted(others or inner)


def _sorted(files: Iterable[Found]) -> list[Found]:
    return sorted(files, key=lambda file: (natural(file.url), file.url))


# --- in stores


def _find_remote(path: str) -> list[Found]:
    from kinetoscope.readers.files.remote import blamed, place

    where = place(path)
    with blamed(path):
        if where.is_http and not path.endswith("/"):  # a page is no folder, and ? begins a query
            return [Found(path)]
        if glob.has_magic(where.path) and not where.is_http:
            matching = where.system.glob(where.path, detail=True)
            found = _in_pattern(where.system, matching)
        elif where.is_http or (not path.endswith(_SUFFIXES) and where.system.isdir(where.path)):
            found = _chosen(_listed(where.system, where.path))
        else:
            info = where.system.info(where.path)
            if info.get("type") != "directory":
                return [_found(where.system, where.path, info, path)]
            found = _chosen(_listed(where.system, where.path))
    if not found:
        raise NotFoundError(f"{path}: no traces there (looked for *.json, *.json.gz, *.json.zst)")
    return found


def _in_pattern(system: Any, matching: dict[str, dict[str, Any]]) -> list[Found]:
    """What a pattern matches: files, whatever their names, and the traces in folders."""
    found: set[Found] = set()
    for name, info in matching.items():
        if info.get("type") == "directory":
            found.update(_chosen(_listed(system, name)))
        elif not name.endswith(_SIDECAR):
            found.add(_found(system, name, info))
    return _sorted(found)


def _listed(system: Any, folder: str) -> Iterator[Found]:
    """What has the name of a trace in a folder of a store and all its folders."""
    for name, info in system.find(folder, maxdepth=_DEEPEST, detail=True).items():
        last = name.rpartition("/")[2]
        if _may_be_trace(last) or last == _MARKER:
            yield _found(system, name, info)


def _found(system: Any, name: str, info: dict[str, Any], url: str = "") -> Found:
    from kinetoscope.readers.files.remote import facts_of

    facts = facts_of(info)
    return Found(url or str(system.unstrip_protocol(name)), facts.size, facts.version)
