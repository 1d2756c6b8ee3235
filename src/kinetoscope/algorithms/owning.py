"""Each instant of a thread owned by one call: of those that run, the one that began last.

The call tree nests calls that overlap partly beside one another, so durations less those of the calls inside can count
an instant twice. Here a call ends where the next one begins that is not inside it.
"""

from __future__ import annotations

import numpy as np

from kinetoscope.algorithms.compiled import Int32s, Int64s
from kinetoscope.algorithms.tree import subtree_sum


def owned_until(start: Int64s, end: Int64s, order: Int32s, offsets: Int64s, parent: Int32s) -> Int64s:
    """Until when each row owns what runs in it: int64 [members], in the order of `order`.

    With these ends the rows of a track nest without partial overlaps, so that what a row owns itself is never negative,
    and sums to the union of all rows of the track. `parent` is what `tree.nest` made of the same rows. A row that ends
    before it starts owns nothing.
    """
    member = np.zeros(start.size, np.int64)
    member[order] = 1
    place = np.arange(order.size, dtype=np.int64)
    following = place + subtree_sum(member, parent, order)[order]  # in order, a row is followed by those inside it
    last = np.repeat(offsets[1:], np.diff(offsets))
    until = np.maximum(end[order], start[order])
    cut = np.flatnonzero(following < last)
    until[cut] = np.minimum(until[cut], start[order[following[cut]]])
    return until
