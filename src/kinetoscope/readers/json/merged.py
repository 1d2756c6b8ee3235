"""Merged files: traces of several ranks in one, in which a label of the rank stands before the process of each event.

SGLang merges the files of its ranks so: `"pid": "[TP00-DP01] 1234"` was process 1234 of that rank. A part, the events
of one label, is the trace that the rank's own file would give.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np

from kinetoscope.errors import KinetoscopeError
from kinetoscope.model.trace.source import Source, SourceOptions
from kinetoscope.model.trace.trace import Trace
from kinetoscope.model.trace.tracks import Tracks
from kinetoscope.readers.files.cache import Cache
from kinetoscope.readers.files.stream import TextBlocks
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


KEEP_SECONDS: Final = 60.0
"""Seconds for which a merged file is kept for the ranks that have not been asked for."""


class _Whole:
    """The merged file that was read last, until each of its parts has been taken, or for a while."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.key: tuple[str, str, SourceOptions] | None = None
        self.trace: Trace | None = None
        self.taken: set[str] = set()


_whole: Final = _Whole()


def load_part(source: Source, stamp: str, load: Callable[[Source], Trace]) -> Trace:
    """The trace of one rank of a merged file.

    Args:
        source: with a `part`.
        stamp: changes when the file does; "" if that is not known.
        load: reads the whole file.
    """
    key = source.url, stamp, source.options
    with _whole.lock:
        trace = _whole.trace if stamp and _whole.key == key else None
        if trace is None:
            _whole.trace = None  # not two at once
            trace = load(replace(source, part=""))
            _whole.key, _whole.trace, _whole.taken = key, trace, set()
        _whole.taken.add(source.part)
        if not stamp or _whole.taken >= set(_labels(trace)) - {""}:
            _whole.trace = None
        else:
            forgetting = threading.Timer(KEEP_SECONDS, _forget, [trace])
            forgetting.daemon = True
            forgetting.start()
    return part_of(trace, source)


def _forget(trace: Trace) -> None:
    with _whole.lock:
        if _whole.trace is trace:
            _whole.trace = None


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
