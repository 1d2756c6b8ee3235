"""Who makes the others wait in collectives, and since when: pure functions of what all ranks recorded.

A *row* is one collective as one rank took part in it. It *arrives* when the rank enters the collective, and *waits*
from then until the last rank of the collective has arrived, as far as no computation of the rank covers that time.
Between two arrivals of a rank, what is not waiting is its *own* time.

The rank that arrives last is compared with the one in the middle of those that wait. Its lateness is the difference of their
own times since the collectives before (which is its own fault: *fresh*), of the times that they waited there, and of
their arrivals there. What is not fresh was *carried* along: it is looked for at the collectives before, at the rank
that arrived last there if the late one had to wait for it, and so on. So what the others lose is charged to where it
began.
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
that it is compared with; communication is transfer, without waiting. pipeline: it follows from sending and receiving.
unknown: before the recording, or what came before cannot be compared."""

PIPELINE, UNKNOWN = CAUSES.index("pipeline"), CAUSES.index("unknown")
_COMMUNICATION: Final = CAUSES.index("communication")

_PAIRWISE: Final = ("send", "recv", "send_recv")


@dataclass(frozen=True)
class Rows:
    """Collectives as the ranks took part in them, by rank and arrival.

    Attributes:
        rank: int64 [rows].
        match: int32 [rows], which collective, from 0.
        arrival: int64 [rows], ns on one clock.
        role: int32 [rows], a code; only histories of equal roles are compared.
        pairwise: bool [rows], sending and receiving: waiting there is a pipeline bubble.
        did: int64 [rows, 6], ns of each activity since the arrival of the row before; communication includes waiting.
        computed: intervals in which the rank computed during the collective, ns on that clock: of row i those at
            offsets[i]:offsets[i + 1].
    """

    rank: NDArray[np.int64]
    match: NDArray[np.int32]
    arrival: NDArray[np.int64]
    role: NDArray[np.int32]
    pairwise: NDArray[np.bool_]
    did: NDArray[np.int64]
    computed: Intervals
    offsets: NDArray[np.int64]

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
        charged: int64 [rows, causes], what of that is charged to each row, ns; 0 for sending and receiving.
        delay: int64 [rows, causes], the same with the loss of each collective divided by the ranks that wait in it:
            what each of them loses on average, ns.
        carried: int64 [matches], what of `lost` began at an earlier collective.
        first: int32 [matches], the row that most of `lost` is charged to; cause: int32 [matches], the main cause there.
    """

    last: NDArray[np.int32]
    middle: NDArray[np.int32]
    late: NDArray[np.int64]
    waited: NDArray[np.int64]
    lost: NDArray[np.int64]
    charged: NDArray[np.int64]
    delay: NDArray[np.int64]
    carried: NDArray[np.int64]
    first: NDArray[np.int32]
    cause: NDArray[np.int32]


def rows_of(frame: pl.DataFrame) -> tuple[Rows, pl.DataFrame]:
    """The matched rows of a frame of `before_collectives` of all ranks, on one clock, and that frame: one line a row.

    What a rank did before collectives that nobody else has is added to what it did before the next one. Needs the
    columns of `matching.match`; `match` is renumbered from 0, by the arrival of the first.
    """
    ordered = frame.sort("rank", "start", "end", "row")
    ordered = ordered.with_columns(pl.col(ACTIVITIES).cum_sum().over("rank")).filter(pl.col("match").is_not_null())
    ordered = ordered.with_columns(
        pl.col(name) - pl.col(name).shift(1, fill_value=0).over("rank") for name in ACTIVITIES
    )
    ordered = ordered.with_columns(
        pl.col("match").rank("dense").cast(pl.Int32) - 1,
        members=pl.len().over("match"),
        direction=pl.when(pl.col("kind").is_in(_PAIRWISE)).then((pl.col("destination_rank") - pl.col("rank")).sign()),
    )
    role = ordered.select(pl.struct("kind", "direction").rank("dense")).to_series().to_numpy()
    did = ordered.select(pl.col(ACTIVITIES)).to_numpy()
    count = ordered.select(pl.col(COVERED[0]).list.len()).to_series().to_numpy().astype(np.int64)
    start = ordered["start"].to_numpy()
    flat = ordered.filter(pl.col(COVERED[0]).list.len() > 0).select(pl.col(COVERED).explode())
    shift = np.repeat(start, count)
    return Rows(
        rank=ordered["rank"].to_numpy(),
        match=ordered["match"].to_numpy(),
        arrival=start,
        role=role.astype(np.int32),
        pairwise=ordered.select(pl.col("kind").is_in(_PAIRWISE) & (pl.col("members") <= 2)).to_series().to_numpy(),
        did=np.column_stack([did[:, :5], did[:, 5] + did[:, 6]]),
        computed=Intervals(flat[COVERED[0]].to_numpy() + shift, flat[COVERED[1]].to_numpy() + shift),
        offsets=np.concatenate([[0], np.cumsum(count)]),
    ), ordered


def charge(rows: Rows, matches: int) -> Charges:
    """Find out what each collective cost and charge it; each of `matches` has a row."""
    last, middle = _extremes(rows, matches)
    until = rows.arrival[last][rows.match]
    waited = exposed(rows, until)
    lost = np.zeros(matches, np.int64)
    np.add.at(lost, rows.match, waited)
    compared = _compared(rows, waited, lost)
    before = _before(rows)
    did = rows.did.copy()
    waited_before = _waited_before(rows, until, before)
    did[:, _COMMUNICATION] -= np.minimum(waited_before, did[:, _COMMUNICATION])
    bubble = np.zeros(matches, np.bool_)
    bubble[rows.match] = rows.pairwise
    others = np.maximum(np.bincount(rows.match, minlength=matches) - 1, 1)

    def charged(amount: NDArray[np.int64]) -> Blamed:
        return blame(
            match=rows.match,
            arrival=rows.arrival,
            role=rows.role,
            pairwise=rows.pairwise,
            did=did,
            before=before,
            waited=waited_before,
            last=last,
            middle=compared,
            lost=amount,
        )

    loss = np.where(bubble, 0, lost)
    found = charged(loss)
    delay = charged((loss + others // 2) // others).charged
    late = rows.arrival[last] - rows.arrival[middle]
    return Charges(last, middle, late, waited, lost, found.charged, delay, found.carried, found.first, found.cause)


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


def exposed(rows: Rows, until: NDArray[np.int64]) -> NDArray[np.int64]:
    """Time from each row's arrival until then that no computation of its rank covers, ns: int64 [rows]."""
    row = np.repeat(np.arange(len(rows)), np.diff(rows.offsets))
    inside = np.minimum(rows.computed.end, until[row]) - np.maximum(rows.computed.start, rows.arrival[row])
    busy = np.zeros(len(rows), np.int64)
    np.add.at(busy, row, np.maximum(inside, 0))
    return np.asarray(np.maximum(until - rows.arrival, 0) - busy)


def waiting(rows: Rows, until: NDArray[np.int64], here: slice) -> Intervals:
    """When the rows `here`, all of one rank, wait for others and compute nothing: a union."""
    low, high = int(rows.offsets[here.start]), int(rows.offsets[here.stop])
    computed = union(rows.computed.start[low:high], rows.computed.end[low:high])
    return difference(union(rows.arrival[here], until[here]), computed)


def ranks_of(rows: Rows) -> list[slice]:
    """The rows of each rank."""
    bounds = [0, *(np.flatnonzero(np.diff(rows.rank)) + 1).tolist(), len(rows)]
    return [slice(low, high) for low, high in pairwise(bounds) if high > low]


def _before(rows: Rows) -> NDArray[np.int32]:
    before = np.arange(len(rows), dtype=np.int32) - 1
    before[[each.start for each in ranks_of(rows)]] = -1
    return before


def _waited_before(rows: Rows, until: NDArray[np.int64], before: NDArray[np.int32]) -> NDArray[np.int64]:
    """What each row's rank waited between the arrival of the row before and its own, in any collective, ns."""
    found = np.zeros(len(rows), np.int64)
    for here in ranks_of(rows):
        windows = Intervals(rows.arrival[before[here]], rows.arrival[here])
        found[here] = covered(windows, waiting(rows, until, here))
        found[here.start] = 0
    return found
