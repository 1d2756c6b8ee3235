"""Halves of pairs found in a sequence: what opens a thing, and the next event of the same thing, which may close it."""

from __future__ import annotations

import numpy as np

from kinetoscope.algorithms.compiled import Int32s

NO_PLACE = -1


def next_of_same(keys: Int32s) -> Int32s:
    """Where each key occurs next after its place: int32 [n], NO_PLACE where it does not, or is negative itself."""
    found = np.full(keys.size, NO_PLACE, np.int32)
    places = np.flatnonzero(keys >= 0).astype(np.int32)
    # Stable, so places of one key stay in order.
    order = places[np.argsort(keys[places], kind="stable")]
    same = np.flatnonzero(keys[order[1:]] == keys[order[:-1]])
    found[order[same]] = order[same + 1]
    return found
