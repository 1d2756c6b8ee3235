"""A memory snapshot opened by itself: a trace that has nothing but the ranges which the snapshot names.

Annotations are ranges on a thread of their own. What `_set_memory_metadata` said of steps makes `ProfilerStep#n`, so
that steps can be selected as in any trace.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np

from kinetoscope.algorithms.arrays import Int32s
from kinetoscope.model.snapshot.snapshot import NONE, Snapshot
from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.trace import Trace
from kinetoscope.readers.files.stream import TextBlocks, cache_for
from kinetoscope.readers.json import kineto, probe
from kinetoscope.readers.reader import Reader
from kinetoscope.readers.snapshot import load as load_snapshot

NAME: Final = "snapshot"

SUFFIXES: Final = tuple(f"{name}{packed}" for name in (".pickle", ".pkl") for packed in ("", ".gz", ".zst"))

_STEP_KEYS: Final = ("step", "global_step")
"""Keys of metadata, a JSON object, whose value is the number of a step."""

_MICROSECOND_NS: Final = 1000


def snapshot_at(source: Source, url: str, progress: Callable[[int], None] | None = None) -> Snapshot:
    """The snapshot in a file, read with the options of a source.

    Raises:
        NotFoundError, NotATraceError, BrokenTraceError, LimitError: it cannot be read, or is none.
    """
    options, cache = source.options, cache_for(url, source.options)
    with TextBlocks(url, max_size=options.max_size, progress=progress, cache=cache) as blocks:
        return load_snapshot(url, blocks)


def load(source: Source, *, progress: Callable[[int], None] | None = None) -> Trace:
    """The trace of a snapshot, which it keeps.

    Raises: as `snapshot_at`.
    """
    snapshot = snapshot_at(source, source.url, progress)
    text = json.dumps({"traceEvents": [*_ranges(snapshot)]}).encode()
    trace = kineto.read(replace(source, snapshots=(source.url,)), TextInMemory(source.url, text))
    trace.keep((NAME, source.url), lambda: snapshot)
    return trace


class TextInMemory:
    """A `Text` of one block."""

    def __init__(self, path: str, text: bytes) -> None:
        self.path, self.fault, self.goes_on, self.unread, self.length = path, list[str](), False, 0.0, len(text)
        self._blocks = iter([text])

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return next(self._blocks)


def _ranges(snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    """Events of Chrome's format: where the history begins and ends, annotations, steps of metadata."""
    times = [time for each in snapshot.events for time in (each.time[:1], each.time[-1:]) if (time != NONE).all()]
    for instant in (min, max):
        if known := [int(time[0]) for time in times if len(time)]:
            name = f"Memory history {'begins' if instant is min else 'ends'}"
            yield {
                "ph": "i",
                "s": "g",
                "cat": "user_annotation",
                "name": name,
                "pid": 0,
                "tid": 0,
                **_at(instant(known)),
            }
    yield from _annotations(snapshot)
    for device in range(len(snapshot.events)):
        yield from _steps(snapshot, device)


def _annotations(snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    """A range for each beginning with its end: of those of one name and device that are open, the last begun."""
    rows, names = snapshot.annotations, snapshot.strings
    open_ranges: dict[tuple[int, int], list[int]] = {}
    columns = (rows.name, rows.is_start, rows.device, rows.time)
    for name, is_start, device, time in zip(*(each.tolist() for each in columns), strict=True):
        begun = open_ranges.setdefault((name, device), [])
        if is_start:
            begun.append(time)
        elif begun:
            yield _range(names.text(name), device, begun.pop(), time)


def _steps(snapshot: Snapshot, device: int) -> Iterator[dict[str, Any]]:
    """The steps that metadata names: from the first event of each to that of the next."""
    events = snapshot.events[device]
    rows = np.flatnonzero((events.metadata != NONE) & (events.time != NONE))
    texts = {code: snapshot.strings.text(code) for code in _distinct(events.metadata[rows])}
    numbers = {code: _step(text) for code, text in texts.items()}
    changes = rows[np.flatnonzero(np.diff(events.metadata[rows], prepend=NONE))]
    begun: tuple[int, int] | None = None
    for code, time in zip(events.metadata[changes].tolist(), events.time[changes].tolist(), strict=True):
        number = numbers[code]
        if begun is not None and number != begun[0]:
            yield _range(f"ProfilerStep#{begun[0]}", device, begun[1], time)
            begun = None
        if begun is None and number is not None:
            begun = number, time
    if begun is not None:
        yield _range(f"ProfilerStep#{begun[0]}", device, begun[1], int(events.time[-1]))


def _distinct(codes: Int32s) -> list[int]:
    distinct: list[int] = np.unique(codes).tolist()
    return distinct


def _step(metadata: str) -> int | None:
    """The number of the step that a text of metadata names."""
    try:
        facts = json.loads(metadata)
    except (ValueError, RecursionError):
        return None
    numbers = [facts[key] for key in _STEP_KEYS if key in facts] if isinstance(facts, dict) else []
    return next((number for number in numbers if type(number) is int and number >= 0), None)


def _range(name: str, device: int, start: int, end: int) -> dict[str, Any]:
    duration = {"dur": max(end - start, 0) // _MICROSECOND_NS}
    return {"ph": "X", "cat": "user_annotation", "name": name, "pid": 0, "tid": device + 1, **_at(start), **duration}


def _at(time: int) -> dict[str, Any]:
    return {"ts": time // _MICROSECOND_NS}


READER: Final = Reader(NAME, probe.probe, load, suffixes=SUFFIXES)
