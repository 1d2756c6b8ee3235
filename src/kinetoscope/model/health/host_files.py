"""Checks of what the host of a rank left when its job hung or ended."""

from __future__ import annotations

from collections.abc import Iterator

from kinetoscope.errors import InputError
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
        yield Note("HOST_FILES", f"Left by the host: {', '.join(each.words for each in files)}.")
