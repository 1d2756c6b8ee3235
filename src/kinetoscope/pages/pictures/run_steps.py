"""The picture of a whole run: bands of step time over ranks, ranks that are behind, and what happened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import polars as pl

from kinetoscope.pages.blocks import HistoryBlock, Link, RunMark
from kinetoscope.pages.sentences.history import change_sentence
from kinetoscope.schema import Result
from kinetoscope.views.numbers import grouped, shown

ROWS: Final = 64
"""Rows of ranks; of more ranks several share one, and the slowest counts."""

_YOUNG: Final = ("0", "1")
"""Generations of garbage collections that are too many and too short to be drawn."""

_NOTE: Final = "Drag selects steps. The band has the least and the greatest time of each place, the line the mean."
_NOTE_OF_RANKS: Final = (
    "Drag selects steps. A band from the fastest to the slowest rank, the median as a line. Below, how far each rank "
    "is behind the others in its own work: all but the backward pass, in which ranks wait."
)

_MOST_WINDOWS: Final = 200


def run_picture(
    said: Mapping[str, Result], windows: Mapping[str, Link], chosen: tuple[int, int] | None = None
) -> HistoryBlock:
    """The picture, from the answers of `history_steps`, `history_ranks`, `history_changes` and `history_marks`."""
    steps = said["steps"].frame
    labels, behind = _behind(said["ranks"].frame, steps["step"])
    return HistoryBlock(
        "Step times of all ranks",
        int(steps["steps"][0]),
        step=steps["step"].to_list(),
        fastest=steps["fastest"].to_list(),
        median=steps["median"].to_list(),
        slowest=steps["slowest"].to_list(),
        rank=steps["rank"].to_list(),
        ranks=labels,
        behind=behind,
        marks=[*_changes(said["changes"]), *marks_between(said["marks"].frame, int(steps["steps"][0]), windows)],
        chosen=chosen,
        note=_NOTE_OF_RANKS if labels else _NOTE,
    )


def _behind(ranks: pl.DataFrame, steps: pl.Series) -> tuple[list[str], list[list[int | None]]]:
    """Words for each row of ranks, and the thousandths by which the slowest of the row is behind, by bucket."""
    numbers = ranks["rank"].unique().sort()
    if len(numbers) == 1:  # behind nobody
        return [], []
    each = -(-len(numbers) // ROWS)
    rows, places = -(-len(numbers) // each), steps.search_sorted(ranks["step"])
    values = np.full((rows, len(steps)), -np.inf)
    row = numbers.search_sorted(ranks["rank"]).to_numpy() // each
    np.maximum.at(values, (row, places.to_numpy()), ranks["behind"].to_numpy())
    known = [[None if np.isinf(value) else round(value * 1000) for value in line] for line in values.tolist()]
    first = [numbers[place * each : (place + 1) * each] for place in range(rows)]
    return [words_of(int(part[0]), int(part[-1])) for part in first], known


def words_of(first: int, last: int) -> str:
    """`rank 3`, `ranks 8-15`."""
    return f"rank {first}" if first == last else f"ranks {first}-{last}"


def _changes(changes: Result) -> Iterator[RunMark]:
    for row in changes:
        yield RunMark("change", row["step"], row["until"], change_sentence(changes, row))


def marks_between(marks: pl.DataFrame, size: int, windows: Mapping[str, Link]) -> Iterator[RunMark]:
    """One mark for those of a kind that fall into one bucket; each window by itself."""
    drawn = marks.filter((pl.col("kind") != "collection") | ~pl.col("detail").fill_null("").is_in(_YOUNG))
    for row in drawn.filter(kind="window").sort("start").tail(_MOST_WINDOWS).iter_rows(named=True):
        words = f"window of rank {row['rank']}, step {grouped(row['step'])}: {row['detail'] or 'deleted'}"
        yield RunMark("window", row["step"], row["step"], words, link=windows.get(row["detail"] or ""))
    bucket = (pl.col("step") // size).alias("bucket")
    groups = drawn.filter(pl.col("kind") != "window").group_by("kind", bucket, maintain_order=True)
    counted = groups.agg(
        step=pl.col("step").min(), until=pl.col("step").max(), count=pl.len(), ranks=pl.col("rank").n_unique(),
        longest=(pl.col("end") - pl.col("start")).max(),
    ).sort("step")  # fmt: skip
    for row in counted.iter_rows(named=True):
        yield RunMark(row["kind"], row["step"], row["until"], words_of_marks(row), row["count"])


def words_of_marks(row: Mapping[str, int | str]) -> str:
    """`3 saves on 4 ranks, 1.20 s at most`."""
    count, ranks = int(row["count"]), int(row["ranks"])
    some = f"{grouped(count)} {row['kind']}s" if count > 1 else f"{row['kind']}"
    where = f" on {grouped(ranks)} rank{'s' * (ranks > 1)}"
    longest = int(row["longest"])
    return f"{some}{where}" + (f", {shown(longest, 'ns')}{' at most' * (count > 1)}" if longest else "")
