"""Does what happens in some steps come regularly, as what a loop does on purpose, or by chance?"""

from __future__ import annotations

import numpy as np

from kinetoscope.algorithms.arrays import Int64s


def is_regular(steps: Int64s, count: int) -> bool:
    """Does it come in each so-manieth step from the first recorded one to the last, three times or more?

    Three pauses by chance are evenly apart more often than one would think; that they also begin early enough and end
    late enough is what a loop does on purpose.

    Args:
        steps: places of the steps in which it comes, 0 to `count` - 1, in any order.
        count: how many steps were recorded.
    """
    places = np.unique(steps)
    apart = np.diff(places)
    if len(apart) < 2 or apart.min() != apart.max():
        return False
    return bool(places[0] < apart[0] and places[-1] + apart[0] >= count)
