"""What the tests of engines for clusters ask, and a job to ask: questions that end the worker they run in, too."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import polars as pl

from kinetoscope import Selection, Trace
from kinetoscope.errors import UsageError
from kinetoscope.model.answer import Partial
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Schema
from tests import drawn

RANKS = 8
BROKEN = 5
"""The rank whose file is damaged beyond repair."""

WHO = Schema(
    Column("rank", pl.Int64, "Rank."),
    Column("events", pl.Int64, "How many there are."),
    Column("process", pl.Int64, "Who counted them."),
    Column("identity", pl.Int64, "Which object the trace is."),
)


def written(folder: Path, ranks: int = RANKS) -> Path:
    """A job in which rank r has r + 1 events, and one rank is broken."""
    for rank in range(ranks):
        file = drawn.written(folder / f"rank{rank}.json", *(drawn.op("mm", 10 * k, 1) for k in range(rank + 1)))
        if rank == BROKEN:
            file.write_text('{"traceEvents": [{"ph": "X", "na')
    return folder


def who(trace: Trace, select: Selection) -> Partial:
    """Which process answers."""
    return Partial(pl.DataFrame({"events": [len(trace)], "process": [os.getpid()], "identity": [id(trace)]}))


def ends_once(trace: Trace, select: Selection, *, rank: int, mark: str) -> Partial:
    """The first worker that is asked about this rank is killed."""
    if trace.source.rank == rank:
        try:
            os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return who(trace, select)
        os.kill(os.getpid(), signal.SIGKILL)
    return who(trace, select)


def ends_always(trace: Trace, select: Selection, *, rank: int) -> Partial:
    """Each worker that is asked about this rank is killed."""
    if trace.source.rank == rank:
        os.kill(os.getpid(), signal.SIGKILL)
    return who(trace, select)


def mistaken(trace: Trace, select: Selection) -> Partial:
    """A mistake of ours."""
    raise ZeroDivisionError(trace.source.rank)


def refused(trace: Trace, select: Selection) -> Partial:
    """A mistake of whoever asks."""
    raise UsageError("there is no such thing")


def halves(trace: Trace, select: Selection) -> Partial:
    """A number whose sum depends on the order of adding, and a note."""
    return Partial(pl.DataFrame({"rank": [0], "value": [0.1 * 3 ** len(trace)]}), (Note("OF", f"of {len(trace)}."),))


def added(one: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    """Their sum."""
    return one + other


HALVES = Schema(Column("rank", pl.Int64, "Rank."), Column("value", pl.Float64, "A number."))


def number(trace: Trace, select: Selection, *, mark: str = "") -> Partial:
    """The same, and in how many other processes it was folded: in none. Rank 13 kills the first worker it meets."""
    if mark:
        ends_once(trace, select, rank=13, mark=mark)
    return Partial(halves(trace, select).frame.with_columns(elsewhere=pl.lit(0)), halves(trace, select).notes)


def folded(one: pl.DataFrame, other: pl.DataFrame, *, here: int) -> pl.DataFrame:
    """The sum, and how often that was not done in the process `here`."""
    return (one + other).with_columns(elsewhere=pl.col("elsewhere") + (os.getpid() != here))


FOLDED = Schema(*HALVES, Column("elsewhere", pl.Int64, "Folds in other processes."))
