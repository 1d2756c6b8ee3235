"""Waiting in collectives attributed to ranks and causes: pure functions of what all ranks recorded.

A rank arrives at a collective when it enters it, and *waits* from then until the last rank of the collective has
arrived, as far as no computation of the rank covers that time. What computation does cover puts off later transfer:
as much of that as is exposed counts as waiting, too (`algorithms.deferred_waiting`). Between two arrivals of a rank,
what is not waiting is its *own* time.

The rank that arrives last is compared with the one in the middle of those that wait: lateness = own-time difference
since the last barrier (its own fault) + difference in waiting on the way + difference in arrival at that barrier. What
is not its own fault was *carried* along, and is attributed further back, or to the rank that it waited for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s
from kinetoscope.algorithms.delay_attribution import AttributedDelays, Histories, attribute_delays
from kinetoscope.algorithms.intervals.intervals import Intervals, covered, difference, union
from kinetoscope.algorithms.replayed_waiting import Schedule, sooner_without
from kinetoscope.model.stragglers.arrivals import Arrivals
from kinetoscope.model.stragglers.late_launches import HOST_CAUSES

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
"""Causes of lateness. The first five and host gap (host work, and nothing recorded): extra time beside the rank that it
is compared with; communication is transfer, without waiting, and without what the host left exposed (see
`model.stragglers.late_launches`), where both share the collective. pipeline: it follows from sending and receiving.
unknown: before the recording, or what came before cannot be compared."""

PIPELINE, UNKNOWN = CAUSES.index("pipeline"), CAUSES.index("unknown")
_COMMUNICATION: Final = CAUSES.index("communication")


@dataclass(frozen=True)
class Attribution:
    """Cost of the collectives, and the ranks that it is charged to.

    Attributes:
        last, middle: int32 [matches], rows that arrive last (of equal ones the least rank) and in the middle (of an
            even number the earlier one).
        late: int64 [matches], arrival of the last less that of the middle one, ns.
        waited: int64 [rows], time that each row waits, not covered by computation, and that its waiting puts off, ns.
        lost: int64 [matches], time that the others wait in all, ns.
        counted: int64 [matches], the same where a rank that waits in several at a time counts in the first only; 0 for
            sending and receiving.
        charged: int64 [rows, causes], what of `counted` is charged to each row, ns.
        delay: int64 [rows, causes], the same with the loss of each collective divided by the ranks that wait in it:
            the average loss of each, ns.
        carried: int64 [matches], what of `counted` began at an earlier collective.
        first: int32 [matches], the row that most of that is charged to; cause: int32 [matches], the main cause there.
        host_exposed: int64 [rows, activities], how long since the row before the rank's host left transfer exposed, by
            what it did meanwhile, ns.
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
    host_exposed: Int64s


def attribute_waiting(arrivals: Arrivals, matches: int) -> Attribution:
    """Charge the waiting in each of `matches` collectives, which all have a row, to where it began."""
    order = np.lexsort((arrivals.rank, arrivals.arrival, arrivals.match))
    last, middle = _last_and_middle(arrivals, order, matches)
    until = arrivals.arrival[last][arrivals.match]

    def totals(waited: Int64s) -> Int64s:
        total = np.zeros(matches, np.int64)
        np.add.at(total, arrivals.match, waited)
        return total

    deferred = arrivals.deferred(until)
    waited = arrivals.exposed_time(arrivals.arrival, until) + deferred.cost
    waited_once = arrivals.exposed_time(_counted_since(arrivals, until), until) + deferred.cost
    counted = totals(waited_once)
    is_peer = arrivals.stage == arrivals.stage[last][arrivals.match]
    waited_by_peers = np.where(is_peer, waited_once, 0)
    lost_by_peers = totals(waited_by_peers)
    compared = np.where(lost_by_peers > 0, _compared(arrivals, order, waited_by_peers, lost_by_peers), last)
    before = np.arange(len(arrivals), dtype=np.int32) - 1
    before[[history.start for history in arrivals.histories()]] = -1
    waited_before, host_exposed = _waited_before(arrivals, until, deferred.put_off, before)
    did = arrivals.did.copy()
    did[:, _COMMUNICATION] -= np.minimum(waited_before, did[:, _COMMUNICATION])
    histories = Histories(
        match=arrivals.match,
        arrival=arrivals.reached,
        role=arrivals.role,
        pairwise=arrivals.pairwise,
        stage=arrivals.stage,
        did=did,
        host_exposed=host_exposed,
        before=before,
        waited=waited_before,
        barrier=arrivals.barrier,
    )

    def attributed(lost: Int64s) -> AttributedDelays:
        return attribute_delays(histories, last=last, compared=compared, lost=lost, transfer=_COMMUNICATION)

    bubble = np.zeros(matches, np.bool_)
    bubble[arrivals.match] = arrivals.pairwise
    counted[bubble] = 0
    # Of what other stages wait no more is the rank's fault than it is later than one of its own stage.
    behind = np.maximum(arrivals.reached[last] - arrivals.reached[compared], 0)[arrivals.match]
    own = totals(np.where(is_peer, waited_once, np.minimum(waited_once, behind)))
    own[bubble] = 0
    others = np.maximum(np.bincount(arrivals.match, minlength=matches) - 1, 1)
    delays = attributed(own)
    delay = attributed((own + others // 2) // others).charged
    delays.charged[last, PIPELINE] += counted - own
    delay[last, PIPELINE] += (counted - own) // others
    return Attribution(
        last=last,
        middle=middle,
        late=arrivals.arrival[last] - arrivals.arrival[middle],
        waited=waited,
        lost=totals(waited),
        counted=counted,
        charged=delays.charged,
        delay=delay,
        carried=delays.carried,
        first=delays.first,
        cause=delays.cause,
        host_exposed=host_exposed,
    )


def _counted_since(arrivals: Arrivals, until: Int64s) -> Int64s:
    """When each row begins to wait for nothing else: its arrival, or when those before it wait no more."""
    since = arrivals.arrival.copy()
    for history in arrivals.histories():
        reach = np.maximum.accumulate(until[history])[:-1]
        own = arrivals.arrival[history][1:]
        since[history][1:] = np.clip(reach, own, np.maximum(until[history][1:], own))
    return since


def _last_and_middle(arrivals: Arrivals, order: Int64s, matches: int) -> tuple[Int32s, Int32s]:
    """The last row (of equal ones the least rank) and the middle one of each collective, of rows by arrival."""
    count = np.bincount(arrivals.match, minlength=matches)
    begin = np.cumsum(count) - count
    middle = order[begin + (count - 1) // 2]
    latest = arrivals.arrival[order[begin + count - 1]]
    is_last = arrivals.arrival[order] == latest[arrivals.match[order]]
    return _first_of_each(arrivals, order, is_last, matches), middle.astype(np.int32)


def _compared(arrivals: Arrivals, order: Int64s, waited: Int64s, lost: Int64s) -> Int32s:
    """The row that the last one is compared with: in order of arrival the one by which half of the loss is counted.

    It is the one in the middle of those that wait, also where more than half of the ranks are late together.
    """
    counted = np.cumsum(waited[order])
    match = arrivals.match[order]
    is_half = 2 * (counted - (np.cumsum(lost) - lost)[match]) >= lost[match]
    return _first_of_each(arrivals, order, is_half, len(lost))


def _first_of_each(arrivals: Arrivals, order: Int64s, chosen: Bools, matches: int) -> Int32s:
    """The first chosen row of each collective, in that order."""
    place = np.full(matches, len(order), np.int64)
    np.minimum.at(place, arrivals.match[order[chosen]], np.flatnonzero(chosen))
    return order[place].astype(np.int32)


def _waited_before(arrivals: Arrivals, until: Int64s, put_off: Int64s, before: Int32s) -> tuple[Int64s, Int64s]:
    """Time that each row's rank waited between the arrival of the row before and its own, in any collective, ns.

    And how long its host left transfer exposed then, by activity. Waiting is no transfer: others are to blame.
    """
    waited, host_exposed = np.zeros(len(arrivals), np.int64), np.zeros_like(arrivals.did)
    for history in arrivals.histories():
        windows = Intervals(arrivals.reached[before[history]], arrivals.reached[history])
        waits = arrivals.waiting(history, until, put_off)
        waited[history] = covered(windows, waits)
        low, high = np.searchsorted(arrivals.exposed_row, [history.start, history.stop]).tolist()
        for place in np.unique(arrivals.exposed_by[low:high]).tolist():
            chosen = low + np.flatnonzero(arrivals.exposed_by[low:high] == place)
            intervals = union(arrivals.host_exposed.start[chosen], arrivals.host_exposed.end[chosen])
            cause = CAUSES.index(HOST_CAUSES[place])
            host_exposed[history, cause] = covered(windows, difference(intervals, waits))
        waited[history.start], host_exposed[history.start] = 0, 0
    return waited, host_exposed


def gains_without(arrivals: Arrivals, rank: int) -> Int64s:
    """By how much each row's rank would go on sooner after it, were nobody to wait for a rank: int64 [rows], ns.

    The schedule of all ranks is replayed (`algorithms.replayed_waiting`); sending and receiving keeps its order.
    """
    begin = np.full(int(arrivals.match.max(initial=-1)) + 1, np.iinfo(np.int64).min)
    np.maximum.at(begin, arrivals.match, arrivals.arrival)
    until = begin[arrivals.match]
    schedule = Schedule(
        match=arrivals.match,
        history=(arrivals.history - arrivals.history.min(initial=0)).astype(np.int32),
        stream=arrivals.stream,
        start=arrivals.arrival,
        end=arrivals.end,
        ready=arrivals.arrival - arrivals.queued,
        still=arrivals.exposed_time(_counted_since(arrivals, until), until) + arrivals.still(until),
    )
    return sooner_without(schedule, begin, (arrivals.rank == rank) & ~arrivals.pairwise)
