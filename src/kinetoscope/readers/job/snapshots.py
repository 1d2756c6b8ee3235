"""Memory snapshots that belong to the traces of a run: among its files, beside them, or where the user says."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.text import listed
from kinetoscope.notes import Note
from kinetoscope.readers.job.companion_files import CompanionFiles, stem
from kinetoscope.readers.job.names import placed
from kinetoscope.readers.job.ranks import natural, rank_in_name, rank_in_snapshot_name
from kinetoscope.readers.job.several import shortened
from kinetoscope.readers.reader import CandidateFile
from kinetoscope.readers.snapshot import is_snapshot
from kinetoscope.readers.snapshot.alone import NAME, SUFFIXES, snapshot_at

SNAPSHOT_FOLDER: Final = "snapshots"
"""The folder beside traces that our recorder writes snapshots to."""


def of_no_run(
    snapshots: Iterable[CandidateFile], traces: Iterable[CandidateFile], runs: Iterable[str]
) -> list[CandidateFile]:
    """The snapshots of a folder that no run takes for its own, as `beside` has them; `runs`: paths of the runs."""
    homes: defaultdict[str, list[str]] = defaultdict(list)
    for trace in traces:
        homes[os.path.dirname(trace.url)].append(stem(os.path.basename(trace.url)))
    folders = [path for path in runs if os.path.isdir(path)]
    left = []
    for each in snapshots:
        folder, name = os.path.split(each.url)
        is_beside = os.path.basename(folder) == SNAPSHOT_FOLDER and os.path.dirname(folder) in homes
        is_whole = any(os.path.commonpath([path, folder]) == path for path in folders)
        if not (is_beside or is_whole or name.startswith(tuple(homes.get(folder, ())))):
            left.append(each)
    return left


def _joined(sources: Sequence[Source], snapshots: Sequence[CandidateFile]) -> tuple[list[tuple[str, ...]], list[Note]]:
    """The snapshots of each source's rank, and notes.

    A snapshot whose name begins with that of a trace belongs to it; one whose name has no rank to the only rank.
    """
    with_ranks, notes = placed(list(snapshots))
    ranks = {each.rank for each in sources}
    of_rank: defaultdict[int, list[str]] = defaultdict(list)
    strays = []
    for each in sorted(with_ranks, key=lambda each: (natural(each.url), each.url)):
        rank = rank_in_name(each.url) if each.rank is None else each.rank
        if rank is None:
            by_trainer = rank_in_snapshot_name(each.url)
            rank = by_trainer if by_trainer in ranks or len(ranks) != 1 else next(iter(ranks))
        if rank in ranks and rank is not None:
            of_rank[rank].append(each.url)
        else:
            strays.append(os.path.basename(each.url))
    if strays:
        notes.append(
            Note(
                "SNAPSHOTS_LEFT_OUT",
                f"Memory snapshots whose names tell no rank of the run are left out: {shortened(strays)}.",
            )
        )
    if missing := sorted(ranks - set(of_rank)) if of_rank else []:
        notes.append(Note("RANKS_WITHOUT_SNAPSHOT", f"Without a memory snapshot: ranks {listed(missing)}."))
    return [_of(each, sources, of_rank[each.rank]) for each in sources], notes


def _of(source: Source, sources: Sequence[Source], snapshots: Sequence[str]) -> tuple[str, ...]:
    """The snapshots of a source: those named after it, but none named after another.

    Those that are named after no trace, as where memory ran out between two, belong to the last of the rank, and to
    each that has none of its own.
    """
    of_rank = [each for each in sources if each.rank == source.rank]
    of_others = {
        url
        for each in of_rank
        if each is not source
        for url in snapshots
        if os.path.basename(url).startswith(stem(each.name))
    }
    own = tuple(url for url in snapshots if os.path.basename(url).startswith(stem(source.name)))
    is_last = source.cycle == max(each.cycle for each in of_rank)
    return own if own and not is_last else tuple(url for url in snapshots if url not in of_others)


FILES: Final = CompanionFiles(
    (SNAPSHOT_FOLDER,),
    lambda _, head: is_snapshot(head()),
    "no memory snapshot; torch.cuda.memory._dump_snapshot writes them",
    snapshot_at,
    _joined,
    lambda name: name.endswith(SUFFIXES),
    lambda _, reader: reader == NAME,
    is_run=True,
)
