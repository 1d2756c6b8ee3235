"""DATA004: the training waits for data that does not come from torch's data loader."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.copies_to_device import copies_to_device
from kinetoscope.advisor.evidence.data_loader import (
    CERTAIN_SHARE,
    MIN_STEP_SHARE,
    confidence,
    gains_without,
    loader_time,
    main_thread_without,
)
from kinetoscope.advisor.evidence.source_location import source_of
from kinetoscope.advisor.finding import Confidence, Evidence, Finding
from kinetoscope.advisor.rule import NO_SERVER, RankView, Rule
from kinetoscope.advisor.wording import quoted, share, wording
from kinetoscope.algorithms.arrays import Bools, Int64s, marked, scattered
from kinetoscope.algorithms.intervals.intervals import Intervals, covered, difference, intersection, union
from kinetoscope.algorithms.trees.tree import ancestor
from kinetoscope.model.execution.activities import computes_inside, takes_next_batch
from kinetoscope.model.execution.call_tree import call_tree, main_thread
from kinetoscope.model.execution.marks import is_mark
from kinetoscope.model.steps.data_loading import gap_spans, waits_for_data
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.model.trace.trace import Trace
from kinetoscope.views.sentences import measured, say

_READERS: Final = (
    "PIL/", "_imaging", "imread", "imdecode", "cv2", "npyio", "webdataset", "nvidia/dali", "h5py", "pyarrow", "zarr",
    "lmdb", "tensorflow_datasets", "arrow_dataset", "torchvision/io", "torchaudio", "soundfile", "ffcv", "decord",
    "streaming/base", "BufferedReader", "pandas/io", "DataPipe",
)  # fmt: skip
"""What the names of Python calls, and of DataPipe's spans, hold that read data or decode it."""

_READS: Final = re.compile(
    r"(?:^|/)PIL/(?:ImageFile|\w*Plugin)\.py|(?:^|/)PIL/Image\.py\(\d+\): open$"
    r"|(?:^|/)(?:webdataset|nvidia/dali|h5py|pyarrow|zarr|tensorflow_datasets|torchvision/io|torchaudio|ffcv|decord)"
    r"/|arrow_dataset\.py|streaming/base/|pandas/io/|soundfile\.py|_?npyio(?:_impl)?\.py\(\d+\): load"
    r"|<built-in (?:function|method) (?:imread|imdecode|read\w* of _io\.)|lmdb|_imaging"
    r"|^enumerate\(DataPipe\)#"
)

_CHANGE: Final = (
    "- for batch in batches():  # made, or waited for, in the loop\n"
    "+ for batch in DataLoader(dataset, num_workers=4, pin_memory=True, persistent_workers=True):"
)

_CHANGE_OF_QUEUE: Final = (
    "- Thread(target=fill, args=(queue,)).start()\n"
    "+ for _ in range(4): Thread(target=fill, args=(queue,)).start()  # or processes; each makes other batches"
)
_QUEUE: Final = re.compile(r"(?:^|/)queues?\.py\(\d+\): get$")

_MIN_STEPS: Final = 2
"""Steps from which on there are gaps between steps."""


def waiting_for_data(rank: RankView) -> Iterator[Finding]:
    """Does the training wait for a data loader other than torch's?

    What it checks. Torch's loader leaves spans. Other loaders leave none, only a gap at the beginning of each step,
    from the last operator of the step before to the forward pass. Where Python calls were recorded, those count that
    wait for a queue, take the next item of an iterator, or read and decode files (what Pillow makes of an image in
    memory is neither), and functions of one's own that are
    named like loaders (`batches`, `get_data`); none of them may launch anything. Else the part of the gap counts that
    lies before a copy to the device, without operators and runtime calls.

    Why it matters. While the training thread waits for a batch, or makes one, it launches nothing. At stake is the time
    that the steps gain without this waiting; three quarters of it count as likely (half where the training needs the
    host's cores itself). Without Python calls the use of this time is inferred, and half of it counts. Where the thread
    waits for a queue, something makes batches ahead already: none of the gain counts.

    What to do. Make batches ahead in another process or thread; torch's DataLoader does, with workers.
    """
    time, source, known = _waiting(rank)
    if time is None or not time.length:
        return
    gains = gains_without(rank, time)
    exposed = rank.exposed(time)
    waiting = rank.per_step(exposed.length)
    if not len(gains) or float(np.mean(gains)) < MIN_STEP_SHARE * rank.step or waiting < MIN_STEP_SHARE * rank.step:
        return
    is_ahead = source >= 0 and 2 * covered(time, _in_queues(rank.trace)).sum() >= time.length
    part = 0.0 if is_ahead else CERTAIN_SHARE if source >= 0 and rank.has_device else 0.5
    name = rank.trace.strings.label(int(rank.trace.name[source])) if source >= 0 else ""
    yield Finding(
        message=say(
            "{process} waits for data that no torch DataLoader makes. It waits {waiting} of each step ({part}){where}.",
            process=wording(rank.program).process,
            waiting=measured(waiting, "ns"),
            part=share(waiting, rank.step),
            where=f", longest in {quoted(name)}" if source >= 0 else "",
        ),
        stake=rank.stake(part * gains, gains),
        factors=main_thread_without(rank, time),
        takes=waiting,
        change=_CHANGE_OF_QUEUE if is_ahead else _CHANGE,
        why=say(
            "A queue hands over what is made ahead already; whether more makers are faster the trace does not show."
        )
        if is_ahead
        else say("Batches that are made ahead are assumed to bring {part} of the gain.", part=share(part, 1.0)),
        confidence=confidence(rank, known),
        evidence=(_evidence(rank, source, time),),
        time=exposed,
    )


def _waiting(rank: RankView) -> tuple[Intervals | None, int, Confidence]:
    """When the main thread waits, the Python call that shows it best (−1 for none), and how sure that is."""
    trace, loading = rank.trace, loader_time(rank.trace)
    takes = waits_for_data(trace) | _reads(trace) | takes_next_batch(trace)
    calls = _outermost(trace, np.flatnonzero(takes & ~computes_inside(trace)))
    calls = calls[covered(Intervals(trace.start[calls], trace.end[calls]), loading) == 0]
    if len(calls):
        time = intersection(union(trace.start[calls], trace.end[calls]), union(*rank.scope.steps.host))
        longest = rank.longest(calls)
        return time, longest, "medium"
    if not rank.has_device or rank.scope.steps.origin == "window" or rank.step_count < _MIN_STEPS:
        return None, -1, "low"
    gaps, known = gap_spans(trace, rank.select.steps_by)
    places = rank.scope.places[known[rank.scope.places]]
    start, end = gaps.start[places], gaps.end[places]
    first = _first_copies(trace, start, end)
    own = (first >= 0) & (covered(Intervals(start, end), loading) == 0)
    busy = _busy(trace)
    time = difference(union(start[own], first[own]), busy)
    return time, -1, "low" if np.any(trace.kind == EventKind.PYTHON) else "medium"


def _in_queues(trace: Trace) -> Intervals:
    """When the main thread waits for a queue."""
    calls = rows_named(
        trace, lambda name: _QUEUE.search(name) is not None, EventKind.PYTHON, holding=("queue.py(", "queues.py(")
    )
    calls &= trace.track == main_thread(trace)
    return union(trace.start[calls], trace.end[calls])


def _outermost(trace: Trace, rows: Int64s) -> Int64s:
    """Calls on the main thread that lie in no other of them."""
    rows = rows[trace.track[rows] == main_thread(trace)]
    wanted = marked(len(trace), rows)
    parent = call_tree(trace).parent
    inside = (parent[rows] >= 0) & (ancestor(parent, wanted)[parent[rows]] >= 0)
    return rows[~inside]


@derived
def _reads(trace: Trace) -> Bools:
    """Python calls and spans that read data or decode it: bool [events]."""
    return rows_named(
        trace,
        lambda name: _READS.search(name) is not None,
        EventKind.PYTHON,
        EventKind.ANNOTATION,
        EventKind.HOST_OP,
        holding=_READERS,
    )


def _first_copies(trace: Trace, start: Int64s, end: Int64s) -> Int64s:
    """When in each span the first copy to a device is asked for, −1 where none is: int64 [spans], ns."""
    copies = copies_to_device(trace)
    rows = np.where(copies.op >= 0, copies.op, copies.call)
    asked = np.sort(trace.start[rows[trace.track[rows] == main_thread(trace)]])
    place = np.searchsorted(asked, start)
    there = place < len(asked)
    first = scattered(len(start), there, asked[place[there]], np.int64)
    return np.where(first < end, first, -1)


@derived
def _busy(trace: Trace) -> Intervals:
    """When the main thread is in an operator or a call of the runtime."""
    kinds = (trace.kind == EventKind.HOST_OP) | (trace.kind == EventKind.RUNTIME)
    rows = kinds & ~is_mark(trace) & (trace.track == main_thread(trace))
    return union(trace.start[rows], trace.end[rows])


def _evidence(rank: RankView, source: int, time: Intervals) -> Evidence:
    if source >= 0:
        caller = source_of(rank.trace, int(call_tree(rank.trace).parent[source]))
        return rank.event(source, "the longest of these calls", "flame", caller)
    return rank.longest_of(time, "the longest gap", "step_breakdown")


RULE = Rule("DATA004", "Waiting for data of another loader", waiting_for_data, programs=NO_SERVER)
