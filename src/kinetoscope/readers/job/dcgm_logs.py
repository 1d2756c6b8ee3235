"""Text of `dcgmi dmon` as the rows of a table: a line for each device and sample, with a time put before it.

dcgmi itself writes no times (NVIDIA/DCGM#14), so a log can only be joined where something else did, as moreutils' `ts`
does. A head names the fields and comes again now and then:

    2026-11-20 09:30:00.100000 #Entity   SMACT        DRAMA        POWER
    2026-11-20 09:30:00.100100 ID
    2026-11-20 09:30:00.100200 GPU 0     0.888        N/A          412.250
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from kinetoscope.errors import BrokenTraceError

_HEAD: Final = re.compile(r"(.{0,64}?)#\s?Entity\s+(\S.*)")
_SAMPLE: Final = re.compile(r"(.{0,64}?)\bGPU\s+(\d{1,4})\s+(\S.*)")

_NO_TIMES: Final = (
    "dcgmi dmon writes no times, so it cannot be said what of this log belongs to the trace; put them before each line:"
    " dcgmi dmon -e 1002,1005,155,100 -d 100 | ts '%Y-%m-%d %H:%M:%.S'"
)


def is_head(line: str) -> bool:
    """Does a line begin a table of dcgmi's?"""
    return _HEAD.match(line) is not None


def rows_of_dcgm(first: str, lines: Iterable[str], url: str) -> Iterator[list[str]]:
    """The rows, the first one the names of the columns; lines that are no sample are left out.

    Raises:
        BrokenTraceError: the samples have no times.
    """
    head = _HEAD.match(first)
    fields = head[2].split() if head else []
    yield ["timestamp", "gpu", *fields]
    for line in lines:
        if (sample := _SAMPLE.match(line)) is None:
            continue
        if not (time := sample[1].strip()):
            raise BrokenTraceError(f"{url}: {_NO_TIMES}")
        cells = sample[3].split()
        if len(cells) == len(fields):
            yield [time, sample[2], *cells]
