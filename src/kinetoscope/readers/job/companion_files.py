"""A kind of companions: which files are some, which belong to each trace of a run, and how one is read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kinetoscope.model.trace.source import Source
from kinetoscope.notes import Note
from kinetoscope.readers.job.ranks import rank_in_name
from kinetoscope.readers.reader import CandidateFile

Join = Callable[[Sequence[Source], Sequence[CandidateFile]], tuple[list[tuple[str, ...]], list[Note]]]
"""The files of each source, and notes."""

Head = Callable[[], bytes]
"""Reads what a file begins with, decompressed."""


def stem(name: str) -> str:
    """The name of a trace without its endings, and the dot before them."""
    for ending in (".gz", ".zst", ".json", ".trace", ".pt"):
        name = name.removesuffix(ending)
    return f"{name}."


def by_rank(sources: Sequence[Source], files: Sequence[CandidateFile]) -> tuple[list[tuple[str, ...]], list[Note]]:
    """The files whose names have the rank of the source, in order of name; one whose name has none is of all."""
    of_rank: defaultdict[int | None, list[str]] = defaultdict(list)
    for file in files:
        of_rank[rank_in_name(file.url)].append(file.url)
    return [tuple(sorted([*of_rank[None], *of_rank[each.rank]])) for each in sources], []


def _of_none(url: str, reader: str) -> bool:  # noqa: ARG001 - see `CompanionFiles.takes`
    return False


@dataclass(frozen=True, slots=True)
class CompanionFiles:
    """A kind of files beside traces.

    Attributes:
        folders: names of folders beside a trace that they are looked for in.
        recognises: whether a file is one, by its path and, where that is not enough, by what it begins with.
        missing: what is said of a path that the user named, and that has none.
        read: what `Trace.companions` gives of a file; the source is that of the trace.
        join: which belong to which source.
        named: whether a file may be one by its name; such files are looked for also in the folder of a trace, if they
            are named after it, and below a folder that the user opened.
        takes: whether a trace, by its path and its reader, is none of the run but one of these.
        is_run: such a file alone is a run, and beside itself.
        alone: what is said of a run of such files alone.
        one_run: all such files of a rank are one run, and none a cycle of the profiler.
    """

    folders: tuple[str, ...]
    recognises: Callable[[str, Head], bool]
    missing: str
    read: Callable[[Source, str], Any]
    join: Join = by_rank
    named: Callable[[str], bool] | None = None
    takes: Callable[[str, str], bool] = _of_none
    is_run: bool = False
    alone: tuple[Note, ...] = ()
    one_run: bool = False
