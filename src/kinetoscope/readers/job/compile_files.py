"""The files about torch.compile that belong to the traces of a run: beside them, or where the user says."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from kinetoscope.model.compile.files import MAX_FILES, CompileFile, kind_of_file
from kinetoscope.model.trace.source import Source, SourceOptions
from kinetoscope.notes import Note
from kinetoscope.readers.files.stream import TextBlocks, cache_for
from kinetoscope.readers.job.companion_files import CompanionFiles
from kinetoscope.readers.job.ranks import natural, rank_in_name
from kinetoscope.readers.reader import CandidateFile

COMPILE_FOLDERS: Final = ("compile", "torch_compile_debug")
"""Folders beside a trace: that of our recorder, and that of TORCH_COMPILE_DEBUG."""

_PROCESS: Final = re.compile(r"(?P<process>[^/]+_\d+)\.rank\d+of\d+\.step\d+\.")
"""How our recorder's names of traces begin: the host and the process, which the names of its logs end with."""

MAX_BYTES: Final = 1 << 30
"""Bytes of text of a file, such as a log, beyond which reading it stops."""


def _read(source: Source, url: str) -> CompileFile:
    return CompileFile(url, kind_of_file(url) or "log", partial(_blocks, source.options))


def _blocks(options: SourceOptions, path: str) -> Iterator[bytes]:
    with TextBlocks(path, max_size=MAX_BYTES, cache=cache_for(path, options), ahead=False) as blocks:
        yield from blocks


def _joined(sources: Sequence[Source], files: Sequence[CandidateFile]) -> tuple[list[tuple[str, ...]], list[Note]]:
    """The files of each source's rank; one whose name tells no rank is of all.

    A file in one of the folders beside a trace is of the traces there.
    """
    homes = {os.path.dirname(each.url) for each in sources}
    folders_of = {home: tuple(os.path.join(home, name, "") for name in COMPILE_FOLDERS) for home in homes}
    everywhere = tuple(place for places in folders_of.values() for place in places)
    urls = [each.url for each in files]
    of_home = {
        home: [url for url in urls if url.startswith(folders_of[home]) or not url.startswith(everywhere)]
        for home in homes
    }
    return [_of(each, of_home[os.path.dirname(each.url)]) for each in sources], []


def _of(source: Source, files: Iterable[str]) -> tuple[str, ...]:
    """Those of a source's rank; of several processes of that rank, those of the one that wrote the trace."""
    mine = [file for file in files if rank_in_name(file) in (None, source.rank)]
    process = _PROCESS.match(source.name)
    if process and any(process["process"] in file for file in mine):
        mine = [file for file in mine if kind_of_file(file) != "log" or process["process"] in file]
    return tuple(sorted(mine, key=lambda file: (natural(file), file))[:MAX_FILES])


FILES: Final = CompanionFiles(
    COMPILE_FOLDERS,
    lambda name, _: kind_of_file(name) is not None,
    "nothing of torch.compile in it; name the folder of TORCH_TRACE, Inductor's cache (/tmp/torchinductor_USER), "
    "torch_compile_debug, or `compile` of a recording",
    _read,
    _joined,
)
