"""DATA003: the workers of the data loader are started anew, and the first batch is slow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.fetching import FROM_WORKERS, fetches, first_fetches, gains_without, starts
from kinetoscope.advisor.finding import NOTHING, Claim, Stake
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.where import seen
from kinetoscope.advisor.words import many
from kinetoscope.algorithms.intervals import Intervals, covered, union
from kinetoscope.views.numbers import shown

_SURE: Final = 0.8
"""Of the time from the end of an epoch to the first fetch of the next, what starts workers."""

_SLOW: Final = 3.0
"""A first batch that takes so many times as long as others do is slow."""


def slow_first_batch(look: RankView) -> Iterator[Claim]:
    """Are the loader's workers started anew for each epoch?

    What it checks. Where an epoch ends (a fetch that gives no batch) or torch starts the workers: the time until the
    first fetch, and how much longer than others that takes. All steps are looked at, those of the warm-up as well.

    Why it matters. Without `persistent_workers` torch ends all workers after an epoch and starts new ones: processes
    are made, Python and the dataset are loaded, nothing is prefetched. Meanwhile nothing trains. At stake is the time
    from the end of one epoch to the first fetch of the next, of which eight tenths are taken to be sure, and at most
    also what the first fetch takes longer than others; counted over the recorded steps. It comes once an epoch: if
    only one was seen to end, or none, it is a note, as an epoch may have many more steps than were recorded.

    What to do. Let the workers live on; of short epochs, join several.
    """
    trace, found = look.trace, look.trace.of(starts)
    if not len(found.first):
        return
    rows = fetches(trace, FROM_WORKERS)
    took = trace.end[found.first] - trace.start[found.first]
    others = rows[~np.isin(rows, first_fetches(trace))]
    usual = float(np.median(trace.end[others] - trace.start[others])) if len(others) else 0.0
    each = float(np.mean(found.end - found.start) + max(np.mean(took) - usual, 0.0))
    inside = look.view.host[found.first] & (covered(Intervals(found.start, found.end), look.inside) > 0)
    stake, time = NOTHING, None
    if inside.any():
        surely = union(found.start[inside], found.end[inside])
        wait = np.minimum(trace.start[found.first] + round(usual), trace.end[found.first])
        most = union(
            np.concatenate([found.start[inside], wait[inside]]),
            np.concatenate([found.end[inside], trace.end[found.first[inside]]]),
        )
        low, high = (float(np.mean(gains_without(look, each))) for each in (surely, most))
        stake = Stake(max(_SURE * low, 0.0), max(high, 0.0))
        time = look.exposed(most)
    elif each < look.step * _SLOW:
        return
    again = int(found.again.sum())
    worst = int(found.first[np.argmax(took)])
    yield Claim(
        message=f"Starting the loader's workers keeps the training waiting for {shown(each, 'ns')}, once an epoch"
        f" ({many(len(found.first), 'time')} in this recording).",
        stake=stake,
        change="- DataLoader(dataset, num_workers=n)\n+ DataLoader(dataset, num_workers=n, persistent_workers=True)",
        why="The steps are computed anew without the time between two epochs; the first batch itself has to be made"
        " even so, which only the upper end leaves out. Over epochs longer than the recording it is less a step.",
        confidence="medium",
        evidence=(seen(look, worst, "the slowest first batch", "step_breakdown"),),
        time=time,
        at_most="critical" if again > 1 else "note",
    )


RULE = Rule("DATA003", "Data loader workers are started anew", of_rank=slow_first_batch)
