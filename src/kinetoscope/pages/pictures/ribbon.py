"""The critical path as one band, all of it: pieces too short to be seen alone are drawn together, by cause."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from kinetoscope.pages.blocks import RibbonBlock
from kinetoscope.pages.sections.tables import first_cycle
from kinetoscope.schema import Result
from kinetoscope.views.grammar import short
from kinetoscope.views.numbers import grouped
from kinetoscope.views.sentences import constant, join, say

_MAX_PIECES: Final = 4000
"""Pieces that are drawn each for itself; of more, the short ones are joined."""

_COLUMNS: Final = 1600
"""So many of the shortest pieces that still stand alone would fill the picture; it is no wider than that."""


def ribbon(events: Result, kinds: Mapping[str, str], labels: Mapping[int, str]) -> RibbonBlock:
    """The pieces of `critical_path_events` of one rank by start.

    `kinds` has the colour of each cause, `labels` those of devices. The segments of each cause sum to the
    time of its pieces, exactly.
    """
    frame = events.frame.filter(pl.col("start").is_not_null() & (pl.col("rank") == pl.col("rank").first()))
    cycles, frame = "cycle" in frame.columns and frame.n_unique("cycle") > 1, first_cycle(frame)
    frame = frame.sort("start", maintain_order=True).with_columns(pieces=pl.lit(1, pl.UInt32))
    note = events.schema["cause"].doc.replace("the columns of `critical_path`", "the parts of the bar above")
    note += " It is the path of the first cycle." if cycles else ""
    if frame.height > _MAX_PIECES:
        first, last = frame.select(pl.col("start").min(), (pl.col("start") + pl.col("time")).max().alias("end")).row(0)
        least = max((last - first) // _COLUMNS, 1)
        frame = _joined(frame, least)
        shorter = say(
            "Pieces shorter than {least} are drawn together with their neighbours.", least=constant(least, "ns")
        )
        note = join([note, shorter])
    texts: dict[str, int] = {}

    def places(words: list[str]) -> list[int]:
        return [texts.setdefault(text, len(texts)) for text in words]

    causes = frame.get_column("cause").to_list()
    return RibbonBlock(
        "The path",
        start=frame.get_column("start").to_list(),
        end=(frame.get_column("start") + frame.get_column("time")).to_list(),
        name=places([_name(*row) for row in frame.select("name", "pieces").iter_rows()]),
        kind=places([kinds.get(cause, "idle") for cause in causes]),
        lane=places([_lane(labels, *row) for row in frame.select("thread", "device", "stream").iter_rows()]),
        row=frame.get_column("event").fill_null(-1).to_list(),
        texts=list(texts),
        note=note,
    )


def _joined(frame: pl.DataFrame, least: int) -> pl.DataFrame:
    """Pieces shorter than `least` that follow each other within so long, as one for each cause and lane.

    Those of a run stand one after another where the run was: none is moved by more than `least`.
    """
    lane = ["thread", "device", "stream"]
    alone = pl.col("time") >= least
    column = (pl.col("start") - pl.col("start").first()) // least
    begins = (
        alone | alone.shift(fill_value=True) | (column != column.shift()) | (pl.col("step") != pl.col("step").shift())
    )
    runs = frame.with_columns(run=begins.fill_null(True).cum_sum())
    runs = runs.with_columns(begin=pl.col("start").first().over("run"))
    longest = pl.col("name", "event").sort_by("time", maintain_order=True).last()
    parts = runs.group_by("run", "cause", *lane, maintain_order=True).agg(
        pl.col("time").sum(), pl.col("begin").first(), longest, pieces=pl.len()
    )
    before = pl.col("time").cum_sum().over("run") - pl.col("time")
    return parts.with_columns(start=pl.col("begin") + before).sort("start", maintain_order=True)


def _name(name: str | None, pieces: int) -> str:
    own = "(nothing recorded)" if name is None else short(name)
    return own if pieces == 1 else f"{own}, the longest of {grouped(pieces)} pieces"


def _lane(labels: Mapping[int, str], thread: int | None, device: int | None, stream: int | None) -> str:
    if device is not None:
        return f"{labels.get(device, f'device {device}')} · stream {stream}"
    return "" if thread is None else f"thread {thread}"
