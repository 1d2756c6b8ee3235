"""Capture traces: recordings of the time when a program captured its CUDA graphs, and the ranks that they belong to.

They are no part of a run. What they say of the operators in a graph is joined with the graph's replays in the run
(`model.graphs`). Ignores what is in them but for the rank.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kinetoscope.caching import SharedCache
from kinetoscope.model.graphs.replays import replays_graphs
from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.text import listed
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.readers.files.stored import stamp_of
from kinetoscope.readers.files.stream import ProgressCallback, TextBlocks, cache_for
from kinetoscope.readers.job.companion_files import CompanionFiles
from kinetoscope.readers.job.names import placed
from kinetoscope.readers.job.ranks import ordered
from kinetoscope.readers.json import kineto, sniff
from kinetoscope.readers.reader import CandidateFile
from kinetoscope.readers.snapshot import is_snapshot

if TYPE_CHECKING:
    from kinetoscope.model.graphs.annotated import Path
    from kinetoscope.model.graphs.captures import CapturedGraph

NAME: Final = "capture"

MAX_KEPT_FILES: Final = 4
"""Capture traces of a rank that are kept in memory between the choice of those that it replays and their use."""

MAX_KEPT_NODES: Final = 1 << 22
"""Nodes of captures that are kept for other ranks."""

MAX_BYTES: Final = 1 << 30
"""Bytes of text of a file of annotations beyond which reading it stops."""

CAPTURE_FOLDERS: Final = ("capture_traces", "graph_capture_profile")
"""Folders beside a run's traces: of vLLM, of SGLang before 0.5.14, of our recorder; of SGLang since."""

_CAPTURE: Final = re.compile(rf"(?:^|/)(?:{'|'.join(CAPTURE_FOLDERS)})/|(?:^|/)(?:cuda_)?graph_capture[^/]*\Z")


_GRAPHS: Final[SharedCache[list[CapturedGraph]]] = SharedCache(
    MAX_KEPT_NODES, lambda graphs: 1 + sum(len(graph.nodes) for graph in graphs)
)


def is_capture_trace(url: str) -> bool:
    """Whether the name of a file, or of its folder, is that of a capture trace."""
    return _CAPTURE.search(url.replace("\\", "/")) is not None


def with_captures(trace: Trace, progress: ProgressCallback | None = None) -> Trace:
    """The trace with the calls that its graphs were captured in, by the captures that belong to it."""
    if not replays_graphs(trace):
        return trace
    from kinetoscope.model.graphs.attach import with_captured_calls

    captures = [_read(trace.source, url, progress) for url in trace.source.files(NAME)]
    dump: dict[int, Path] = {}
    for each in captures:
        dump |= each if isinstance(each, dict) else {}
    return with_captured_calls(trace, [each for each in captures if isinstance(each, _CaptureFile)], dump)


def _read(source: Source, url: str, progress: ProgressCallback | None = None) -> dict[int, Path] | _CaptureFile:
    """A capture trace, or the annotations in a file of them."""
    from kinetoscope.model.graphs.annotated import dumped_paths

    options = source.options
    if not is_capture_trace(url):
        with TextBlocks(url, max_size=MAX_BYTES, cache=cache_for(url, options), ahead=False) as blocks:
            if sniff.other_format(blocks.peek()) is sniff.NODE_ANNOTATIONS:
                return dumped_paths(b"".join(blocks).decode("utf-8", "replace"), url)
    return _CaptureFile(Source(url, options=options), progress, len(source.files(NAME)) <= MAX_KEPT_FILES)


class _CaptureFile:
    """A capture trace.

    Engines write one for each size, hundreds in all, of which a run replays a few. What tells which are kept, for other
    ranks may replay them; the traces are read again.
    """

    def __init__(self, source: Source, progress: ProgressCallback | None, keeps: bool) -> None:
        self._source, self._progress, self._keeps = source, progress, keeps
        self._trace: Trace | None = None

    def graphs(self) -> Sequence[CapturedGraph]:
        """Its captures."""
        return _GRAPHS.get((self._source.url, stamp_of(self._source.url)), self._graphs)

    def _graphs(self) -> list[CapturedGraph]:
        from kinetoscope.model.graphs.captures import captured_graphs

        trace = self.trace()
        self._trace = trace if self._keeps else None
        return captured_graphs(trace, 0)

    def trace(self) -> Trace:
        """The trace."""
        return self._trace or kineto.load(self._source, progress=self._progress)


def _joined(sources: Sequence[Source], files: Sequence[CandidateFile]) -> tuple[list[tuple[str, ...]], list[Note]]:
    """The capture traces of each source's rank, and notes.

    A capture trace whose rank is not known goes with every rank. A rank without one of its own gets those of the lowest
    rank that has some: vLLM records captures on the first rank of each host only, and ranks capture the same graphs.
    What does not fit is refused later, kernel by kernel (`model.graphs.join`).
    """
    captures = placed(ordered(files))[0]
    by_rank: defaultdict[int, list[str]] = defaultdict(list)
    of_all = [capture.url for capture in captures if capture.rank is None]
    for capture in captures:
        if capture.rank is not None:
            by_rank[capture.rank].append(capture.url)
    lowest = min(by_rank, default=None)
    instead = [] if lowest is None else by_rank[lowest]
    notes = [Note("CAPTURES", f"Captures of CUDA graphs, which tell what the replays compute: {_names(captures)}.")]
    if without := sorted({each.rank for each in sources} - set(by_rank)) if by_rank else []:
        said = Note(
            "CAPTURES_OF_OTHER_RANK",
            f"Without a capture trace of their own, and joined with that of rank {lowest}: ranks {listed(without)}.",
        )
        notes.append(said)
    return [(*by_rank.get(each.rank, instead), *of_all) for each in sources], notes


def _is_one(head: bytes) -> bool:
    return sniff.other_format(head) in (None, sniff.NODE_ANNOTATIONS) and not is_snapshot(head)


def _names(captures: Sequence[CandidateFile]) -> str:
    names = [capture.url.rstrip("/").rpartition("/")[2] for capture in captures[:3]]
    return ", ".join([*names, f"and {len(captures) - 3} more"] if len(captures) > 3 else names)


FILES: Final = CompanionFiles(
    CAPTURE_FOLDERS,
    lambda _, head: _is_one(head()),
    "is no Kineto trace of a capture, nor annotations of the nodes of graphs",
    _read,
    _joined,
    takes=lambda url, _: is_capture_trace(url),
)
