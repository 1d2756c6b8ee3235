"""Merged files: traces of several ranks in one, in which a label of the rank stands before the process of each event.

SGLang merges the files of its ranks so: `"pid": "[TP00-DP01] 1234"` was process 1234 of that rank. A part, the events
of one label, is the trace that the rank's own file would give.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np

from kinetoscope.errors import KinetoscopeError
from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.trace import Trace
from kinetoscope.model.trace.tracks import Tracks
from kinetoscope.readers.files.cache import Cache
from kinetoscope.readers.files.stream import TextBlocks
from kinetoscope.readers.files.whole import Whole
from kinetoscope.readers.reader import CandidateFile

_LABEL: Final = r"\[((?:TP|DP|PP|EP)\d{1,6}(?:-(?:TP|DP|PP|EP)\d{1,6})*)\] "
_PID: Final = re.compile(_LABEL + "(.*)", re.DOTALL)
_IN_TEXT: Final = re.compile(rb'"pid"\s*:\s*"' + _LABEL.encode())
_OVERLAP_BYTES: Final = 64
"""Bytes of a block that are searched again with the next one: a label may stand across."""

MAX_PARTS: Final = 1 << 10
"""Ranks in one file beyond which its labels are not believed."""


def rank_label(text: bytes) -> str:
    """The first label in a piece of text, such as TP00-DP01; "" for a file of one rank."""
    match = _IN_TEXT.search(text)
    return match[1].decode() if match else ""


def parts(candidate: CandidateFile, cache: Cache | None = None) -> list[CandidateFile]:
    """The ranks in a merged file, in order of label; the file itself where its labels cannot be read."""
    labels: set[str] = set()
    tail = b""
    try:
        with TextBlocks(candidate.url, cache=cache) as blocks:
            for block in blocks:
                labels.update(match.decode() for match in set(_IN_TEXT.findall(tail + block)))
                tail = block[-_OVERLAP_BYTES:]
                if len(labels) > MAX_PARTS:
                    return [candidate]
    except KinetoscopeError:  # it is told when the file is read
        return [candidate]
    size = candidate.size and candidate.size // max(len(labels), 1)
    return [replace(candidate, part=label, rank=None, world=0, basis="", size=size) for label in sorted(labels)]


def load_part(source: Source, stamp: str, load: Callable[[Source], Trace]) -> Trace:
    """The trace of one rank of a merged file.

    Args:
        source: with a `part`.
        stamp: changes when the file does; "" if that is not known.
        load: reads the whole file.
    """
    key = (source.url, stamp, source.options) if stamp else None
    return part_of(_MERGED_FILE.take(key, source.part, lambda: load(replace(source, part=""))), source)


def part_of(trace: Trace, source: Source) -> Trace:
    """The events of one rank, with its own numbers of processes; those without a label are in the first part."""
    labels = _labels(trace)
    wanted = {source.part} | ({""} if source.part == min(set(labels) - {""}, default="") else set())
    rows = np.flatnonzero(np.array([label in wanted for label in labels], np.bool_)[trace.track])
    columns = {
        name: getattr(trace, name)[rows] for name in ("ph", "category", "name", "track", "start", "end", "shape")
    }
    first = trace.shapes.first_values(columns["shape"])
    sizes = trace.shapes.sizes[columns["shape"]]
    values = trace.values[np.repeat(trace.first[rows] - first, sizes) + np.arange(int(sizes.sum()))]
    return Trace(
        source=source,
        columns={**columns, "first": first},
        values=values,
        strings=trace.strings,
        shapes=trace.shapes,
        tracks=Tracks.of_values([_own(pid) for pid in trace.tracks.pids], trace.tracks.tids),
        members=tuple((key, _of_rank(key, text, source.rank)) for key, text in trace.members),
        members_before_events=trace.members_before_events,
        reading=trace.reading,
        text_bytes=trace.text_bytes * len(rows) // max(len(trace), 1),
    )


def _labels(trace: Trace) -> list[str]:
    """The label of each track; "" where there is none."""
    matches = (_PID.match(pid) if isinstance(pid, str) else None for pid in trace.tracks.pids)
    return [match[1] if match else "" for match in matches]


def _own(pid: Any) -> Any:
    """A process as the rank's own file has it: a number, or a name such as Spans."""
    match = _PID.match(pid) if isinstance(pid, str) else None
    if match is None:
        return pid
    return int(match[2]) if re.fullmatch(r"-?\d{1,18}", match[2], re.ASCII) else match[2]


def _of_rank(key: str, text: str, rank: int) -> str:
    """A value at the top level, which SGLang takes from the first file: `distributedInfo` with this part's rank."""
    if key != "distributedInfo":
        return text
    try:
        facts = json.loads(text)
    except ValueError:
        return text
    return json.dumps({**facts, "rank": rank}) if isinstance(facts, dict) else text


_MERGED_FILE: Final = Whole[Trace](lambda trace: set(_labels(trace)) - {""})
