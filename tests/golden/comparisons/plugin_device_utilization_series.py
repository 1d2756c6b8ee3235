"""The plugin's counters in the timeline: utilization in buckets, and SM efficiency at each change."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetoscope import device_utilization_series
from kinetoscope.model.steps.scope import origin_of_time
from kinetoscope.model.trace.event_kinds import EventKind
from tests.golden.comparison import fewest
from tests.golden.outcome import Outcome
from tests.golden.plugin import Case

ANALYSIS = "device_utilization_series"
SECTIONS = ("trace_gpu_counters",)


LAST = "last bucket longer"


def compare(case: Case) -> Outcome:
    """Its counter of utilization begins with a 1 and a 0, to give the axis a range, and ends with a 0.

    Its counter of SM efficiency is integrated over our buckets; the sum of the values of one instant that it draws as
    two counters is 0 at its end.
    """
    if not case.golden:
        return fewest([], lambda _: device_utilization_series(case.job).frame.to_dicts(), ())
    frame = device_utilization_series(case.job).frame
    start = origin_of_time(case.job.trace())
    begins = [(row["time"] + start) / 1000 for row in frame.to_dicts()]
    ends = [(row["time"] + row["duration"] + start) / 1000 for row in frame.to_dicts()]
    golden = {
        "utilization": [[each["ts"], each["args"][UTILIZATION]] for each in case.golden if UTILIZATION in each["args"]][
            2:-1
        ],
        "sm_efficiency": _integrated(case.golden, begins, ends),
    }

    def answer(rules: frozenset[str]) -> Any:
        utilization = frame["utilization"].to_list()
        points = [list(pair) for pair in zip(begins, utilization, strict=True)]
        if LAST in rules:
            *points, (begin, before), (last, value) = points
            busy = before * (last - begin) + value * (ends[-1] - last)
            points.append([begin, busy / (_end(case) - begin)])
        return {"utilization": points, "sm_efficiency": frame["sm_efficiency"].to_list()}

    return fewest(golden, answer, (LAST,), 1e-6)


UTILIZATION, EFFICIENCY = "GPU Utilization", "Est. SM Efficiency"


def _end(case: Case) -> float:
    """Of the window, us: that of the recording, where the file says it, else that of the last event."""
    trace = case.job.trace()
    spans = trace.rows(EventKind.SPAN)
    shown = trace.end[spans] if len(spans) else trace.end[trace.ph == ord("X")]
    return float(shown.max()) / 1000


def _integrated(golden: Any, begins: list[float], ends: list[float]) -> list[float]:
    """Means over the buckets of the counter, which holds each value until the next."""
    points = [(each["ts"], each["args"][EFFICIENCY]) for each in golden if EFFICIENCY in each["args"]][2:]
    time, value = (np.array(column, np.float64) for column in zip(*points, strict=True))
    time -= begins[0]
    area = np.concatenate([[0.0], np.cumsum(np.diff(time) * value[:-1])])
    edges = np.array([*begins, ends[-1]]) - begins[0]
    return [float(part) for part in np.diff(np.interp(edges, time, area)) / np.diff(edges)]
