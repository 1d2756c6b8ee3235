"""The history of a run: in the folder that the recorder writes it to, beside the windows, or alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kinetoscope.model.trace.source import Source
from kinetoscope.notes import Note
from kinetoscope.readers.history.alone import ENDING, FOLDER, NAME, head_at, is_history
from kinetoscope.readers.job.companion_files import CompanionFiles
from kinetoscope.readers.reader import CandidateFile


def _joined(sources: Sequence[Source], files: Sequence[CandidateFile]) -> tuple[list[tuple[str, ...]], list[Note]]:
    """All files with each source: a history is of the run, and ranks may have left no trace."""
    every = tuple(sorted(each.url for each in files))
    return [every] * len(sources), []


_ALONE_NOTE: Final = Note(
    "HISTORY_ALONE",
    "There is no trace, only the history of the run: `kinetoscope history` says what it did. "
    "`kinetoscope record --every` records windows, too, which say what a step does.",
)

FILES: Final = CompanionFiles(
    (FOLDER,),
    lambda url, head: url.endswith(ENDING) and is_history(head()),
    "no history of a run; `kinetoscope record --history` writes one",
    head_at,
    _joined,
    takes=lambda _, reader: reader == NAME,
    is_run=True,
    alone=(_ALONE_NOTE,),
    one_run=True,
)
