"""A memory snapshot opened by itself: a trace that has nothing but the ranges which the snapshot names.

Annotations are ranges on a thread of their own. What `_set_memory_metadata` said of steps makes `ProfilerStep#n`, so
that steps can be selected as in any trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from kinetoscope.algorithms.arrays import Int32s
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.strings import json_object
from kinetoscope.model.trace.trace import Trace
from kinetoscope.readers.files.stream import opened
from kinetoscope.readers.reader import Reader
from kinetoscope.readers.snapshot import is_snapshot
from kinetoscope.readers.snapshot import load as load_snapshot

if TYPE_CHECKING:
    from kinetoscope.model.snapshot.snapshot import Snapshot

NAME: Final = "snapshot"

SUFFIXES: Final = tuple(f"{name}{packed}" for name in (".pickle", ".pkl") for packed in ("", ".gz", ".zst"))

_STEP_KEYS: Final = ("step", "global_step")
"""Keys of metadata, a JSON object, whose value is the number of a step."""


def snapshot_at(source: Source, url: str, progress: Callable[[int], None] | None = None) -> Snapshot:
    """The snapshot in a file, read with the options of a source.

    Raises:
        NotFoundError, NotATraceError, BrokenTraceError, LimitError: it cannot be read, or is none.
    """
    with opened(source, url=url, progress=progress) as blocks:
        return load_snapshot(url, blocks)


def load(source: Source, *, progress: Callable[[int], None] | None = None) -> Trace:
    """The trace of a snapshot, which it keeps.

    Raises: as `snapshot_at`.
    """
    from kinetoscope.model.snapshot.snapshot import NONE
    from kinetoscope.model.trace.build import TraceBuilder

    with opened(source, progress=progress) as blocks:
        snapshot = load_snapshot(source.url, blocks)
    built = TraceBuilder()
    times = [time for each in snapshot.events for time in (each.time[:1], each.time[-1:]) if (time != NONE).all()]
    if known := [int(time[0]) for time in times if len(time)]:
        built.mark("Memory history begins", min(known))
        built.mark("Memory history ends", max(known))
    ranges = [
        *_annotations(snapshot),
        *(each for device in range(len(snapshot.events)) for each in _steps(snapshot, device)),
    ]
    names, devices, starts, ends = zip(*ranges, strict=True) if ranges else ((), (), (), ())
    until = np.maximum(np.array(starts, np.int64), np.array(ends, np.int64))
    built.add(EventKind.ANNOTATION, names, starts, until, thread=[device + 1 for device in devices])
    trace = built.build(replace(source, companions={NAME: (source.url,)}), text_bytes=blocks.length)
    trace.keep((NAME, source.url), lambda: snapshot)
    return trace


_Range = tuple[str, int, int, int]
"""Name, device, start and end, ns."""


def _annotations(snapshot: Snapshot) -> Iterator[_Range]:
    """A range for each beginning with its end: of those of one name and device that are open, the last begun."""
    rows, names = snapshot.annotations, snapshot.strings
    open_ranges: dict[tuple[int, int], list[int]] = {}
    columns = (rows.name, rows.is_start, rows.device, rows.time)
    for name, is_start, device, time in zip(*(each.tolist() for each in columns), strict=True):
        begun = open_ranges.setdefault((name, device), [])
        if is_start:
            begun.append(time)
        elif begun:
            yield names.text(name), device, begun.pop(), time


def _steps(snapshot: Snapshot, device: int) -> Iterator[_Range]:
    """The steps that metadata names: from the first event of each to that of the next."""
    from kinetoscope.model.snapshot.snapshot import NONE

    events = snapshot.events[device]
    rows = np.flatnonzero((events.metadata != NONE) & (events.time != NONE))
    texts = {code: snapshot.strings.text(code) for code in _distinct(events.metadata[rows])}
    numbers = {code: _step(text) for code, text in texts.items()}
    changes = rows[np.flatnonzero(np.diff(events.metadata[rows], prepend=NONE))]
    begun: tuple[int, int] | None = None
    for code, time in zip(events.metadata[changes].tolist(), events.time[changes].tolist(), strict=True):
        number = numbers[code]
        if begun is not None and number != begun[0]:
            yield f"ProfilerStep#{begun[0]}", device, begun[1], time
            begun = None
        if begun is None and number is not None:
            begun = number, time
    if begun is not None:
        yield f"ProfilerStep#{begun[0]}", device, begun[1], int(events.time[-1])


def _distinct(codes: Int32s) -> list[int]:
    distinct: list[int] = np.unique(codes).tolist()
    return distinct


def _step(metadata: str) -> int | None:
    """The number of the step that a text of metadata names."""
    facts = json_object(metadata)
    numbers = [facts[key] for key in _STEP_KEYS if key in facts]
    return next((number for number in numbers if type(number) is int and number >= 0), None)


READER: Final = Reader(NAME, load, lambda _, head: is_snapshot(head), suffixes=SUFFIXES)
