"""DATA001: the data loader has no workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.finding import Claim, Evidence
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.model.calltree import main_thread
from kinetoscope.model.kinds import EventKind
from kinetoscope.model.naming import rows_named
from kinetoscope.views.numbers import shown

_SPAN: Final = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"

_SURE: Final = 0.7
"""Of what is at stake, what workers surely bring: they share cores and memory with the training, and a batch that is
ready has still to be taken."""


def loading_in_the_main_process(look: RankView) -> Iterator[Claim]:
    """Are batches made by the thread that trains?

    What it checks. Spans of torch's single-process loader on the main thread, and how much of them no device work
    hides.

    Why it matters. While that thread makes a batch it launches nothing, so the device runs dry. With workers batches
    are made beside the training, and the thread takes one that is ready. At stake is what the steps gain if these
    spans vanish, and surely seven tenths of that: workers share cores and memory with the training, and a batch that is
    ready has still to be taken.

    What to do. Give the loader workers, and let them live on from epoch to epoch.
    """
    rows = np.flatnonzero(
        rows_named(look.trace, lambda name: name == _SPAN, EventKind.ANNOTATION, EventKind.HOST_OP, holding=(_SPAN,))
        & look.view.host
        & (look.trace.track == look.trace.of(main_thread))
    )
    if not len(rows):
        return
    spans = look.spans(rows)
    length = look.each_step(spans.length)
    factors = look.factors()
    factors.cut[int(look.trace.track[rows[0]])] = spans
    gains = look.gains(factors)
    longest = int(rows[np.argmax(look.trace.end[rows] - look.trace.start[rows])])
    start, end = int(look.trace.start[longest]) - look.origin, int(look.trace.end[longest]) - look.origin
    yield Claim(
        message=f"Batches are made in the training process: {shown(length, 'ns')} of each step.",
        stake=look.stake(_SURE * gains, gains),
        change="- DataLoader(dataset, batch_size=...)\n"
        "+ DataLoader(dataset, batch_size=..., num_workers=4, persistent_workers=True)",
        why="The steps are computed anew without these spans; workers, which share cores and memory with the"
        " training, are supposed to bring seven tenths of that at least.",
        evidence=(Evidence("the longest of them", "step_breakdown", start=start, end=end, row=longest),),
        time=look.exposed(spans),
    )


RULE = Rule("DATA001", "The data loader has no workers", of_rank=loading_in_the_main_process)
