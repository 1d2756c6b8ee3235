"""DATA003: the workers of the data loader are started anew, and the first batch is slow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.data_loader import (
    FROM_WORKERS,
    MIN_STEP_SHARE,
    fetches,
    first_fetches,
    gains_without,
    main_thread_without,
    starts,
)
from kinetoscope.advisor.evidence.source_location import event_evidence
from kinetoscope.advisor.finding import NO_STAKE, Finding, Stake
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import counted
from kinetoscope.algorithms.intervals.intervals import merge, union
from kinetoscope.views.sentences import measured, say

_CERTAIN_SHARE: Final = 0.8
"""Certain share of the time in which workers end and start."""

_MIN_STEPS_TAKEN: Final = 3.0
"""Steps that the workers' start takes from which on it is reported, even if it lies in no selected step."""


def slow_first_batch(rank: RankView) -> Iterator[Finding]:
    """Are the loader's workers restarted for each epoch?

    What it checks. Ends of epochs (a fetch that gives no batch) after which torch draws the seed for new workers or
    starts them: the time until the first fetch, and by how much that fetch is longer than others. All steps count,
    including those of the warm-up.

    Why it matters. Without `persistent_workers` torch ends all workers after an epoch and starts new ones: processes
    are created, Python and the dataset are loaded, and nothing is prefetched. Meanwhile the training stops. At stake is
    the time in which the old workers end and the new ones start, of which eight tenths are the lower end; at most also
    the extra time of the first fetch, spread over the recorded steps. It happens once an epoch: if at most one end was
    recorded it is a note, as an epoch may have many more steps than were recorded.

    What to do. Keep the workers (`persistent_workers=True`); join short epochs.
    """
    trace, worker_starts = rank.trace, starts(rank.trace)
    if not len(worker_starts):
        return
    rows, last = fetches(trace, FROM_WORKERS), worker_starts.last[worker_starts.last >= 0]
    others = rows[~np.isin(rows, first_fetches(trace))]
    usual = round(float(np.median(trace.end[others] - trace.start[others]))) if len(others) else 0
    took = trace.end[worker_starts.first] - trace.start[worker_starts.first]
    surely = merge(union(worker_starts.start, worker_starts.end), rank.spans(last))
    late = union(
        np.minimum(trace.start[worker_starts.first] + usual, trace.end[worker_starts.first]),
        trace.end[worker_starts.first],
    )
    each = merge(surely, late).length / len(worker_starts)
    low, high = gains_without(rank, surely), gains_without(rank, merge(surely, late))
    stake = Stake(max(_CERTAIN_SHARE * float(np.mean(low)), 0.0), min(max(float(np.mean(high)), 0.0), rank.step))
    if stake.high < MIN_STEP_SHARE * rank.step and each < _MIN_STEPS_TAKEN * rank.step:
        return
    worst = int(worker_starts.first[np.argmax(took)])
    time = rank.exposed(merge(surely, late))
    yield Finding(
        message=say(
            "Each epoch starts the loader's workers anew. That takes {each} once an epoch ({times} in this recording),"
            " {took} of an average step.",
            each=measured(each, "ns"),
            times=counted(len(worker_starts), "time"),
            took=rank.time_per_step(time.length),
        ),
        takes=rank.per_step(time.length),
        stake=stake if stake.high >= MIN_STEP_SHARE * rank.step else NO_STAKE,
        factors=main_thread_without(rank, merge(surely, late)),
        change="- DataLoader(dataset, num_workers=n)\n+ DataLoader(dataset, num_workers=n, persistent_workers=True)",
        why=say(
            "The first batch has to be made in any case; only the upper end counts it. If epochs are longer than the"
            " recording, the cost per step is lower."
        ),
        confidence="medium",
        evidence=(event_evidence(rank, worst, "the slowest first batch", "step_breakdown"),),
        time=time,
        at_most="critical" if len(last) > 1 else "note",
    )


RULE = Rule("DATA003", "Data loader workers are started anew", slow_first_batch)
