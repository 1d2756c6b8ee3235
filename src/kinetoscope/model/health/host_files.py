"""Checks of what the host of a rank left when its job hung or ended."""

from __future__ import annotations

from collections.abc import Iterator

from kinetoscope.errors import InputError
from kinetoscope.model.hangs.host_file import HostFile
from kinetoscope.model.trace.text import number_of
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note


def host_files(trace: Trace) -> Iterator[Note]:
    """Notes on the stacks, notes, exits and logs that are read with the rank; none for a rank without any."""
    try:
        files = [*trace.companions("hang")]
    except InputError as error:
        yield Note("HOST_FILE_UNREADABLE", str(error), "error")
        return
    if files:
        yield Note("HOST_FILES", f"Left by the host: {', '.join(map(_said, files))}.")


def _said(file: HostFile) -> str:
    if file.is_log:
        return f"a log that names {number_of(len(file.exits), 'end')} of ranks"
    if file.note is not None:
        return f"a note ({file.note.why or 'without a reason'}, after step {file.note.step})"
    if file.exits:
        return f"how rank {file.exits[0].rank} ended"
    return f"stacks of {number_of(len(file.threads), 'thread')}"
