"""Who makes the others wait in collectives, and since when: pure functions of what all ranks recorded.

A rank arrives at a collective when it enters it, and *waits* from then until the last rank of the collective has
arrived, as far as no computation of the rank covers that time. Between two arrivals of a rank, what is not waiting is
its *own* time.

The rank that arrives last is compared with the one in the middle of those that wait. Its lateness is the difference
of their own times since both stood still in a collective (which is its own fault), of the times that they waited on the
way, and of their arrivals there. What is not its own fault was *carried* along: it is looked for further back, or at
the rank that it waited for. So what the others lose is charged to where it began.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Int32s, Int64s
from kinetoscope.algorithms.delay_attribution import Blamed, blame
from kinetoscope.algorithms.intervals.intervals import Intervals, covered, difference, union
from kinetoscope.model.stragglers.arrivals import Rows, parts_of
from kinetoscope.model.stragglers.exposed_waiting import exposed, waiting
from kinetoscope.model.stragglers.late_launches import HOLDING

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
`model.stragglers.late_launches`), where both share the collective. pipeline: it follows from sending and receiving.
unknown: before the recording, or what came before cannot be compared."""

PIPELINE, UNKNOWN = CAUSES.index("pipeline"), CAUSES.index("unknown")
_COMMUNICATION: Final = CAUSES.index("communication")

_HOLDING: Final = [CAUSES.index(name) for name in HOLDING]


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

    last: Int32s
    middle: Int32s
    late: Int64s
    waited: Int64s
    lost: Int64s
    counted: Int64s
    charged: Int64s
    delay: Int64s
    carried: Int64s
    first: Int32s
    cause: Int32s
    held: Int64s


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

    def charged(amount: Int64s) -> Blamed:
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


def _of_matches(rows: Rows, waited: Int64s, matches: int) -> tuple[Int64s, Int64s]:
    """What each row waits, and all rows of each collective."""
    total = np.zeros(matches, np.int64)
    np.add.at(total, rows.match, waited)
    return waited, total


def _not_counted(rows: Rows, until: Int64s) -> Int64s:
    """From when on each row waits for nothing else: its arrival, or when those before it wait no more."""
    since = rows.arrival.copy()
    for here in parts_of(rows):
        reach = np.maximum.accumulate(until[here])
        since[here][1:] = np.clip(reach[:-1], rows.arrival[here][1:], np.maximum(until, rows.arrival)[here][1:])
    return since


def _extremes(rows: Rows, matches: int) -> tuple[Int32s, Int32s]:
    order = np.lexsort((rows.rank, rows.arrival, rows.match))
    count = np.bincount(rows.match, minlength=matches)
    begin = np.cumsum(count) - count
    middle = order[begin + (count - 1) // 2]
    latest = rows.arrival[order[begin + count - 1]]
    is_last = rows.arrival[order] == latest[rows.match[order]]
    place = np.full(matches, len(order), np.int64)
    np.minimum.at(place, rows.match[order[is_last]], np.flatnonzero(is_last))
    return order[place].astype(np.int32), middle.astype(np.int32)


def _compared(rows: Rows, waited: Int64s, lost: Int64s) -> Int32s:
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


def _before(rows: Rows) -> Int32s:
    before = np.arange(len(rows), dtype=np.int32) - 1
    before[[each.start for each in parts_of(rows)]] = -1
    return before


def _waited_before(rows: Rows, until: Int64s, before: Int32s) -> tuple[Int64s, Int64s]:
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
