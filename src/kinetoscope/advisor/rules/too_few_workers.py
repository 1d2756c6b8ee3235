"""DATA002: the data loader has workers, and the training waits for them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.data_loader import (
    FROM_WORKERS,
    MIN_STEP_SHARE,
    confidence,
    cores_for_workers,
    fetches,
    first_fetches,
    gains_without,
    main_thread_without,
    sure,
)
from kinetoscope.advisor.evidence.source_location import event_evidence
from kinetoscope.advisor.finding import Finding, Stake
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.step_statistics import range_of_mean
from kinetoscope.advisor.wording import counted, share, wording
from kinetoscope.algorithms.intervals.intervals import union
from kinetoscope.views.sentences import measured, say

_ROOM: Final = 1.25
"""So much faster than the training the workers together shall be, for batches differ."""

_MAX_WORKER_RATIO: Final = 4
"""Greatest ratio of suggested to present workers: cores are not endless."""

_TAKING: Final = 100_000
"""ns that taking a batch may last if one is ready."""

_UNPACKING: Final = 1_500_000
"""The same where no device is: nothing pins the batch ahead, so this thread unpacks it, on a core that workers want."""


def too_few_workers(rank: RankView) -> Iterator[Finding]:
    """Does the training wait for the loader's workers?

    What it checks. The time of the main thread in the spans of torch's multi-process loader, except for the first batch
    of an epoch, that no device work hides.

    Why it matters. Taking a ready batch takes about 0.1 ms (up to 1.5 ms where there is no device and nothing pins it
    ahead; that part is not in the lower end). If it takes longer, the workers together make batches more slowly than
    the training uses them, and set the pace: with k workers a step lasts 1/k of the time that a worker needs for a
    batch. At most, all waiting of the selected steps goes. With m times the workers a step lasts at least an m-th of
    its present time, where m is the number that suffices, from 2 to 4. Three quarters of that gain count as likely, as
    workers share memory and disks (half where the training needs the same cores). It is a guess where, by the
    recording, there are fewer than two cores for each worker, besides those of the training's own threads.

    What to do. Use more workers, as long as the host has cores for them; else reduce the work for each batch: decode
    smaller images, transform on the device, store what is computed anew in each epoch.
    """
    rows = fetches(rank.trace, FROM_WORKERS)
    rows = rows[rank.scope.host_mask[rows] & ~np.isin(rows, first_fetches(rank.trace))]
    if not len(rows):
        return
    start, end = rank.trace.start[rows], rank.trace.end[rows]
    ready = min(int(np.min(end - start)), _TAKING)
    waits = union(np.minimum(start + ready, end), end)
    gains, exposed = gains_without(rank, waits), rank.exposed(waits)
    waiting, (least, most) = rank.per_step(exposed.length), range_of_mean(gains)
    if not rank.has_device:
        least, _ = range_of_mean(gains_without(rank, union(np.minimum(start + _UNPACKING, end), end)))
    if waiting < MIN_STEP_SHARE * rank.step:
        return
    longest = rank.longest(rows)
    rest = max(rank.step - waiting, 1.0)
    times = min(max(math.ceil(_ROOM * rank.step / rest), 2), _MAX_WORKER_RATIO)
    cores, workers = cores_for_workers(rank) or (0, 0)
    has_room = not workers or 2 * workers <= cores
    if workers and has_room:
        times = min(times, cores // workers)
    part = sure(rank) * min(1.0, rank.step * (1 - 1 / times) / waiting)
    yield Finding(
        message=say(
            "{process} waits for the loader's workers. It waits {waiting} of each step ({part}).",
            process=wording(rank.program).process,
            waiting=measured(waiting, "ns"),
            part=share(waiting, rank.step),
        ),
        stake=Stake(max(part * least, 0.0), most),
        factors=main_thread_without(rank, waits),
        takes=waiting,
        change="- DataLoader(dataset, num_workers=n, ...)\n"
        f"+ DataLoader(dataset, num_workers={times} * n, persistent_workers=True, ...)",
        why=say(
            "{times} times the workers are assumed to make batches {times} times as fast, and to bring {part} of what"
            " that allows.{crowded}",
            times=measured(times),
            part=share(sure(rank), 1.0),
            crowded=""
            if has_room
            else say(
                " But {workers} of the loader already have {cores}: more bring that only if they wait for storage.",
                workers=counted(workers, "worker"),
                cores=counted(cores, "core"),
            ),
        ),
        confidence=confidence(rank, "medium" if has_room else "low"),
        evidence=(event_evidence(rank, longest, "the longest wait", "step_breakdown"),),
        time=exposed,
    )


RULE = Rule("DATA002", "Too few data loader workers", too_few_workers)
