"""A run that goes on, on a terminal: step times as a band of characters, marks, parts of steps, ranks behind."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl

from kinetoscope.model.history.bands import STRIDE, Bands, size_for
from kinetoscope.model.history.growing import GrowingRun
from kinetoscope.model.history.over_ranks import HOST_PARTS
from kinetoscope.model.history.tables import PART_WORDS
from kinetoscope.model.trace.text import number_of
from kinetoscope.pages.blocks import Part
from kinetoscope.screens.terminal import parts_lines
from kinetoscope.views.numbers import grouped, shown
from kinetoscope.views.terminal.lines import Line, Piece, plain
from kinetoscope.views.text import middle, printable, wrapped

LAST_STEPS: Final = 64
"""Steps of each rank of which the parts are said, and in which ranks are behind."""

_ROWS: Final = 9
_GUTTER: Final = 10
_LAGGING: Final = 5
_BEHIND: Final = 0.03
"""Share of a step by which a rank that is named is behind."""

_LATE_SECONDS: Final = 60
_ROOM: Final = 1.6
"""Times the typical step up to which the plot goes at most; longer steps stick out at its top."""

_GLYPHS: Final = {"save": "s", "evaluation": "e", "compile": "c", "collection": "g", "window": "w", "restart": "R"}
_WORDS: Final = {"collection": "garbage collection", "compile": "compilation"}
_KINDS: Final = {"save": "memory", "evaluation": "runtime", "compile": "communication", "window": "computation"}


@dataclass(frozen=True)
class Looked:
    """A look at a run.

    Attributes:
        name: of the run.
        run: what is read of it.
        recent: rows of STEPS of the last steps.
        age: seconds since the newest step ended; None without one.
        said: sentences about the whole run.
        last: so many steps are drawn; 0 for all.
    """

    name: str
    run: GrowingRun
    recent: pl.DataFrame
    age: float | None
    said: Sequence[str] = ()
    last: int = 0


def lines(looked: Looked, width: int) -> Iterator[Line]:
    """All that is shown, in at most `width` cells."""
    run = looked.run
    how_far = status(looked)
    room = max(width - len(how_far) - 2, 8)
    yield [(middle(printable(looked.name), room), "bold"), ("  ", ""), (how_far, _urgency(looked))]
    if not run.ranks:
        return
    for sentence in looked.said:
        yield from (plain(line) for line in wrapped(printable(sentence), width, indent="  "))
    yield plain()
    first = max(run.first, run.end - looked.last) if looked.last else run.first
    yield from _plot(run, first, max(width - _GUTTER, 16))
    yield plain()
    yield from _parts(looked.recent, width)
    yield from _lagging(run, width)


def status(looked: Looked) -> str:
    """`4 ranks, step 2,999, the newest ended 2 s ago`."""
    run = looked.run
    if not run.ranks:
        return "no step has ended yet"
    words = f"{number_of(len(run.ranks), 'rank')}, step {grouped(run.end - 1)}, "
    if run.has_ended:
        return f"{words}ended"
    age = looked.age or 0
    late = ": does it still run?" if age > _LATE_SECONDS else ""
    return f"{words}the newest ended {shown(max(math.ceil(age), 1) * 10**9, 'ns')} ago{late}"


def line(looked: Looked) -> str:
    """A look as one line of text, for a terminal that cannot be drawn on."""
    run = looked.run
    buckets = run.bands(1, max(run.end - LAST_STEPS, 0), run.end, 1)
    if buckets is None:
        return status(looked)
    place = int(np.nanargmax(buckets.slowest))
    slowest = f"the slowest {_time(buckets.slowest[place])} on rank {buckets.rank[place]}"
    times = f"{_time(float(np.nanmedian(buckets.median)))} a step, {slowest}"
    return f"{status(looked)}; last {grouped(LAST_STEPS)} steps: {times}"


def _urgency(looked: Looked) -> str:
    return "warn" if not looked.run.has_ended and (looked.age or 0) > _LATE_SECONDS else "dim"


def _time(value: float) -> str:
    return shown(float(value), "ns")


def _plot(run: GrowingRun, first: int, columns: int) -> Iterator[Line]:
    size = max(size_for(run.end - first, columns) // STRIDE, 1)
    low, high = first // size, (run.end - 1) // size + 1
    buckets = run.bands(size, low, high, 1)
    if buckets is None:
        return
    of = _Columns(buckets, min(columns, high - low))
    least, top = of.limits()
    edges = np.linspace(top, least, _ROWS + 1)
    for row, (upper, lower) in enumerate(pairwise(edges.tolist())):
        label = _time(top) if row == 0 else _time(least) if row == _ROWS - 1 else ""
        yield [
            (f"{label:>{_GUTTER - 2}} │", "dim"),
            *_joined(of.cell(column, lower, upper, row) for column in range(of.count)),
        ]
    ends = f"{grouped(first)}", f"{grouped(run.end - 1)}"
    yield plain(f"{'step':>{_GUTTER - 2}} └{ends[0]}{ends[1]:>{max(of.count - len(ends[0]), 1)}}", "dim")
    yield from _marks(run, first, of.count)


class _Columns:
    """Buckets as columns of characters."""

    def __init__(self, buckets: Bands, count: int) -> None:
        self.count = count
        begins = np.arange(count) * len(buckets.median) // count
        with np.errstate(invalid="ignore"):
            self.fastest = np.fmin.reduceat(buckets.fastest, begins)
            self.slowest = np.fmax.reduceat(buckets.slowest, begins)
            known = ~np.isnan(buckets.median)
            sums = np.add.reduceat(np.where(known, buckets.median, 0), begins)
            self.median = sums / np.add.reduceat(known.astype(np.float64), begins)

    def limits(self) -> tuple[float, float]:
        """Least and greatest time of the plot."""
        most, least = float(np.nanmax(self.slowest)), float(np.nanmin(self.fastest))
        top = min(most * 1.02, float(np.nanquantile(self.median, 0.8)) * _ROOM)
        return (least * 0.95 if least > top * 0.4 else 0.0), top

    def cell(self, column: int, lower: float, upper: float, row: int) -> Piece:
        """The character of a place, and its colour."""
        fastest, median, slowest = self.fastest[column], self.median[column], self.slowest[column]
        if np.isnan(median):
            return " ", ""
        if row == 0 and slowest > upper:
            return "▲", "waiting"
        if lower < median <= upper:
            return "━", "computation"
        return ("░", "computation") if fastest <= upper and slowest > lower else (" ", "")


def _marks(run: GrowingRun, first: int, count: int) -> Iterator[Line]:
    marks = run.marks(first).filter(pl.col("kind").is_in([*_GLYPHS]) & (pl.col("detail").fill_null("") != "0"))
    if not marks.height:
        return
    shown_kinds = [kind for kind in _GLYPHS if marks.filter(kind=kind).height]
    places: dict[int, str] = {}
    for kind in reversed(shown_kinds):  # the rarer ones first in the table stand over the others
        steps = marks.filter(kind=kind)["step"].to_numpy()
        places |= dict.fromkeys(((steps - first) * count // max(run.end - first, 1)).tolist(), kind)
    cells = [
        (_GLYPHS[places[at]], _KINDS.get(places[at], "host")) if at in places else (" ", "") for at in range(count)
    ]
    yield [(f"{'marks':>{_GUTTER - 2}}  ", "dim"), *_joined(cells)]
    words = ", ".join(f"{_GLYPHS[kind]} {_WORDS.get(kind, kind)}" for kind in shown_kinds)
    yield plain(f"{'':{_GUTTER}}{words}", "dim")


def _joined(pieces: Iterator[Piece] | Sequence[Piece]) -> list[Piece]:
    """Neighbours of one style as one piece."""
    made: list[Piece] = []
    for text, style in pieces:
        if made and made[-1][1] == style:
            made[-1] = (made[-1][0] + text, style)
        else:
            made.append((text, style))
    return made


def _parts(recent: pl.DataFrame, width: int) -> Iterator[Line]:
    """The parts of the last steps, of a rank on average."""
    whole = float((recent["end"] - recent["start"]).mean() or 0)  # type: ignore[arg-type]
    means = {name: float(recent[name].mean() or 0) for name in HOST_PARTS}  # type: ignore[arg-type]
    parts = [Part(name, PART_WORDS[name], means[name]) for name in HOST_PARTS if means[name]]
    if parts:
        rest = Part("idle", "rest of the step", max(whole - sum(means.values()), 0))
        yield plain(f"The last {grouped(LAST_STEPS)} steps, of a rank on average", "bold")
        yield from parts_lines([*parts, rest], "ns", width)


def _lagging(run: GrowingRun, width: int) -> Iterator[Line]:
    """Ranks whose own work makes the others wait."""
    ranks = run.ranks
    buckets = run.bands(1, max(run.end - LAST_STEPS, 0), run.end, len(ranks))
    if buckets is None or len(ranks) < 2:
        return
    known = ~np.isnan(buckets.behind)
    behind = np.where(known, buckets.behind, 0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    worst = [row for row in np.argsort(-behind).tolist() if behind[row] >= _BEHIND][:_LAGGING]
    if worst:
        said = ", ".join(
            f"rank {buckets.ranks[row]} by {shown(float(behind[row]), 'fraction')} of a step" for row in worst
        )
        yield plain()
        yield from (plain(each, "warn") for each in wrapped(f"Behind the others in their own work: {said}.", width))
