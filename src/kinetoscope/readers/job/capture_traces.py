"""Capture traces: recordings of the time when a program captured its CUDA graphs, and the ranks that they belong to.

They are no part of a run. What they say of the operators in a graph is joined with the graph's replays in the run
(`model.graphs`). Ignores what is in them but for the rank.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.text import listed
from kinetoscope.notes import Note
from kinetoscope.readers.reader import CandidateFile

CAPTURE_FOLDERS: Final = ("capture_traces", "graph_capture_profile")
"""Folders beside a run's traces: of vLLM, of SGLang before 0.5.14, of our recorder; of SGLang since."""

_CAPTURE: Final = re.compile(rf"(?:^|/)(?:{'|'.join(CAPTURE_FOLDERS)})/|(?:^|/)(?:cuda_)?graph_capture[^/]*\Z")


def is_capture_trace(url: str) -> bool:
    """Whether the name of a file, or of its folder, is that of a capture trace."""
    return _CAPTURE.search(url.replace("\\", "/")) is not None


def apart(traces: list[CandidateFile]) -> tuple[list[CandidateFile], list[CandidateFile]]:
    """The traces of the run, and the capture traces; those alone are the run."""
    captures = [trace for trace in traces if is_capture_trace(trace.url)]
    if len(captures) == len(traces):
        return traces, []
    return [trace for trace in traces if trace not in captures], captures


def joined(sources: Sequence[Source], captures: Sequence[CandidateFile]) -> tuple[list[Source], list[Note]]:
    """The sources, each with the capture traces of its rank, and notes.

    A capture trace whose rank is not known goes with every rank. A rank without one of its own gets those of the lowest
    rank that has some: vLLM records captures on the first rank of each host only, and ranks capture the same graphs.
    What does not fit is refused later, kernel by kernel (`model.graphs.join`).
    """
    if not captures:
        return list(sources), []
    by_rank: defaultdict[int, list[str]] = defaultdict(list)
    of_all = [capture.url for capture in captures if capture.rank is None]
    for capture in captures:
        if capture.rank is not None:
            by_rank[capture.rank].append(capture.url)
    lowest = min(by_rank, default=None)
    instead = [] if lowest is None else by_rank[lowest]
    result = [replace(each, captures=(*by_rank.get(each.rank, instead), *of_all)) for each in sources]
    notes = [Note("CAPTURES", f"Captures of CUDA graphs, which tell what the replays compute: {_names(captures)}.")]
    if without := sorted({each.rank for each in sources} - set(by_rank)) if by_rank else []:
        said = Note(
            "CAPTURES_OF_OTHER_RANK",
            f"Without a capture trace of their own, and joined with that of rank {lowest}: ranks {listed(without)}.",
        )
        notes.append(Note("CAPTURES_OF_OTHER_RANK", said))
    return result, notes


def _names(captures: Sequence[CandidateFile]) -> str:
    names = [capture.url.rstrip("/").rpartition("/")[2] for capture in captures[:3]]
    return ", ".join([*names, f"and {len(captures) - 3} more"] if len(captures) > 3 else names)
