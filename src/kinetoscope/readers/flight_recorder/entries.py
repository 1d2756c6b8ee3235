"""The entries of a dump: what the machine leaves of them, as columns of the narrowest types."""

from __future__ import annotations

from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int64s
from kinetoscope.model.flight_recorder.dump import COMPLETED, NONE, SCHEDULED, STARTED, STATES
from kinetoscope.readers.pickled import machine as m
from kinetoscope.readers.pickled.tables import FIRST_ENTRY_STATE, NarrowColumns

MAX_TIME: Final = 1 << 62
"""Nanoseconds since 1970, 146 years: a time beyond it is no time."""

_MAX_CODE: Final = (1 << 31) - 1
_COLUMN: Final = {key: place for place, key in enumerate(m.ENTRY_KEYS)}
_IS_REAL, _UNKNOWN = m.ENTRY_COLUMNS - 2, m.ENTRY_COLUMNS - 1


class EntryChunks(NarrowColumns):
    """The columns of all entries so far; times of nothing are NONE.

    Attributes:
        odd: values of another type than torch writes there, which count as not recorded.
        unknown: codes of keys that are not read, some of them.
    """

    def __init__(self) -> None:
        super().__init__(
            record=np.int64, pg=np.int64, process_group=np.int32, seq=np.int64, p2p_seq=np.int64, op=np.int64,
            is_p2p=np.int8, name=np.int32, input_sizes=np.int32, output_sizes=np.int32, input_types=np.int32,
            output_types=np.int32, created=np.int64, started=np.int64, completed=np.int64, duration=np.int64,
            timeout=np.int64, state=np.int8, retired=np.int8, stack=np.int32, thread=np.int32, left_out=np.int8,
        )  # fmt: skip
        self.odd = 0
        self.unknown: set[int] = set()

    def take(self, rows: Int64s) -> None:
        """Add entries as the machine left them: int64 [entries, ENTRY_COLUMNS], −1 where there is nothing."""
        columns = rows.T.copy()
        is_odd = columns[:_IS_REAL] == m.ODD
        has_odd = bool(is_odd.any())
        if has_odd:
            columns[:_IS_REAL][is_odd] = NONE
        column = {key: columns[place] for key, place in _COLUMN.items()}
        seq = np.where(column[m.COLLECTIVE_SEQ_ID] < 0, column[m.SEQ_ID], column[m.COLLECTIVE_SEQ_ID])
        started, completed = (
            _time(column[key]) for key in (m.TIME_DISCOVERED_STARTED_NS, m.TIME_DISCOVERED_COMPLETED_NS)
        )
        is_in = (column[m.PROFILING_NAME] != NONE) & (seq >= 0)
        is_in &= (column[m.PROCESS_GROUP] != NONE) | (column[m.PG_ID] != NONE)
        self.odd += int(is_odd[:, is_in].sum()) if has_odd else 0
        if (columns[_UNKNOWN] != NONE).any():
            self.unknown |= {*np.unique(columns[_UNKNOWN]).tolist()} - {NONE}
        self.append(
            {
                "record": column[m.RECORD_ID],
                "pg": column[m.PG_ID],
                "process_group": column[m.PROCESS_GROUP],
                "seq": seq,
                "p2p_seq": column[m.P2P_SEQ_ID],
                "op": column[m.OP_ID],
                "is_p2p": column[m.IS_P2P],
                "name": column[m.PROFILING_NAME],
                "input_sizes": np.maximum(column[m.INPUT_SIZES], -_MAX_CODE),
                "output_sizes": np.maximum(column[m.OUTPUT_SIZES], -_MAX_CODE),
                "input_types": np.maximum(column[m.INPUT_DTYPES], NONE),
                "output_types": np.maximum(column[m.OUTPUT_DTYPES], NONE),
                "created": _time(column[m.TIME_CREATED_NS]),
                "started": started,
                "completed": completed,
                "duration": _milliseconds(column[m.DURATION_MS], columns[_IS_REAL] == 1),
                "timeout": _milliseconds(column[m.TIMEOUT_MS], None),
                "state": _states(column[m.STATE], started, completed),
                "retired": column[m.RETIRED],
                "stack": column[m.FRAMES],
                "thread": column[m.THREAD_NAME],
                "left_out": np.where(is_in, NONE, 1),
            }
        )


def _time(column: Int64s) -> Int64s:
    return np.where((column > 0) & (column < MAX_TIME), column, NONE)


def _states(codes: Int64s, started: Int64s, completed: Int64s) -> Int64s:
    """Codes of states; where there is none that is known, what the times say."""
    state = codes - FIRST_ENTRY_STATE
    by_times = np.where(completed != NONE, COMPLETED, np.where(started != NONE, STARTED, SCHEDULED))
    return np.where((state >= 0) & (state < len(STATES)), state, by_times)


def _milliseconds(column: Int64s, is_real: Bools | None) -> Int64s:
    """Milliseconds, integers or bits of float64, as nanoseconds."""
    amount = column.astype(np.float64)
    if is_real is not None:
        amount = np.where(is_real, column.view(np.float64), amount)
    known = (amount >= 0) & (amount < MAX_TIME / 1e6)
    return np.where(known, np.round(np.where(known, amount, 0) * 1e6), NONE).astype(np.int64)
