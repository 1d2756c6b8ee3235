"""Which files a path means, and what their beginnings tell: the rank, or that a file is no trace."""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kinetoscope.errors import NotFoundError
from kinetoscope.model import stored
from kinetoscope.model.source import DEFAULT_MAX_SIZE
from kinetoscope.readers import recognise
from kinetoscope.readers.stream import Blocks, is_url

_SUFFIXES: Final = (".json", ".json.gz", ".json.zst")
_SIDECAR: Final = ".meta.json"
"""What our own recorder writes beside a trace."""

_EXPORTS: Final = (".perfetto.json", ".perfetto.json.gz")
"""What `convert --to perfetto` writes: the trace once more, with additions."""

_INNER: Final = f"{stored.FOLDER}/{stored.EVENTS}.parquet"
"""What is in a folder that holds a trace as Parquet."""

_MARKER: Final = f"{stored.EVENTS}.parquet"

_DISTRIBUTED: Final = re.compile(rb'"distributedInfo"\s*:\s*(?=\{)')
_RANK_IN_TEXT: Final = re.compile(rb'"rank"\s*:\s*(\d{1,9})')
_RANK_IN_NAME: Final = re.compile(r"(?<![a-z])(?:rank|worker)[-_=]?(\d{1,9})(?!\d)", re.IGNORECASE)


def find(path: str) -> list[str]:
    """The files that a path means, sorted by name; a trace as Parquet is a folder.

    Raises:
        NotFoundError: there is no such file, or the folder holds no `*.json`, `*.json.gz` or `*.json.zst`.
    """
    if is_url(path):
        return _find_remote(path)
    if os.path.isdir(path):
        found = _chosen(
            os.path.join(folder, name)
            for folder, _, names in os.walk(path)
            for name in names
            if _may_be_trace(name) or name == _MARKER
        )
        if not found:
            raise NotFoundError(
                f"{path}: no traces in this folder (looked for *.json, *.json.gz, *.json.zst); name the folder that "
                "torch.profiler wrote to"
            )
        return found
    if os.path.exists(path):
        return [path]
    matching = sorted(file for file in glob.glob(path, recursive=True) if not file.endswith(_SIDECAR))
    if not matching:
        raise NotFoundError(f"{path}: no such file or folder")
    # A pattern can match a folder and what is in it.
    return sorted({file for match in matching for file in (find(match) if os.path.isdir(match) else [match])})


def _may_be_trace(name: str) -> bool:
    """Does a file in a folder have the name of a trace? Hidden ones are what other programs left."""
    return name.endswith(_SUFFIXES) and not name.endswith((_SIDECAR, *_EXPORTS)) and not name.startswith(".")


def _chosen(files: Iterable[str]) -> list[str]:
    """The traces in a folder: its JSON files; only where it has none, copies of them as Parquet. Sorted by name."""
    markers: list[str] = []
    others: list[str] = []
    for file in files:
        (markers if file.endswith(f"/{_MARKER}") else others).append(file)
    inner = (file.removesuffix(f"/{_INNER}") for file in markers if file.endswith(f"/{_INNER}"))
    return sorted(others or inner)


def is_parquet(path: str) -> bool:
    """Is this a folder that holds a trace as Parquet? Asked of what `find` found, which names no other folder."""
    return os.path.isdir(path) if not is_url(path) else not path.startswith(("http:", "https:")) and _has_marker(path)


def _has_marker(url: str) -> bool:
    import fsspec

    try:
        system, inner = fsspec.core.url_to_fs(url)
        return bool(system.exists(f"{inner.rstrip('/')}/{_INNER}"))
    except (OSError, ValueError, ImportError):
        return False


def _find_remote(path: str) -> list[str]:
    import fsspec

    if path.startswith(("http://", "https://")):  # a server has no folders, and ? begins a query
        return [path]
    try:
        system, inner = fsspec.core.url_to_fs(path)
        if glob.has_magic(inner):
            found = [name for name in system.glob(inner) if not name.endswith(_SIDECAR)]
        elif system.isdir(inner):
            names = ((name, name.rpartition("/")[2]) for name in system.find(inner))
            found = _chosen(name for name, last in names if _may_be_trace(last) or last == _MARKER)
        else:
            return [path]
    except (OSError, ValueError, ImportError) as error:
        raise NotFoundError(f"{path}: cannot be read: {error}") from error
    if not found:
        raise NotFoundError(f"{path}: no traces there (looked for *.json, *.json.gz, *.json.zst)")
    return sorted(str(system.unstrip_protocol(name)) for name in found)


@dataclass(frozen=True, slots=True)
class Look:
    """What the beginning of a file tells.

    Attributes:
        file: which one.
        rank: the rank that it says it holds, in its text, else in its name; None if neither does.
        world: how many ranks the job had; 0 if it does not say.
        other: what it is instead of a trace; "" if it may be one.
    """

    file: str
    rank: int | None = None
    world: int = 0
    other: str = ""


def look(file: str) -> Look:
    """Read the beginning of a file.

    Raises:
        NotFoundError: it cannot be read.
    """
    with Blocks(file, max_size=DEFAULT_MAX_SIZE) as blocks:
        head = next(blocks, b"")[: recognise.HEAD]
    match = _DISTRIBUTED.search(head)
    rank, world = _distributed(head[match.end() :]) if match else (None, 0)
    other = recognise.what_is(head)
    return Look(file, rank_in_name(file) if rank is None else rank, world, other.what if other else "")


def _distributed(text: bytes) -> tuple[int | None, int]:
    """Rank and number of ranks as the JSON object that the text begins with tells them."""
    try:
        facts, _ = json.JSONDecoder(strict=False).raw_decode(text.decode("utf-8", "replace"))
    except (ValueError, RecursionError):  # cut, or broken
        match = _RANK_IN_TEXT.search(text)
        return (int(match.group(1)) if match else None), 0
    rank, world = facts.get("rank"), facts.get("world_size")
    return rank if isinstance(rank, int) and rank >= 0 else None, world if isinstance(world, int) else 0


def rank_in_name(file: str) -> int | None:
    """The rank in the name of a file, else in that of its folder; None if neither has one."""
    folder, _, name = file.replace(os.sep, "/").rpartition("/")
    for text in (name, folder.rpartition("/")[2]):
        found = _RANK_IN_NAME.findall(text)
        if found:
            return int(found[-1])
    return None
