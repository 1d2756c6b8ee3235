"""The events of a memory snapshot: what the machine leaves of them, as columns of the narrowest types."""

from __future__ import annotations

from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.model.snapshot.snapshot import ACTIONS, OTHER_ACTION, SEGMENT_UNMAP, SnapshotEvents
from kinetoscope.model.snapshot.snapshot import NONE as NOTHING
from kinetoscope.model.snapshot.snapshot import OUT_OF_MEMORY as OOM
from kinetoscope.readers.pickled import machine as m
from kinetoscope.readers.pickled.tables import EMPTY, FIRST_ACTION, NOT_AVAILABLE, NarrowColumns

MAX_TIME_US: Final = 4_500_000_000_000_000
"""Microseconds, 142 years: a time beyond it is no time."""

MAX_EVENT_BYTES: Final = 1 << 46
"""Bytes, 70 TB: no event takes or returns more. A request that failed may have been for more."""


class EventChunks(NarrowColumns):
    """The columns of all events so far.

    Attributes:
        bytes: the sum of their sizes.
        left_out: those without action, address or size, or with one that cannot be; their action is OTHER_ACTION.
        odd: other values of them that are of another type than torch writes there, and count as not recorded.
    """

    def __init__(self) -> None:
        super().__init__(
            action=np.int8, address=np.int64, size=np.int64, stream=np.int64, time=np.int64, stack=np.int32,
            pool=np.int32, compile_context=np.int32, metadata=np.int32, internal=np.int32, forward_stack=np.int32,
        )  # fmt: skip
        self.left_out = self.odd = 0
        self.bytes = 0.0

    def take(self, rows: Int64s) -> None:
        """Add events as the machine left them: int64 [events, EVENT_COLUMNS], −1 where there is nothing."""
        action = rows[:, m.ACTION] - FIRST_ACTION
        action[(action < 0) | (action >= len(ACTIONS))] = OTHER_ACTION
        is_memory = (action >= 0) & (action <= SEGMENT_UNMAP)
        sizes = rows[:, m.SIZE]
        is_out = is_memory & ((sizes < 0) | (sizes > MAX_EVENT_BYTES) | (rows[:, m.ADDR] == NOTHING))
        is_out |= (rows[:, [m.ACTION, m.ADDR, m.SIZE]] == m.ODD).any(axis=1)
        is_odd = rows == m.ODD
        self.left_out += int(is_out.sum())
        self.odd += int(is_odd[~is_out].sum())
        action[is_out] = OTHER_ACTION
        rows = np.where(is_odd, NOTHING, rows)
        rows[is_out, m.SIZE] = 0
        self.bytes += np.abs(rows[:, [m.SIZE, m.DEVICE_FREE]], dtype=np.float64).sum()
        time = rows[:, m.TIME_US] * 1000
        time[(rows[:, m.TIME_US] < 0) | (rows[:, m.TIME_US] > MAX_TIME_US)] = NOTHING
        columns = {
            "action": action,
            "address": np.where(action == OOM, rows[:, m.DEVICE_FREE], rows[:, m.ADDR]),
            "size": np.maximum(rows[:, m.SIZE], 0),
            "stream": np.where(rows[:, m.STREAM] == -1, 0, rows[:, m.STREAM]),
            "time": time,
            "stack": rows[:, m.FRAMES],
            "pool": rows[:, m.POOL_ID],
            "compile_context": _text(rows[:, m.COMPILE_CONTEXT]),
            "metadata": _text(rows[:, m.USER_METADATA]),
            "internal": _text(rows[:, m.INTERNAL_METADATA]),
            "forward_stack": rows[:, m.FORWARD_FRAMES],
        }
        self.append(columns)

    def whole(self) -> SnapshotEvents:
        """All events, without a copy; none can be appended any more."""
        return SnapshotEvents(**self.columns())


def _text(codes: Int64s) -> Int64s:
    """Codes of texts, NONE where the text is empty or says that there is none."""
    return np.where((codes == NOT_AVAILABLE) | (codes == EMPTY), NOTHING, codes)
