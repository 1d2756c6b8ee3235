"""DATA002: the data loader has workers, and the training waits for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.fetching import FROM_WORKERS, WORTH, fetches, first_fetches, gains_without, range_of_mean, sure
from kinetoscope.advisor.finding import Claim, Stake
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.where import seen
from kinetoscope.advisor.words import share
from kinetoscope.algorithms.intervals import union
from kinetoscope.views.numbers import shown

_TAKING: Final = 100_000
"""ns that taking a batch may last if one is ready."""


def too_few_workers(look: RankView) -> Iterator[Claim]:
    """Does the training wait for the loader's workers?

    What it checks. How long the main thread is in the spans of torch's multi-process loader, but for the first batch of
    an epoch, and how much of that no device work hides.

    Why it matters. A batch that is ready is taken in some 0.1 ms. If it takes longer, the workers together make batches
    more slowly than the training uses them, and they set the pace: a step lasts as long as k workers take for a batch,
    divided by k. At most the whole waiting goes. Twice the workers make batches twice as fast, so that a step lasts no
    less than half of what it lasts now: they bring the waiting, or half of the step if that is less; three quarters of
    that is taken to be sure, for workers share memory and disks (half of it where the training needs the same cores).

    What to do. More workers, as long as the host has cores for them; else less work for each batch: decode smaller
    images, transform on the device, store what is computed anew in each epoch.
    """
    rows = fetches(look.trace, FROM_WORKERS)
    rows = rows[look.view.host[rows] & ~np.isin(rows, first_fetches(look.trace))]
    if not len(rows):
        return
    start, end = look.trace.start[rows], look.trace.end[rows]
    ready = min(int(np.min(end - start)), _TAKING)
    waits = union(np.minimum(start + ready, end), end)
    gains = gains_without(look, waits)
    waiting, (least, most) = float(np.mean(gains)) if len(gains) else 0.0, range_of_mean(gains)
    if waiting < WORTH * look.step:
        return
    longest = int(rows[np.argmax(end - start)])
    half = min(1.0, look.step / 2 / waiting)
    yield Claim(
        message=f"The training waits {shown(waiting, 'ns')} of each step ({share(waiting, look.step)}) for the loader's"
        " workers.",
        stake=Stake(max(sure(look) * half * least, 0.0), min(most, look.step)),
        change="- DataLoader(dataset, num_workers=n, ...)\n"
        "+ DataLoader(dataset, num_workers=2 * n, persistent_workers=True, ...)",
        why="The steps are computed anew without the waiting. Twice the workers halve the time between two batches,"
        f" and are supposed to bring {share(sure(look), 1.0)} of what that allows.",
        confidence="medium",
        evidence=(seen(look, longest, "the longest wait", "step_breakdown"),),
        time=look.exposed(waits),
    )


RULE = Rule("DATA002", "Too few data loader workers", of_rank=too_few_workers)
