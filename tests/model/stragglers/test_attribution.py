from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.algorithms.intervals.intervals import Intervals
from kinetoscope.model.stragglers.arrivals import Arrivals
from kinetoscope.model.stragglers.attribution import CAUSES, PIPELINE, UNKNOWN, Attribution, attribute_waiting
from kinetoscope.model.stragglers.late_launches import HOST_CAUSES

COMPUTATION, LOADING, GAP = (CAUSES.index(name) for name in ("computation", "data loading", "host gap"))
TRANSFER = 5

Program = Sequence[tuple[int, ...]]
"""Collectives in order, by their members."""

Extra = Mapping[tuple[int, int], tuple[int, int]]
"""What a rank does more before a collective: which activity and how long, by rank and place."""


def played(program: Program, extra: Extra, *, own: int = 10, pairwise: Sequence[int] = ()) -> Arrivals:
    """Ranks compute for `own` before each collective that they are in, wait in it, and leave together."""
    clock: dict[int, int] = {rank: 0 for members in program for rank in members}
    since = dict(clock)
    rows: list[tuple[int, int, int, int, list[int]]] = []
    waited = dict.fromkeys(clock, 0)
    for place, members in enumerate(program):
        for rank in members:
            activity, more = extra.get((rank, place), (COMPUTATION, 0))
            did = [0] * PIPELINE
            did[COMPUTATION] += own
            did[activity] += more
            did[CAUSES.index("communication")] = waited[rank]
            clock[rank] += own + more
            rows.append((rank, clock[rank], place, int(place in pairwise), did))
            since[rank] = clock[rank]
        last = max(clock[rank] for rank in members)
        for rank in members:
            waited[rank] = last - clock[rank] + TRANSFER
            clock[rank] = last + TRANSFER
    return drawn(rows)


def drawn(
    rows: Sequence[tuple[int, int, int, int, list[int]]],
    computed: Mapping[int, Sequence[tuple[int, int]]] | None = None,
    stages: Mapping[int, int] | None = None,
) -> Arrivals:
    """Rows of (rank, arrival, match, role, did); those of role 1 send or receive."""
    rows = sorted(rows, key=lambda row: row[:3])
    spans = [list((computed or {}).get(place, ())) for place in range(len(rows))]
    flat = [span for each in spans for span in each]
    over = {row[2]: max(each[1] for each in rows if each[2] == row[2]) for row in rows}
    return Arrivals(
        rank=np.array([row[0] for row in rows], np.int64),
        arrival=np.array([row[1] for row in rows], np.int64),
        reached=np.array([row[1] for row in rows], np.int64),
        history=np.array([row[0] for row in rows], np.int64),
        match=np.array([row[2] for row in rows], np.int32),
        role=np.array([row[3] for row in rows], np.int32),
        pairwise=np.array([row[3] == 1 for row in rows], np.bool_),
        stage=np.array([(stages or {}).get(row[0], 0) for row in rows], np.int32),
        did=np.array([row[4] for row in rows], np.int64).reshape(len(rows), PIPELINE),
        barrier=np.array([not each for each in spans], np.bool_),
        computed=Intervals(np.array([a for a, _ in flat], np.int64), np.array([b for _, b in flat], np.int64)),
        offsets=np.concatenate([[0], np.cumsum([len(each) for each in spans])]).astype(np.int64),
        end=np.array(
            [max([over[row[2]], *(b for _, b in each)]) for row, each in zip(rows, spans, strict=True)], np.int64
        ),
        stream=np.array([row[0] for row in rows], np.int64),
        queued=np.zeros(len(rows), np.int64),
        host_exposed=Intervals(np.empty(0, np.int64), np.empty(0, np.int64)),
        exposed_row=np.empty(0, np.int64),
        exposed_by=np.empty(0, np.int64),
    )


def attributed(rows: Arrivals) -> Attribution:
    return attribute_waiting(rows, int(rows.match.max()) + 1)


def bill(rows: Arrivals, attribution: Attribution) -> dict[tuple[int, str], int]:
    """What each rank is charged with, by cause."""
    found: dict[tuple[int, str], int] = {}
    for row, cause in zip(*np.nonzero(attribution.charged), strict=True):
        key = int(rows.rank[row]), CAUSES[cause]
        found[key] = found.get(key, 0) + int(attribution.charged[row, cause])
    return found


ALL4 = (0, 1, 2, 3)


def test_it_is_charged_to_the_rank_that_arrives_last_and_by_what_it_did_more() -> None:
    rows = played([ALL4] * 3, {(2, 1): (LOADING, 100)})
    attribution = attributed(rows)
    assert attribution.lost.tolist() == [0, 300, 0]
    assert attribution.late.tolist() == [0, 100, 0]
    assert rows.rank[attribution.last[1]] == 2
    assert bill(rows, attribution) == {(2, "data loading"): 300}


def test_a_rank_that_is_slow_each_time_is_charged_each_time() -> None:
    rows = played([ALL4] * 4, {(1, place): (COMPUTATION, 7) for place in range(4)})
    assert bill(rows, attributed(rows)) == {(1, "computation"): 4 * 3 * 7}


def test_lateness_is_carried_from_one_group_into_another() -> None:
    """Tensor parallel pairs (0, 1) and (2, 3), then data parallel pairs: who is late because 1 was is not to blame."""
    program = [ALL4, (0, 1), (2, 3), (0, 2), (1, 3)]
    rows = played(program, {(1, 1): (GAP, 50)})
    attribution = attributed(rows)
    assert attribution.lost.tolist() == [0, 50, 0, 50, 50]
    assert attribution.carried.tolist() == [0, 0, 0, 50, 50]
    assert bill(rows, attribution) == {(1, "host gap"): 150}
    assert [int(rows.rank[row]) for row in attribution.first[3:]] == [1, 1]


def test_lateness_is_carried_along_where_the_others_compute_meanwhile() -> None:
    """Buckets of gradients: 1 begins late; the others computed all their buckets while they waited for the first."""
    rows = drawn(
        [
            (0, 20, 0, 0, [20, 0, 0, 0, 0, 0]),
            (0, 125, 1, 0, [80, 25, 0, 0, 0, 0]),
            (1, 120, 0, 0, [20, 0, 0, 100, 0, 0]),
            (1, 200, 1, 0, [80, 0, 0, 0, 0, 0]),
        ],
        {0: [(20, 100)], 2: [(120, 125)]},
    )
    attribution = attributed(rows)
    assert attribution.waited.tolist() == [20, 75, 0, 0]
    assert bill(rows, attribution) == {(1, "data loading"): 95}


def test_who_waits_in_several_at_a_time_loses_that_time_once() -> None:
    none = [0] * PIPELINE
    rows = drawn([(0, 0, 0, 0, none), (0, 10, 1, 0, none), (1, 50, 0, 0, [50, *none[1:]]), (1, 60, 1, 0, none)])
    attribution = attributed(rows)
    assert attribution.lost.tolist() == [50, 50]
    assert attribution.counted.tolist() == [50, 10]


def with_host_exposed(rows: Arrivals, held: Sequence[tuple[int, int, int, str]]) -> Arrivals:
    """With intervals (row, start, end, activity) in which hosts left transfer in the open."""
    row, start, end = (np.array([each[place] for each in held], np.int64) for place in range(3))
    by = np.array([HOST_CAUSES.index(each[3]) for each in held], np.int64)
    return replace(rows, host_exposed=Intervals(start, end), exposed_row=row, exposed_by=by)


def test_transfer_in_the_open_is_charged_to_what_the_host_did() -> None:
    """1 waits for its device until the transfer is over, at 60; 0 hides it, and waits for 1 from 60 to 110."""
    same = [10, 0, 0, 0, 0, 0]
    rows = [(0, 10, 0, 0, same), (0, 60, 1, 0, [50, 0, 0, 0, 0, 0])]
    rows += [(1, 10, 0, 0, same), (1, 110, 1, 0, [50, 50, 0, 0, 0, 0])]
    plain = drawn(rows, {0: [(10, 60)]})
    assert bill(plain, attributed(plain)) == {(1, "communication"): 50}
    kept = with_host_exposed(plain, [(2, 10, 15, "data loading"), (2, 15, 60, "synchronization")])
    attribution = attributed(kept)
    assert bill(kept, attribution) == {(1, "data loading"): 5, (1, "synchronization"): 45}
    assert attribution.host_exposed[3].tolist() == [0, 0, 0, 5, 45, 0]


def test_what_a_host_does_while_its_rank_waits_for_others_is_not_held_against_it() -> None:
    """0 waits for 1 from 10 to 40 and synchronises until the transfer is over, at 60, like 1."""
    rows = [(0, 10, 0, 0, [10, 0, 0, 0, 0, 0]), (0, 80, 1, 0, [20, 50, 0, 0, 0, 0])]
    rows += [(1, 40, 0, 0, [40, 0, 0, 0, 0, 0]), (1, 80, 1, 0, [20, 20, 0, 0, 0, 0])]
    kept = with_host_exposed(drawn(rows), [(0, 10, 60, "synchronization"), (2, 40, 60, "synchronization")])
    assert attributed(kept).host_exposed[:, CAUSES.index("synchronization")].tolist() == [0, 20, 0, 20]


def test_waiting_for_a_stage_of_the_pipeline_makes_no_straggler() -> None:
    """1 receives from 0, which takes long; then both meet 2, which had nothing to receive."""
    program = [(0, 1, 2), (0, 1), (0, 1, 2)]
    rows = played(program, {(0, 1): (COMPUTATION, 100)}, pairwise=[1])
    attribution = attributed(rows)
    assert attribution.lost.tolist()[1] == 100
    assert bill(rows, attribution).keys() <= {(0, "computation"), (0, "pipeline"), (1, "pipeline")}
    assert sum(bill(rows, attribution).values()) == attribution.lost[0] + attribution.lost[2]


def test_of_another_stage_no_more_is_counted_than_the_own_stage_is_early() -> None:
    """0 and 1 are one stage, 2 and 3 the next: 1 is 10 late; that 2 and 3 are done by 100 earlier is the pipeline's."""

    def row(rank: int, arrival: int) -> tuple[int, int, int, int, list[int]]:
        return rank, arrival, 1, 0, [arrival - 5, 5, 0, 0, 0, 0]

    first = [(rank, 0, 0, 0, [0] * PIPELINE) for rank in range(4)]
    stages = {0: 1, 1: 1, 2: 2, 3: 2}
    rows = drawn([*first, row(0, 200), row(1, 210), row(2, 100), row(3, 100)], stages=stages)
    assert bill(rows, attributed(rows)) == {(1, "computation"): 30, (1, "pipeline"): 200}


def test_before_the_recording_nothing_is_known() -> None:
    none = [0] * PIPELINE
    rows = drawn([(0, 0, 0, 0, none), (1, 100, 0, 0, [0, 0, 0, 30, 0, 0])])
    assert bill(rows, attributed(rows)) == {(1, "data loading"): 30, (1, CAUSES[UNKNOWN]): 70}


# --- drawn at random

activities = st.sampled_from([COMPUTATION, LOADING, GAP])
members = st.sets(st.integers(0, 4), min_size=2, max_size=5).map(lambda ranks: tuple(sorted(ranks)))
programs = st.lists(members, min_size=1, max_size=8)
extras = st.dictionaries(
    st.tuples(st.integers(0, 4), st.integers(0, 7)), st.tuples(activities, st.integers(0, 60)), max_size=8
)


@given(programs, extras, st.sets(st.integers(0, 7)))
def test_all_that_is_lost_is_charged_and_nothing_else(program: Program, extra: Extra, pairwise: set[int]) -> None:
    rows = played(program, extra, pairwise=sorted(pairwise))
    attribution = attributed(rows)
    pairs = np.array([bool(rows.pairwise[rows.match == match].any()) for match in range(len(program))])
    assert attribution.counted.tolist() == np.where(pairs, 0, attribution.lost).tolist()
    assert attribution.charged.sum() == attribution.counted.sum()
    assert attribution.charged.min() >= 0
    assert (attribution.carried <= attribution.lost).all()
    assert not attribution.charged[rows.pairwise].sum() or pairwise


@given(programs, st.integers(0, 4), st.integers(20, 100), activities)
def test_one_rank_that_is_slow_is_charged_with_everything(program: Program, slow: int, more: int, why: int) -> None:
    """Whatever the groups, if all ranks take part in all."""
    program = [ALL4] * len(program)
    rows = played(program, {(slow % 4, place): (why, more) for place in range(len(program))})
    assert bill(rows, attributed(rows)) == {(slow % 4, CAUSES[why]): 3 * more * len(program)}


spans = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 10)), max_size=4)


@given(st.lists(st.tuples(st.integers(0, 40), spans), min_size=2, max_size=5))
def test_waiting_is_counted_instant_by_instant(ranks: list[tuple[int, list[tuple[int, int]]]]) -> None:
    busy = []
    for arrival, parts in ranks:
        instants = sorted({t for start, length in parts for t in range(start, start + length) if t >= arrival})
        busy.append([(t, t + 1) for t in instants])
    none = [0] * PIPELINE
    rows = drawn([(rank, arrival, 0, 0, none) for rank, (arrival, _) in enumerate(ranks)], dict(enumerate(busy)))
    attribution = attributed(rows)
    until = max(arrival for arrival, _ in ranks)
    twin = [
        len(set(range(arrival, until)) - {start for start, _ in parts})
        for (arrival, _), parts in zip(ranks, busy, strict=True)
    ]
    assert attribution.waited.tolist() == twin
    assert attribution.lost.tolist() == [sum(twin)]
