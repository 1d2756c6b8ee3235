"""What HTA keeps of a trace: events of each category, device work of each stream, and what is linked."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from kinetoscope import Trace
from kinetoscope.model.execution.device_work import device_work
from tests.golden.comparison import fewest
from tests.golden.hta import Case
from tests.golden.outcome import Outcome

ANALYSIS = "trace_info"
SECTIONS = ("load", "last__load")
RULES = ("unlinked work", "waits as work")


def compare(case: Case) -> Outcome:
    golden = {
        int(rank): {
            "categories": found["by_category"],
            "streams": {int(stream): count for stream, count in found["gpu_rows_by_stream"].items()},
        }
        for rank, found in case.golden.items()
        if rank.isdigit()
    }
    return fewest(golden, lambda rules: _ours(case, rules), RULES)


def _ours(case: Case, rules: frozenset[str]) -> dict[int, Any]:
    job = case.job(rules)
    return {rank: _of(job.trace(rank)) for rank in job.ranks}


def _of(trace: Trace) -> dict[str, Any]:
    complete = np.flatnonzero((trace.ph == ord("X")) & (trace.category >= 0))
    categories = Counter(trace.strings.labels(trace.category[complete].tolist()))
    streams = Counter(device_work(trace).stream.tolist())
    return {"categories": {name: n for name, n in categories.items() if name != "Trace"}, "streams": dict(streams)}
