"""Memory timelines of torch's profiler: the files of `export_memory_timeline`, by their content.

`.json` is `[times, rows]`: µs, and for each a zero and the bytes of eight categories. `.raw.json` is a list of
`[ns, action, bytes, category]`, −1 for what was there before, negative bytes for what goes. `.html` is a picture, which
holds no numbers. Formulas: torch/profiler/_memory_profiler.py, `MemoryProfileTimeline`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.errors import BrokenTraceError
from kinetoscope.model.memory.categories import CATEGORIES
from kinetoscope.model.memory.category_series import SERIES_KEY, TORCH_CATEGORIES, CategorySeries
from kinetoscope.model.trace.build import TraceBuilder
from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.trace import Trace
from kinetoscope.readers.files.stream import opened
from kinetoscope.readers.reader import Reader

RAW_NUMBERS: Final = 4
ROW_NUMBERS: Final = 2 + len(TORCH_CATEGORIES)
"""Numbers of an instant: its time, a zero, the categories."""

_BEGINNING: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[\s*\[\s*-?[0-9]")

_NO_SERIES: Final = "no memory timeline; write it again with prof.export_memory_timeline('timeline.raw.json.gz')"


def series_in(url: str, blocks: Iterable[bytes]) -> CategorySeries:
    """The series in a file, given as blocks of its decompressed bytes.

    Raises:
        BrokenTraceError: it is cut, or something else.
    """
    text = b"".join(blocks).translate(None, b" \t\r\n")
    is_raw = b",[[" not in text
    if text.translate(None, b"0123456789-,[]") or not text.endswith(b"]]" if is_raw else b"]]]"):
        raise BrokenTraceError(f"{url}: {_NO_SERIES}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            numbers: Int64s = np.fromstring(text.translate(None, b"[]"), np.int64, sep=",")
    except (DeprecationWarning, ValueError, OverflowError) as error:
        raise BrokenTraceError(f"{url}: {_NO_SERIES}") from error
    rows = text.count(b"[") - (1 if is_raw else 3)
    if rows < 1 or numbers.size != rows * (RAW_NUMBERS if is_raw else ROW_NUMBERS):
        raise BrokenTraceError(f"{url}: {_NO_SERIES}")
    if not is_raw:
        return CategorySeries(numbers[:rows] * 1000, _by_category(numbers[rows:].reshape(rows, -1)[:, 1:]))
    return _of_changes(url, numbers.reshape(rows, RAW_NUMBERS))


def _of_changes(url: str, rows: Int64s) -> CategorySeries:
    """The series of changes: int64 [changes, RAW_NUMBERS]."""
    time, _action, size, category = rows.T
    if category.min() < 0 or category.max() >= len(TORCH_CATEGORIES):
        raise BrokenTraceError(f"{url}: {_NO_SERIES}")
    time = np.where(time < 0, time[time >= 0].min(initial=np.iinfo(np.int64).max), time)
    order = np.argsort(time, kind="stable")
    time = time[order]
    change = np.zeros((len(rows), len(TORCH_CATEGORIES)), np.int64)
    change[np.arange(len(rows)), category[order]] = size[order]
    last = np.flatnonzero(np.diff(time, append=time[-1] + 1))
    return CategorySeries(time[last], _by_category(np.cumsum(change, axis=0)[last]))


def _by_category(levels: Int64s) -> Int64s:
    """Levels in the order of our categories, of those in torch's order: int64 [instants, categories]."""
    ours = np.zeros((len(levels), len(CATEGORIES)), np.int64)
    ours[:, list(TORCH_CATEGORIES)] = levels
    return ours


def load(source: Source, *, progress: Callable[[int], None] | None = None) -> Trace:
    """The trace of a memory timeline: where it begins and ends, and the series, which it keeps.

    Raises:
        NotFoundError, BrokenTraceError, LimitError: it cannot be read, or is none.
    """
    with opened(source, progress=progress) as blocks:
        series = series_in(source.url, blocks)
    built = TraceBuilder()
    built.mark("Memory timeline begins", int(series.time[0]))
    built.mark("Memory timeline ends", int(series.time[-1]))
    trace = built.build(source, text_bytes=blocks.length)
    trace.keep((SERIES_KEY, source.url), lambda: series)
    return trace


READER: Final = Reader(SERIES_KEY, load, lambda _, head: _BEGINNING.match(head) is not None)
