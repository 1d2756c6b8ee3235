"""Copies and sets on devices: the direction and the bytes of each, whatever the vendor that wrote it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Floats, Int8s, Int32s, Int64s
from kinetoscope.algorithms.grouping import group, group_in_order, sum_by
from kinetoscope.algorithms.intervals.sweeps import Levels, sum_open
from kinetoscope.model.execution.device_work import DeviceWork, device_work
from kinetoscope.model.graphs.lost_work import no_device_work
from kinetoscope.model.steps.scope import Scope
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import WorkKind
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note

SET: Final = "memset"
UNKNOWN_DIRECTION: Final = "unknown"

_PEERS: Final = re.compile(r"PtoP|P2P|PeerToPeer|[pP]eer")
_DIRECTION_LETTERS: Final = re.compile(r"(?<![A-Za-z])([HDAMS])(?:to|2)([HDAMS])(?![A-Za-z])")
"""`Memcpy HtoD (Pinned -> Device)` of CUDA and ROCm, `zeCommandListAppendMemoryCopy(M2D)` of XPU."""

_DIRECTION_WORDS: Final = re.compile(r"(host|device)_?to_?(host|device)", re.IGNORECASE)
"""`CopyHostToDevice` of older ROCm, `DEVICE_TO_HOST` of MTIA."""

_PLACES: Final = {"A": "D", "M": "H"}
"""An array (CUDA) lies on the device; memory that nobody registered (XPU) on the host."""


@dataclass(frozen=True)
class Copies:
    """All copies and sets of a trace, in file order.

    Attributes:
        work: int32 [copies], which of `device_work(trace)` each is.
        direction: int8 [copies], which of `directions`.
        directions: those that occur: HtoD, DtoH, DtoD, PtoP and the like, memset, unknown; sorted.
        bytes: int64 [copies], −1 where the trace does not say.
    """

    work: Int32s
    direction: Int8s
    directions: tuple[str, ...]
    bytes: Int64s


def copy_direction(text: str) -> str | None:
    """The direction of a copy of this name: HtoD, DtoH, DtoD, HtoH, PtoP, StoD, …; None if the name has none."""
    if _PEERS.search(text):
        return "PtoP"
    if short := _DIRECTION_LETTERS.search(text):
        return "to".join(_PLACES.get(place, place) for place in short.groups())
    if long := _DIRECTION_WORDS.search(text):
        return "to".join(place[0].upper() for place in long.groups())
    return None


@derived
def copies(trace: Trace) -> Copies:
    """The copies and sets of a trace."""
    work = device_work(trace)
    places = np.flatnonzero(work.of(WorkKind.MEMCPY, WorkKind.MEMSET)).astype(np.int32)
    rows = work.rows[places]
    argument = arguments.codes(trace, "copy_direction", rows)
    codes, first = group(trace.name[rows], argument, work.kind[places])
    examples = trace.name[rows[first]], argument[first], work.kind[places[first]]
    labels = [_label(trace, *each) for each in zip(*(column.tolist() for column in examples), strict=True)]
    directions = tuple(sorted(set(labels)))
    of_group = np.array([directions.index(label) for label in labels], np.int8)
    return Copies(places, of_group[codes], directions, _sizes(trace, work, places))


def _label(trace: Trace, name: int, argument: int, kind: int) -> str:
    if kind == WorkKind.MEMSET:
        return SET
    texts = [trace.strings.label(code) for code in (name, argument) if code >= 0]
    return next(filter(None, map(copy_direction, texts)), UNKNOWN_DIRECTION)


def _sizes(trace: Trace, work: DeviceWork, places: Int32s) -> Int64s:
    """The bytes of each copy: its own argument; with ROCm that of its call, where the call made nothing else."""
    sizes = np.maximum(arguments.integers(trace, "bytes", work.rows[places]), -1)
    launch = work.launch[places]
    unsized = np.flatnonzero((sizes < 0) & (launch >= 0))
    if len(unsized):
        made = sum_by(work.launch, len(trace), np.ones(len(work), np.int64))
        unsized = unsized[made[launch[unsized]] == 1]
        sizes[unsized] = np.maximum(arguments.integers(trace, "bytes", launch[unsized]), -1)
    return sizes


# --- transfer rates


@dataclass(frozen=True)
class Transfers:
    """The selected copies and sets, by device and direction.

    Attributes:
        device: int64 [groups]; with `direction` sorted.
        direction: of each group.
        group: int32 [copies].
        start, end: int64 [copies], ns, cut to the range of time.
        begins: bool [copies], starts in the range of time.
        bytes: int64 [copies], −1 where the trace does not say.
        rate: float64 [copies], bytes a second; NaN without a size or a duration.
        notes: what they leave out.
    """

    device: Int64s
    direction: tuple[str, ...]
    group: Int32s
    start: Int64s
    end: Int64s
    begins: Bools
    bytes: Int64s
    rate: Floats
    notes: tuple[Note, ...]

    def __len__(self) -> int:
        return len(self.direction)

    @property
    def bandwidth(self) -> Levels:
        """Bytes a second of all that run at a time, by group, without those of unknown rate."""
        has = ~np.isnan(self.rate)
        return sum_open(self.group[has], self.start[has], self.end[has], self.rate[has])


def transfers(view: Scope) -> Transfers:
    """The selected copies and sets."""
    every, work = copies(view.trace), view.device_work
    chosen = view.device_work_mask[every.work]
    place, kind, size = every.work[chosen], every.direction[chosen], every.bytes[chosen]
    start, end = work.start[place], work.end[place]
    codes, example = group_in_order(work.device[place], kind)
    duration = (end - start).astype(np.float64)
    has = (size >= 0) & (duration > 0)
    rate = np.where(has, size * 1e9 / np.where(has, duration, 1.0), np.nan)
    inside = view.clipped(start, end)
    return Transfers(
        device=work.device[place[example]],
        direction=tuple(every.directions[number] for number in kind[example].tolist()),
        group=codes,
        start=inside.start,
        end=inside.end,
        begins=view.begins(start),
        bytes=size,
        rate=rate,
        notes=tuple(_notes(view, size, duration)),
    )


def _notes(view: Scope, size: Int64s, duration: Floats) -> list[Note]:
    if not len(view.device_work):
        return [no_device_work(view.trace)]
    if not len(size):
        return [Note("NO_COPIES_SELECTED", "No copies or sets of device memory in what was selected.")]
    notes: list[Note] = []
    unsized, instant = int((size < 0).sum()), int(((size >= 0) & (duration == 0)).sum())
    if unsized:
        notes.append(
            Note(
                "COPIES_WITHOUT_SIZE",
                f"{unsized:,} of {len(size):,} copies and sets have no recorded size; bandwidths leave them out.",
            )
        )
    if instant:
        notes.append(
            Note(
                "COPIES_WITHOUT_TIME",
                f"{instant:,} of {len(size):,} copies and sets took 0 ns; bandwidths leave them out.",
            )
        )
    return notes
