"""Bytes in use by kind of allocation, over the history of a device or a part of it, as a picture shows them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinetoscope.algorithms.arrays import Int8s, Int64s
from kinetoscope.algorithms.layout.bands import highest
from kinetoscope.model.snapshot.replay import SnapshotHistory
from kinetoscope.model.snapshot.snapshot import NONE

NO_CHANGE = -1
"""Code of an event that neither takes nor returns memory."""


@dataclass(frozen=True)
class Bands:
    """Levels at some instants of a history, in order.

    Attributes:
        event: int64 [instants], the event after which they hold; −1 before the first.
        levels: int64 [instants, kinds], bytes asked for.
    """

    event: Int64s
    levels: Int64s


def changes_by_kind(past: SnapshotHistory, kind: Int8s) -> Int8s:
    """What each event does: k takes bytes for kind k, −2 − k returns them, NO_CHANGE. `kind`: int8 [allocations]."""
    codes = np.full(len(past.events), NO_CHANGE, np.int8)
    is_taken, is_returned = past.taken != NONE, past.returned != NONE
    codes[past.taken[is_taken]] = kind[is_taken]
    codes[past.returned[is_returned]] = -2 - kind[is_returned]
    return codes


def bands(past: SnapshotHistory, kind: Int8s, kinds: int, changes: Int8s, begins: Int64s) -> Bands:
    """The state before the first of some events, then the highest instant of each column of them.

    Args:
        past: the history of a device.
        kind: int8 [allocations], from 0 up to `kinds`.
        kinds: how many there are.
        changes: `changes_by_kind`.
        begins: int64 [columns + 1], the events with which the columns begin; the end of the last one.
    """
    before = int(begins[0]) - 1
    alive = past.alive_after(before)
    start = np.zeros(kinds, np.int64)
    np.add.at(start, kind[alive], past.requested[alive])
    columns = len(begins) - 1
    at, levels = np.empty(columns, np.int64), np.empty((columns, kinds), np.int64)
    highest(changes, past.events.size, begins, start.copy(), at, levels)
    return Bands(np.concatenate([[before], at]), np.concatenate([start[None], levels]))
