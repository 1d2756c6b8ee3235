"""Who makes the others wait in collectives, and since when: pure functions of what all ranks recorded.

A *row* is one collective as one rank took part in it. It *arrives* when the rank enters the collective, and *waits*
from then until the last rank of the collective has arrived, as far as no computation of the rank covers that time.
Between two arrivals of a rank, what is not waiting is its *own* time.

The rank that arrives last is compared with the one in the middle of those that wait. Its lateness is the difference
of their own times since both stood still in a collective (which is its own fault), of the times that they waited on the
way, and of their arrivals there. What is not its own fault was *carried* along: it is looked for further back, or at
the rank that it waited for. So what the others lose is charged to where it began.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kinetoscope.algorithms.blaming import Blamed, blame
from kinetoscope.algorithms.intervals import Intervals, covered, difference, union
from kinetoscope.model.before_collectives import ACTIVITIES, COVERED
from kinetoscope.model.late_launches import HELD, HOLDING
from kinetoscope.model.process_groups import ranks_of

CAUSES: Final = (
    "computation",
    "communication",
    "memory copies",
    "data loading",
    "synchronization",
    "host gap",
    "pipeline",
    "unknown",
)
"""Why a rank was late. The first five and host gap (host work, and nothing recorded): of that it had more than the rank
that it is compared with; communication is transfer, without waiting, but for what of it the host left in the open (see
`model.late_launches`), where both share the collective. pipeline: it follows from sending and receiving.
unknown: before the recording, or what came before cannot be compared."""

PIPELINE, UNKNOWN = CAUSES.index("pipeline"), CAUSES.index("unknown")
_COMMUNICATION: Final = CAUSES.index("communication")

_HOLDING: Final = [CAUSES.index(name) for name in HOLDING]

_PAIRWISE: Final = ("send", "recv", "send_recv")

_STILL: Final = 10
"""A rank stands still in a collective if it computes for no more than a tenth of it."""


@dataclass(frozen=True)
class Rows:
    """Collectives as the ranks took part in them, by rank and in the order of the program.

    Attributes:
        rank: int64 [rows]. part: int64 [rows], ascending: rows of one part have one history, a rank's in one recording.
        match: int32 [rows], which collective, from 0.
        arrival: int64 [rows], ns on one clock.
        came: int64 [rows], when this and all before it had arrived: streams overtake each other.
        role: int32 [rows], a code; only histories of equal roles are compared.
        pairwise: bool [rows], sending and receiving: waiting there is a pipeline bubble.
        stage: int32 [rows], a code for what the rank of the row sends and receives in each step: stages of a pipeline
            that differ in that do different work, and are not compared.
        did: int64 [rows, 6], ns of each activity since the rank came to the row before; communication includes waiting.
        barrier: bool [rows], whether the rank stood still, computing next to nothing, until the collective was over.
        computed: intervals in which the rank computed during the collective, ns on that clock: of row i those at
            offsets[i]:offsets[i + 1].
        held: intervals in which the host left a collective in the open, ns on that clock; held_row: int64 [held], the
            row of each, ascending; held_by: int64 [held], which of HOLDING.
    """

    rank: NDArray[np.int64]
    part: NDArray[np.int64]
    match: NDArray[np.int32]
    arrival: NDArray[np.int64]
    came: NDArray[np.int64]
    role: NDArray[np.int32]
    pairwise: NDArray[np.bool_]
    stage: NDArray[np.int32]
    did: NDArray[np.int64]
    barrier: NDArray[np.bool_]
    computed: Intervals
    offsets: NDArray[np.int64]
    held: Intervals
    held_row: NDArray[np.int64]
    held_by: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rank)


@dataclass(frozen=True)
class Charges:
    """What the collectives cost, and who is charged.

    Attributes:
        last, middle: int32 [matches], rows that arrive last (of equal ones the least rank) and in the middle (of an
            even number the earlier one).
        late: int64 [matches], arrival of the last less that of the middle one, ns.
        waited: int64 [rows], time that each row waits, not covered by computation, ns.
        lost: int64 [matches], what the others wait in all, ns.
        counted: int64 [matches], the same where a rank that waits in several at a time counts in the first only; 0 for
            sending and receiving.
        charged: int64 [rows, causes], what of `counted` is charged to each row, ns.
        delay: int64 [rows, causes], the same with the loss of each collective divided by the ranks that wait in it:
            what each of them loses on average, ns.
        carried: int64 [matches], what of `counted` began at an earlier collective.
        first: int32 [matches], the row that most of that is charged to; cause: int32 [matches], the main cause there.
        held: int64 [rows, activities], how long since the row before the rank's host left transfer in the open, by what
            it did meanwhile, ns.
    """

    last: NDArray[np.int32]
    middle: NDArray[np.int32]
    late: NDArray[np.int64]
    waited: NDArray[np.int64]
    lost: NDArray[np.int64]
    counted: NDArray[np.int64]
    charged: NDArray[np.int64]
    delay: NDArray[np.int64]
    carried: NDArray[np.int64]
    first: NDArray[np.int32]
    cause: NDArray[np.int32]
    held: NDArray[np.int64]


def rows_of(frame: pl.DataFrame) -> tuple[Rows, pl.DataFrame]:
    """The rows of a frame of `before_collectives` of all ranks, on one clock, and that frame: one line a row.

    Needs the columns of `matching.match`. `match` is renumbered from 0; what is not `matched` has one of its own, in
    which nobody waits: it is part of what the rank went through. Calls that are not matched though all ranks of the
    group are there (parts of recordings are missing) are no rows: what was done before them counts for the next one.
    """
    ordered = frame.sort("rank", "cycle", "place").with_columns(matched=pl.col("match").is_not_null())
    ordered = ordered.with_columns(pl.col(ACTIVITIES).cum_sum().over("rank", "cycle"))
    ordered = ordered.filter(pl.col("matched") | pl.col("group_ranks").is_in(_incomplete(frame)))
    ordered = ordered.with_columns(
        pl.col(name) - pl.col(name).shift(1, fill_value=0).over("rank", "cycle") for name in ACTIVITIES
    )
    number = pl.col("match").rank("dense").cast(pl.Int64) - 1
    alone = pl.col("match").drop_nulls().n_unique() + (~pl.col("matched")).cum_sum() - 1
    ordered = ordered.with_columns(
        match=pl.when("matched").then(number).otherwise(alone).cast(pl.Int32),
        direction=pl.when(pl.col("kind").is_in(_PAIRWISE)).then((pl.col("destination_rank") - pl.col("rank")).sign()),
    ).with_columns(members=pl.len().over("match"))
    role = (
        ordered.select(pl.struct("kind", "direction", "group_description", "group_size").rank("dense"))
        .to_series()
        .to_numpy()
    )
    did = ordered.select(pl.col(ACTIVITIES)).to_numpy()
    count = ordered.select(pl.col(COVERED[0]).list.len()).to_series().to_numpy().astype(np.int64)
    start = ordered["start"].to_numpy()
    came = ordered.select(pl.col("start").cum_max().over("rank", "cycle")).to_series().to_numpy()
    computed = ordered.select(pl.col(COVERED[1]).list.sum() - pl.col(COVERED[0]).list.sum()).to_series().to_numpy()
    flat = ordered.filter(pl.col(COVERED[0]).list.len() > 0).select(pl.col(COVERED).explode())
    shift = np.repeat(start, count)
    held_row, held, held_by = _held(ordered, start)
    return Rows(
        rank=ordered["rank"].to_numpy(),
        part=ordered.select(pl.struct("rank", "cycle").rank("dense").cast(pl.Int64)).to_series().to_numpy(),
        match=ordered["match"].to_numpy(),
        arrival=start,
        came=came,
        role=role.astype(np.int32),
        pairwise=ordered.select(
            pl.col("kind").is_in(_PAIRWISE) & ((pl.col("kind") != "send_recv") | (pl.col("members") <= 2))
        )
        .to_series()
        .to_numpy(),
        stage=ordered.select("rank")
        .join(stages(frame), on="rank", how="left", maintain_order="left")["stage"]
        .to_numpy(),
        did=np.column_stack([did[:, :5], did[:, 5] + did[:, 6]]),
        barrier=(_STILL * computed <= ordered["end"].to_numpy() - start) & (start == came),
        computed=Intervals(flat[COVERED[0]].to_numpy() + shift, flat[COVERED[1]].to_numpy() + shift),
        offsets=np.concatenate([[0], np.cumsum(count)]),
        held=held,
        held_row=held_row,
        held_by=held_by,
    ), ordered


def _held(ordered: pl.DataFrame, start: NDArray[np.int64]) -> tuple[NDArray[np.int64], Intervals, NDArray[np.int64]]:
    """HELD of the rows, which begin at `start`; nothing where there is no such column."""
    if HELD not in ordered.columns:
        nothing = np.empty(0, np.int64)
        return nothing, Intervals(nothing, nothing), nothing
    count = ordered.select(pl.col(HELD).list.len()).to_series().to_numpy().astype(np.int64) // 3
    flat = ordered.filter(pl.col(HELD).list.len() > 0)[HELD].explode().to_numpy().reshape(-1, 3)
    row = np.repeat(np.arange(len(ordered)), count)
    return row, Intervals(start[row] + flat[:, 0], start[row] + flat[:, 1]), flat[:, 2]


def _incomplete(frame: pl.DataFrame) -> list[str]:
    """Lists of ranks of which not all are here."""
    here = set(frame["rank"].unique().to_list())
    texts: list[str] = frame["group_ranks"].drop_nulls().unique().sort().to_list()
    return [text for text in texts if not here.issuperset(ranks_of(text))]


def stages(frame: pl.DataFrame) -> pl.DataFrame:
    """`stage` of each `rank`: a code for what it sends and receives at least once in each step."""
    direction = (pl.col("destination_rank") - pl.col("rank")).sign()
    steps = pl.col("step").n_unique().over("rank")
    often = frame.select("rank", "kind", direction=direction, steps=steps).filter(pl.col("kind").is_in(_PAIRWISE))
    often = often.group_by("rank", "kind", "direction").agg(pl.len(), pl.col("steps").first())
    often = often.filter(pl.col("len") >= pl.col("steps")).sort("rank", "kind", "direction")
    said = often.group_by("rank").agg(what=pl.concat_str("kind", pl.col("direction").cast(pl.String).fill_null("")))
    every = frame.select(pl.col("rank").unique()).join(said, on="rank", how="left")
    text = pl.col("what").list.join(" ").fill_null("")
    return every.select("rank", stage=text.rank("dense").cast(pl.Int32))


def charge(rows: Rows, matches: int) -> Charges:
    """Find out what each collective cost and charge it; each of `matches` has a row."""
    last, middle = _extremes(rows, matches)
    until = rows.arrival[last][rows.match]
    waited, lost = _of_matches(rows, exposed(rows, rows.arrival, until), matches)
    once, counted = _of_matches(rows, exposed(rows, _not_counted(rows, until), until), matches)
    alike = rows.stage == rows.stage[last][rows.match]
    of_alike, lost_by_alike = _of_matches(rows, np.where(alike, once, 0), matches)
    compared = np.where(lost_by_alike > 0, _compared(rows, of_alike, lost_by_alike), last)
    before = _before(rows)
    did = rows.did.copy()
    waited_before, held = _waited_before(rows, until, before)
    did[:, _COMMUNICATION] -= np.minimum(waited_before, did[:, _COMMUNICATION])
    bubble = np.zeros(matches, np.bool_)
    bubble[rows.match] = rows.pairwise
    others = np.maximum(np.bincount(rows.match, minlength=matches) - 1, 1)

    def charged(amount: NDArray[np.int64]) -> Blamed:
        return blame(
            match=rows.match,
            arrival=rows.came,
            role=rows.role,
            pairwise=rows.pairwise,
            stage=rows.stage,
            did=did,
            held=held,
            transfer=_COMMUNICATION,
            before=before,
            waited=waited_before,
            barrier=rows.barrier,
            last=last,
            middle=compared,
            lost=amount,
        )

    counted[bubble] = 0
    # Of what other stages wait no more is the rank's fault than it is later than one of its own stage.
    behind = (rows.came[last] - rows.came[compared])[rows.match]
    own = _of_matches(rows, np.where(alike, once, np.minimum(once, np.maximum(behind, 0))), matches)[1]
    own[bubble] = 0
    found = charged(own)
    delay = charged((own + others // 2) // others).charged
    found.charged[last, PIPELINE] += counted - own
    delay[last, PIPELINE] += (counted - own) // others
    late = rows.arrival[last] - rows.arrival[middle]
    return Charges(
        last, middle, late, waited, lost, counted, found.charged, delay, found.carried, found.first, found.cause, held
    )


def _of_matches(rows: Rows, waited: NDArray[np.int64], matches: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """What each row waits, and all rows of each collective."""
    total = np.zeros(matches, np.int64)
    np.add.at(total, rows.match, waited)
    return waited, total


def _not_counted(rows: Rows, until: NDArray[np.int64]) -> NDArray[np.int64]:
    """From when on each row waits for nothing else: its arrival, or when those before it wait no more."""
    since = rows.arrival.copy()
    for here in parts_of(rows):
        reach = np.maximum.accumulate(until[here])
        since[here][1:] = np.clip(reach[:-1], rows.arrival[here][1:], np.maximum(until, rows.arrival)[here][1:])
    return since


def _extremes(rows: Rows, matches: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    order = np.lexsort((rows.rank, rows.arrival, rows.match))
    count = np.bincount(rows.match, minlength=matches)
    begin = np.cumsum(count) - count
    middle = order[begin + (count - 1) // 2]
    latest = rows.arrival[order[begin + count - 1]]
    is_last = rows.arrival[order] == latest[rows.match[order]]
    place = np.full(matches, len(order), np.int64)
    np.minimum.at(place, rows.match[order[is_last]], np.flatnonzero(is_last))
    return order[place].astype(np.int32), middle.astype(np.int32)


def _compared(rows: Rows, waited: NDArray[np.int64], lost: NDArray[np.int64]) -> NDArray[np.int32]:
    """Whom the last one is compared with: in order of arrival the row by which half of the loss is counted.

    That is the one in the middle of those that wait, also where more than half of the ranks are late together.
    """
    order = np.lexsort((rows.rank, rows.arrival, rows.match))
    match = rows.match[order]
    counted = np.cumsum(waited[order])
    before = np.cumsum(lost) - lost
    enough = 2 * (counted - before[match]) >= lost[match]
    place = np.full(len(lost), len(order), np.int64)
    np.minimum.at(place, match[enough], np.flatnonzero(enough))
    return order[place].astype(np.int32)


def exposed(rows: Rows, since: NDArray[np.int64], until: NDArray[np.int64]) -> NDArray[np.int64]:
    """Time between two instants that no computation of each row's rank covers, ns: int64 [rows]."""
    row = np.repeat(np.arange(len(rows)), np.diff(rows.offsets))
    inside = np.minimum(rows.computed.end, until[row]) - np.maximum(rows.computed.start, since[row])
    busy = np.zeros(len(rows), np.int64)
    np.add.at(busy, row, np.maximum(inside, 0))
    return np.asarray(np.maximum(until - since, 0) - busy)


def waiting(rows: Rows, until: NDArray[np.int64], here: slice) -> Intervals:
    """When the rows `here`, all of one rank, wait for others and compute nothing: a union."""
    low, high = int(rows.offsets[here.start]), int(rows.offsets[here.stop])
    computed = union(rows.computed.start[low:high], rows.computed.end[low:high])
    return difference(union(rows.arrival[here], until[here]), computed)


def parts_of(rows: Rows) -> list[slice]:
    """The rows of each history."""
    bounds = [0, *(np.flatnonzero(np.diff(rows.part)) + 1).tolist(), len(rows)]
    return [slice(low, high) for low, high in pairwise(bounds) if high > low]


def _before(rows: Rows) -> NDArray[np.int32]:
    before = np.arange(len(rows), dtype=np.int32) - 1
    before[[each.start for each in parts_of(rows)]] = -1
    return before


def _waited_before(
    rows: Rows, until: NDArray[np.int64], before: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """What each row's rank waited between the arrival of the row before and its own, in any collective, ns.

    And how long its host left transfer in the open then, by activity. Waiting is no transfer: others are to blame.
    """
    waited, held = np.zeros(len(rows), np.int64), np.zeros_like(rows.did)
    for here in parts_of(rows):
        windows, waits = Intervals(rows.came[before[here]], rows.came[here]), waiting(rows, until, here)
        waited[here] = covered(windows, waits)
        low, high = np.searchsorted(rows.held_row, [here.start, here.stop]).tolist()
        for which in np.unique(rows.held_by[low:high]).tolist():
            of_it = low + np.flatnonzero(rows.held_by[low:high] == which)
            transferring = difference(union(rows.held.start[of_it], rows.held.end[of_it]), waits)
            held[here, _HOLDING[which]] = covered(windows, transferring)
        waited[here.start], held[here.start] = 0, 0
    return waited, held
