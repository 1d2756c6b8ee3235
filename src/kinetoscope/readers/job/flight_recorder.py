"""Dumps of the Flight Recorder that belong to the traces of a run: among its files, beside them, or named."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.text import listed
from kinetoscope.notes import Note
from kinetoscope.readers.flight_recorder import is_dump
from kinetoscope.readers.flight_recorder.alone import NAME, dump_at, is_named
from kinetoscope.readers.job.companion_files import CompanionFiles
from kinetoscope.readers.job.host_files import HANG_FOLDER
from kinetoscope.readers.job.ranks import natural, rank_in_dump_name
from kinetoscope.readers.job.several import shortened
from kinetoscope.readers.reader import CandidateFile

DUMP_FOLDER: Final = "flight_recorder"
"""The folder beside traces that our recorder collects dumps in."""


def _joined(sources: Sequence[Source], dumps: Sequence[CandidateFile]) -> tuple[list[tuple[str, ...]], list[Note]]:
    """The dumps of each source's rank, of all backends, and notes."""
    ranks = {each.rank for each in sources}
    of_rank: defaultdict[int, list[str]] = defaultdict(list)
    strays = []
    for dump in sorted(dumps, key=lambda each: (natural(each.url), each.url)):
        rank = rank_in_dump_name(dump.url)
        if rank is not None and rank in ranks:
            of_rank[rank].append(dump.url)
        else:
            strays.append(os.path.basename(dump.url))
    notes = []
    if strays:
        text = f"Dumps of the Flight Recorder whose names tell no rank of the run are left out: {shortened(strays)}."
        notes.append(Note("DUMPS_LEFT_OUT", text))
    if missing := sorted(ranks - set(of_rank)) if of_rank else []:
        notes.append(Note("RANKS_WITHOUT_DUMP", f"Without a dump of the Flight Recorder: ranks {listed(missing)}."))
    return [tuple(of_rank[each.rank]) for each in sources], notes


_ALONE_NOTE: Final = Note(
    "DUMPS_ALONE",
    "There is no trace, only dumps of the Flight Recorder: the collectives that each rank called last. Those on "
    "devices end when the watchdog noticed it, up to its interval (100 ms) late.",
)

FILES: Final = CompanionFiles(
    (DUMP_FOLDER, HANG_FOLDER),
    lambda _, head: is_dump(head()),
    "no dump of the Flight Recorder; torch writes them to TORCH_FR_DUMP_TEMP_FILE when a collective takes too long",
    dump_at,
    _joined,
    is_named,
    lambda _, reader: reader == NAME,
    is_run=True,
    alone=(_ALONE_NOTE,),
    one_run=True,
)
