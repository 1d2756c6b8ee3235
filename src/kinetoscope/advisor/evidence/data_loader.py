"""Spans of torch's data loader on the thread that trains, as the rules about data see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.advisor.finding import Confidence
from kinetoscope.advisor.rule import RankView
from kinetoscope.algorithms.arrays import Bools, Floats, Int64s
from kinetoscope.algorithms.intervals.intervals import Intervals, union
from kinetoscope.model.critical_path.what_if import Factors
from kinetoscope.model.device.hardware import devices, is_host_only
from kinetoscope.model.execution.call_tree import main_thread
from kinetoscope.model.execution.marks import is_step
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.model.trace.recording import recording
from kinetoscope.model.trace.trace import Trace

_LOADER: Final = "enumerate(DataLoader)#"

_MAKER: Final = ": _get_iterator"
"""How the name of torch's Python call ends that starts the workers."""

_SEED: Final = "aten::random_"
_DRAWING: Final = (
    _SEED, "aten::empty", "aten::item", "aten::_local_scalar_dense", "aten::randperm", "aten::resize_", "aten::zero_",
    "aten::scalar_tensor", "aten::to", "aten::_to_copy", "aten::empty_strided", "aten::copy_", "aten::fill_",
)  # fmt: skip
"""Operators with which torch's loader begins an epoch: seeds, and the order of the samples."""

_PROCESSES: Final = 4_000_000
"""ns from which on something may have started processes; to wake up workers that are there takes less."""

IN_PROCESS: Final = f"{_LOADER}_SingleProcessDataLoaderIter.__next__"
"""The span in which the training thread makes a batch itself."""

FROM_WORKERS: Final = f"{_LOADER}_MultiProcessingDataLoaderIter.__next__"
"""The span in which it takes a batch from workers, and waits for it if none is ready."""

CERTAIN_SHARE: Final = 0.75
"""Certain share of the stake of data loading: workers share memory and disk with the training, and
a batch that is ready has still to be taken."""

CERTAIN_SHARE_ON_HOST: Final = 0.5
"""The same where the training itself runs on the host's cores."""

MIN_STEP_SHARE: Final = 0.01
"""Share of a step from which on waiting for data is reported."""


def fetches(trace: Trace, name: str) -> Int64s:
    """Rows of the spans of a name on the main thread, in order of time."""
    rows = np.flatnonzero(
        rows_named(trace, name.__eq__, EventKind.ANNOTATION, EventKind.HOST_OP, holding=(_LOADER,))
        & (trace.track == main_thread(trace))
    )
    return rows[np.argsort(trace.start[rows], kind="stable")]


def loader_time(trace: Trace) -> Intervals:
    """When the main thread is in torch's data loader, with or without workers."""
    rows = np.concatenate([fetches(trace, IN_PROCESS), fetches(trace, FROM_WORKERS)])
    return union(trace.start[rows], trace.end[rows])


def gains_without(rank: RankView, time: Intervals) -> Floats:
    """How much shorter each selected step would be if the main thread had no such time, ns: float64 [steps]."""
    return rank.gains(main_thread_without(rank, time))


def main_thread_without(rank: RankView, time: Intervals) -> Factors:
    """A what-if in which the main thread has no such time."""
    factors = rank.factors()
    factors.cut[main_thread(rank.trace)] = time
    return factors


def sure(rank: RankView) -> float:
    """The share of the stake that more workers surely bring."""
    return CERTAIN_SHARE if rank.has_device else CERTAIN_SHARE_ON_HOST


def confidence(rank: RankView, known: Confidence) -> Confidence:
    """How sure a claim about data is: low where there is a device whose work, which may hide it, was not recorded."""
    unseen = not rank.has_device and (devices(rank.trace) or len(rank.trace.rows(EventKind.RUNTIME)))
    return "low" if unseen else known


def cores_for_workers(rank: RankView) -> tuple[int, int] | None:
    """Cores that a rank has besides those of its own threads, one at least, and its workers; None: not recorded."""
    facts = recording(rank.trace)
    if facts is None or not {"cores", "threads"} <= facts.cpu.keys():
        return None
    threads = facts.cpu["threads"] if is_host_only(rank.trace) else 1
    ranks = max(facts.cpu.get("local_ranks", 1), 1)
    return max(facts.cpu["cores"] // ranks - threads, 1), facts.cpu.get("workers", 0)


# --- where workers are started


@dataclass(frozen=True)
class WorkerStarts:
    """When workers were started, in order of time.

    Attributes:
        start, end: int64 [starts], from when torch draws the seed for the workers to the first fetch, ns.
        first: int64 [starts], row of the first fetch afterwards.
        last: int64 [starts], row of the fetch that found the epoch before at its end, and ended its workers; −1 where
            that is not in the recording.
    """

    start: Int64s
    end: Int64s
    first: Int64s
    last: Int64s

    def __len__(self) -> int:
        return len(self.first)


def first_fetches(trace: Trace) -> Int64s:
    """Rows of the first fetch of each epoch, and of those that only find an epoch at its end."""
    rows, over = fetches(trace, FROM_WORKERS), np.flatnonzero(_ends_of_epochs(trace))
    return np.unique(np.concatenate([starts(trace).first, rows[over], rows[over + 1]]))


@derived
def _ends_of_epochs(trace: Trace) -> Bools:
    """Fetches that gave no batch: another one follows, and between them only seeds are drawn: bool [fetches]."""
    rows = fetches(trace, FROM_WORKERS)
    drawing = np.isin(trace.name, trace.strings.codes(_DRAWING))
    ops = (trace.kind == EventKind.HOST_OP) & (trace.track == main_thread(trace)) & ~is_step(trace) & ~drawing
    ops[rows] = False
    begun = np.sort(trace.start[ops])
    over = np.zeros(len(rows), np.bool_)
    if len(rows) > 1:
        until = trace.start[rows[1:]]
        over[:-1] = np.searchsorted(begun, until) == np.searchsorted(begun, trace.end[rows[:-1]])
    return over


@derived
def starts(trace: Trace) -> WorkerStarts:
    """Find them.

    For new workers torch draws a seed: that tells them from workers that live on, if it takes as long as processes do.
    Where Python calls were recorded, the one that starts the workers tells.
    """
    rows, over = fetches(trace, FROM_WORKERS), np.flatnonzero(_ends_of_epochs(trace))
    on_main = trace.track == main_thread(trace)
    seeds = np.sort(trace.start[on_main & (trace.name == trace.strings.code(_SEED)) & (trace.name >= 0)])
    place = np.searchsorted(seeds, trace.end[rows[over]])
    drawn = np.append(seeds, np.iinfo(np.int64).max)[place]
    is_start = (drawn < trace.start[rows[over + 1]]) & (trace.start[rows[over + 1]] - drawn >= _PROCESSES)
    over, drawn = over[is_start], drawn[is_start]
    calls = rows_named(
        trace, lambda name: name.endswith(_MAKER) and "dataloader" in name, EventKind.PYTHON, holding=("_get_iterator",)
    )
    made = np.flatnonzero(calls & on_main)
    after = np.searchsorted(trace.start[rows], trace.end[made])
    extra = (after < len(rows)) & ~np.isin(after, over + 1)  # before the first epoch of the recording
    made, after = made[extra], after[extra]
    first = np.concatenate([rows[over + 1], rows[after]])
    last = np.concatenate([rows[over], np.full(len(made), -1)])
    start = np.concatenate([drawn, trace.start[made]])
    order = np.argsort(start, kind="stable")
    return WorkerStarts(start[order], trace.start[first][order], first[order], last[order])
