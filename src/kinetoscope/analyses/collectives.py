"""Which collectives take time, how much of it is waiting, and what the network delivers."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import polars as pl

from kinetoscope.charts import Bars
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.collectives.bandwidth import alone, bandwidths, collectives_of, incomplete, with_costs
from kinetoscope.model.collectives.calls import for_matching
from kinetoscope.model.matching.match import join, match
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Param, Schema

By = Literal["size", "kind", "rank", "call"]

RESULT = Schema(
    Column("rank", pl.Int64, "Rank, with by rank; null for rows of all ranks together."),
    Column("process_group", pl.String, "Name, description and ranks of the group; null where it is not recorded."),
    Column("kind", pl.String, "all_reduce, all_gather, …; send_recv for point-to-point; other if unknown."),
    Column("dtype", pl.String, "Type of the elements; null if not recorded, or if several."),
    Column("bytes", pl.Int64, "Size of one as nccl-tests counts it; null if not recorded, or if several.", "bytes"),
    Column("call", pl.Int64, "Number of the collective, in order of time; null unless by call, or if unmatched."),
    Column("start", pl.Int64, "First start, from the first collective of the job on.", "ns", instant=True),
    Column("calls", pl.Int64, "Collectives, each once however many ranks took part; the rank's own with by rank."),
    Column("matched", pl.Int64, "Collectives of which calls of two ranks or more are known."),
    Column("ranks", pl.Int64, "Ranks that took part, as recorded."),
    Column("duration", pl.Int64, "Sum of the durations on all ranks.", "ns"),
    Column("mean_duration", pl.Int64, "Mean duration on a rank, rounded to the nanosecond.", "ns"),
    Column("transfer", pl.Int64, "Shortest duration among its ranks, for each rank and matched collective.", "ns"),
    Column("waiting", pl.Int64, "Duration less transfer of matched collectives, on all ranks.", "ns"),
    Column("waiting_share", pl.Float64, "Waiting / (transfer + waiting).", "fraction"),
    Column("exposed", pl.Int64, "Part of the duration that no computation of the same rank covers.", "ns"),
    Column("algorithm_bandwidth", pl.Float64, "Bytes / transfer.", "bytes/s"),
    Column("bus_bandwidth", pl.Float64, "Algorithm bandwidth as one link sees it (see nccl-tests).", "bytes/s"),
    Column("link_bandwidth", pl.Float64, "Peak of a device's links, in one direction; null if not known.", "bytes/s"),
    Column(
        "efficiency", pl.Float64, "Bus bandwidth / peak of the links; may exceed 1 where switches add up.", "fraction"
    ),
)

_GROUP: Final = ["group", "kind"]
_KEYS: Final[dict[str, list[str]]] = {
    "size": [*_GROUP, "dtype", "bytes"],
    "kind": _GROUP,
    "rank": ["rank", *_GROUP, "dtype", "bytes"],
    "call": [*_GROUP, "dtype", "bytes", "call", "place"],
}


def collectives(trace: Trace, select: Selection) -> Partial:
    """Which collectives take the most time, how much of it is waiting for other ranks, and how fast is the network?

    Method. The calls of all ranks are matched: by process group and number (`Seq`) where the files have it, else by
    their order in the process group, else (no group recorded) by the order of calls that are alike and overlap in time;
    never by their place in a file. Calls without a counterpart are counted in the notes. Of a collective the shortest
    duration among its ranks is the *transfer*: that rank came last and waited for nobody. What the others take beyond
    it is *waiting*. Sizes are those of nccl-tests: the buffer for all-reduce, broadcast and reduce, the gathered output
    for all-gather, the whole input for reduce-scatter and all-to-all. Algorithm bandwidth is bytes / transfer, in
    decimal units. Bus bandwidth is that × 2(n−1)/n for all-reduce, × (n−1)/n for all-gather, reduce-scatter,
    all-to-all, gather and scatter, × 1 for broadcast, reduce and point-to-point. A batch of sends and receives, or
    coalesced collectives, that run as one kernel are one call. Rows are sorted by rank, then the longest first.

    The peak of the links is that of the device's datasheet (NVLink, xGMI, else PCIe), all of its links together in one
    direction; for a group whose ranks are on several machines it is the network's, which only you know (`--peak
    network=50e9`). Ranks are taken to be numbered machine by machine, and a process to see all devices of its machine.

    How to read it. Much waiting is no matter of the network: see which rank is late. Large messages reach 70 to 90 % of
    their links, small ones never do. Only `exposed` time delays the computation.

    Limits. Durations are those of the work on devices, and of spans on the host for gloo and its like. Clocks play no
    role here but for matching. With one rank, and for what is unmatched, transfer, waiting and bandwidths are null.
    Process groups that are not recorded (gloo, and NCCL before 2024) are inferred where the ranks that took part tell
    them; groups that do the same at the same time then count as one. In an uneven all-to-all the size is the
    greatest among the ranks. A range of time keeps what starts in it, unclipped.
    """
    return for_matching(trace, select)


def _finished(
    frame: pl.DataFrame,
    *,
    by: Annotated[
        By,
        Param(
            "A row for each group, kind, type and size; without type and size; for each rank too; for each collective."
        ),
    ] = "size",
) -> Partial:
    if not len(frame):
        return Partial(
            RESULT.empty(), (Note("NO_COLLECTIVES_SELECTED", "No collectives were recorded in what was selected."),)
        )
    matched = match(frame)
    costs = with_costs(matched.frame)
    each = collectives_of(costs)
    notes = [note for note in (alone(costs), *matched.notes, incomplete(each)) if note]
    return Partial(_table(costs, each, by), tuple(notes))


def _table(costs: pl.DataFrame, each: pl.DataFrame, by: str) -> pl.DataFrame:
    first = each["start"].min()
    rows = _of_ranks(costs, each) if by == "rank" else each
    keys = _KEYS[by]
    unmatched = pl.col("call").is_null()
    rows = rows.with_columns(place=pl.when(unmatched).then(pl.col("key")), several=pl.lit(None, pl.Int64))
    kept = {
        "bytes": pl.col("bytes").first() if "bytes" in keys else _same("bytes"),
        "dtype": pl.col("dtype").first() if "dtype" in keys else _same("dtype"),
        "call": pl.col("call").first() if by == "call" else pl.lit(None, pl.Int64),
    }
    table = rows.group_by(keys, maintain_order=False).agg(
        (pl.col("rank").min() if by == "rank" else pl.lit(None, pl.Int64)).alias("lowest"),
        *(expression.alias(f"kept_{name}") for name, expression in kept.items()),
        start=pl.col("start").min() - first,
        calls=pl.len().cast(pl.Int64),
        matched=(~unmatched).sum().cast(pl.Int64),
        ranks=pl.col("members").explode().n_unique().cast(pl.Int64),
        duration=pl.col("duration").sum(),
        taken=pl.col("taken").sum(),
        transfer=_sum("transfer"),
        waiting=_sum("waiting"),
        exposed=pl.col("exposed").sum(),
        link_bandwidth=_same("link_bandwidth"),
        **bandwidths(),
    )
    table = table.drop(name for name in (*kept, "rank", "place") if name in keys).rename(
        {"lowest": "rank", "group": "process_group", **{f"kept_{name}": name for name in kept}}
    )
    busy = pl.col("transfer") + pl.col("waiting")
    table = table.with_columns(
        efficiency=pl.col("bus_bandwidth") / pl.col("link_bandwidth"),
        mean_duration=(2 * pl.col("duration") + pl.col("taken")) // (2 * pl.col("taken")),
        waiting_share=pl.when(busy > 0).then(pl.col("waiting") / busy),
    ).drop("taken")
    order = ["rank", "duration", "process_group", "kind", "dtype", "bytes", "start", "call"]
    return table.sort(order, descending=[name == "duration" for name in order], nulls_last=True)


def _sum(name: str) -> pl.Expr:
    """The sum, null where no call has a value."""
    return pl.when(pl.col(name).count() > 0).then(pl.col(name).sum())


def _same(name: str) -> pl.Expr:
    """The value that all calls have; null if they differ."""
    return pl.when(pl.col(name).n_unique() == 1).then(pl.col(name).first())


def _of_ranks(costs: pl.DataFrame, each: pl.DataFrame) -> pl.DataFrame:
    """The calls of each rank, with what their collective is."""
    facts: Any = each.filter(pl.col("call").is_not_null()).select(
        "call", "bytes", "factor", "shortest", "link_bandwidth"
    )
    mine = (
        costs.drop("bytes", "link_bandwidth")
        .with_columns(own=costs["bytes"])
        .join(facts, left_on="match", right_on="call", how="left", maintain_order="left")
    )
    return mine.select(
        "rank", "group", "kind", "dtype", "start", "duration", "transfer", "waiting", "exposed", "factor", "shortest",
        "link_bandwidth",
        call="match",
        bytes=pl.coalesce("bytes", "own"),
        key=pl.int_range(pl.len()),
        members=pl.concat_list("rank"),
        taken=pl.lit(1, pl.Int64),
    )  # fmt: skip


ANALYSIS = Analysis(
    "Collectives",
    collectives,
    RESULT,
    combine=join,
    finish=_finished,
    chart=Bars("kind", "duration"),
    across_ranks=True,
)
