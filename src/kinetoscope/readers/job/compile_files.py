"""The files about torch.compile that belong to the traces of a run: beside them, or where the user says."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from kinetoscope.errors import NotFoundError, UsageError
from kinetoscope.model.compile.files import MAX_FILES, kind_of_file
from kinetoscope.model.trace.source import Source
from kinetoscope.readers.files.stream import is_url
from kinetoscope.readers.job.ranks import natural, rank_in_name

COMPILE_FOLDERS: Final = ("compile", "torch_compile_debug")
"""Folders beside a trace: that of our recorder, and that of TORCH_COMPILE_DEBUG."""

_PROCESS: Final = re.compile(r"(?P<process>[^/]+_\d+)\.rank\d+of\d+\.step\d+\.")
"""How our recorder's names of traces begin: the host and the process, which the names of its logs end with."""

_MAX_FOLDERS: Final = 1 << 16


def with_compile_files(sources: Sequence[Source], asked: Sequence[str] | None) -> list[Source]:
    """The sources with the files of their ranks; a file whose name tells no rank is of all.

    asked: files and folders; `["off"]` for none; None for those beside each trace, on this machine.

    Raises:
        NotFoundError: there is no such file or folder.
        UsageError: there is nothing of torch.compile in it.
    """
    if asked is not None:
        files = [] if list(asked) == ["off"] else [file for path in asked for file in _asked(path)]
        return [replace(each, compile=_of(each, files)) for each in sources]
    beside: dict[str, list[str]] = {}
    for folder in {os.path.dirname(each.url) for each in sources if not is_url(each.url)}:
        inside = (os.path.join(folder, name) for name in COMPILE_FOLDERS)
        beside[folder] = [file for each in inside if os.path.isdir(each) for file in _below(each)]
    return [replace(each, compile=_of(each, beside.get(os.path.dirname(each.url), []))) for each in sources]


def _of(source: Source, files: Iterable[str]) -> tuple[str, ...]:
    """Those of a source's rank; of several processes of that rank, those of the one that wrote the trace."""
    mine = [file for file in files if rank_in_name(file) in (None, source.rank)]
    process = _PROCESS.match(source.name)
    if process and any(process["process"] in file for file in mine):
        mine = [file for file in mine if kind_of_file(file) != "log" or process["process"] in file]
    return tuple(sorted(mine, key=lambda file: (natural(file), file))[:MAX_FILES])


def _asked(path: str) -> list[str]:
    if is_url(path):
        from kinetoscope.readers.files.remote import locate, one_line_errors

        where = locate(path)
        with one_line_errors(path):
            names = where.system.find(where.path) if where.system.isdir(where.path) else [where.path]
        files = [str(where.system.unstrip_protocol(name)) for name in names if kind_of_file(name)]
    elif not os.path.exists(path):
        raise NotFoundError(f"{path}: no such file or folder")
    else:
        files = [*_below(path)] if os.path.isdir(path) else [path][: kind_of_file(path) is not None]
    if not files:
        raise UsageError(
            f"{path}: nothing of torch.compile in it; name the folder of TORCH_TRACE, Inductor's cache "
            "(/tmp/torchinductor_USER), torch_compile_debug, or `compile` of a recording"
        )
    return files


def _below(folder: str) -> Iterator[str]:
    """The files of use in a folder and those in it; links to folders are not followed."""
    for number, (inside, _, names) in enumerate(os.walk(folder)):
        if number >= _MAX_FOLDERS:
            return
        yield from (os.path.join(inside, name) for name in names if kind_of_file(f"{inside}/{name}"))
