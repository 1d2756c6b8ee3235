"""Checks of what a rank leaves of a hang: the Flight Recorder's dumps, and the files of its host."""

from __future__ import annotations

from collections.abc import Iterator

from kinetoscope.errors import InputError
from kinetoscope.model.flight_recorder.dump import NONE, FlightDump
from kinetoscope.model.flight_recorder.of_trace import DAMAGED, done_of, dumps_of
from kinetoscope.model.trace.text import number_of
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note


def flight_recorder(trace: Trace) -> Iterator[Note]:
    """Notes on what the dumps of the rank hold, and what they lack; none for a rank without any."""
    try:
        dumps = dumps_of(trace)
    except InputError as error:
        yield Note("DUMP_UNREADABLE", str(error), "error")
        return
    for dump in dumps:
        yield from _of_dump(dump)


def _of_dump(dump: FlightDump) -> Iterator[Note]:
    entries, running = dump.entries, int((~done_of(dump)).sum())
    library = f", library {dump.library}" if dump.library else ""
    what = f"{number_of(len(entries), 'call')} of {number_of(len(dump.groups), 'group')}, {running:,} not done"
    yield Note("DUMP", f"Dump of the Flight Recorder, format {dump.version or 'unknown'}{library}: {what}.")
    yield from _of_reading(dump)
    if not len(entries):
        return
    lost = int(entries.record.min())
    if lost > 0:
        message = f"The ring of the Flight Recorder has overflowed: {number_of(lost, 'call')} before the first one that"
        yield Note("DUMP_OVERFLOWED", f"{message} it has are lost. TORCH_FR_BUFFER_SIZE makes it longer.", "note", lost)
    if (entries.completed > 0).any() and not (entries.duration >= 0).any():
        message = "The Flight Recorder has no durations: a collective is as long as between two looks of the watchdog,"
        message += " and bandwidths mean nothing. TORCH_NCCL_ENABLE_TIMING=1 has them measured."
        yield Note("DUMP_WITHOUT_DURATIONS", message, "warning")
    if (entries.stack == NONE).all():
        message = "The Flight Recorder's dump has no stacks, as JSON never has: lines of the program are unknown."
        yield Note("DUMP_WITHOUT_STACKS", message)


def _of_reading(dump: FlightDump) -> Iterator[Note]:
    """That it is damaged, and in one note what else reading has left out."""
    odd = [each for each in dump.notes if each.code != DAMAGED]
    yield from (each for each in dump.notes if each not in odd)
    if odd:
        yield Note("DUMP_ODD_ENTRIES", " ".join(odd), "warning")


def host_files(trace: Trace) -> Iterator[Note]:
    """Notes on the stacks, notes, exits and logs that are read with the rank; none for a rank without any."""
    try:
        files = [*trace.companions("hang")]
    except InputError as error:
        yield Note("HOST_FILE_UNREADABLE", str(error), "error")
        return
    if files:
        yield Note("HOST_FILES", f"Left by the host: {', '.join(each.words for each in files)}.")
