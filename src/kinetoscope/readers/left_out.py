"""Notes on what recordings of other programs have that is not read, and on what they do not have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kinetoscope.model.trace.text import number_of
from kinetoscope.notes import Note

_MAX_KINDS: Final = 12


def kinds_not_read(what: str, counts: Mapping[str, int]) -> Iterator[Note]:
    """The note on kinds of records that are not read; none where there are none.

    Args:
        what: what they are of, such as "Records of rocprofv3".
        counts: of records, by kind.
    """
    there = [f"{kind} ({count:,})" for kind, count in counts.items() if count]
    if there:
        more = [f"{len(there) - _MAX_KINDS} more kinds"] if len(there) > _MAX_KINDS else []
        yield Note("KINDS_NOT_READ", f"{what} that are not read: {', '.join([*there[:_MAX_KINDS], *more])}.")


def records_left_out(count: int) -> Iterator[Note]:
    """The note on records that have values which cannot be; none of 0."""
    if count:
        which = number_of(count, "record has", "records have")
        yield Note("RECORDS_LEFT_OUT", f"{which} values that cannot be, and {'is' if count == 1 else 'are'} left out.")


def without_tensors(program: str, more: str) -> Note:
    """The note on what profilers of devices do not record of torch."""
    return Note("NO_TENSORS", f"{program} records no tensors, no memory of torch's allocator and no stacks; {more}.")
