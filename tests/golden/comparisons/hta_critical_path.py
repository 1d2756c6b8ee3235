"""HTA's critical path of an annotation: its length."""

from __future__ import annotations

import re

import numpy as np

from kinetoscope import Job, Selection, critical_path
from tests.golden.comparison import fewest
from tests.golden.hta import Case, results
from tests.golden.hta_critical_graph import graph
from tests.golden.outcome import Outcome

ANALYSIS = "critical_path"
SECTIONS = ("critical_path", "critical_path_2", "critical_path_3")
OWN_GRAPH, SHORTER = "no time between calls", "a path that is not the longest"
RULES = (OWN_GRAPH, SHORTER)
TIES = 1.0
"""One link of 1 us, on one trace, depends on the order in which HTA sorts what happens at one time."""


def compare(case: Case) -> Outcome:
    call = results(case.name)[case.section]["call"]
    rank, annotation, instance = re.findall(r"rank=(\d+), annotation='(.*?)', instance_id=(\d+|None)", call)[0]
    place = 0 if instance == "None" else int(instance)
    golden = {
        "length": case.golden["critical_path_length_us"],
        "nodes": case.golden["nodes"],
        "links": case.golden["edges"],
    }

    def answer(rules: frozenset[str]) -> dict[str, float]:
        if not rules:
            return {"length": _ours(case.job(), int(rank), annotation, place)}
        found = graph(case.job(frozenset({"unlinked work"})).trace(int(rank)), annotation, place)
        length = found.longest() / 1000
        if OWN_GRAPH in rules:
            # Told to, it also links each kernel to its launch where that weighs nothing.
            more = found.after_kernel if "ADD_ZERO_WEIGHT_LAUNCH_EDGE=1" in call else 0
            return {"length": length, "nodes": found.nodes, "links": found.links + more}
        # Where a chain of calls of one thread is longer, HTA's path is not the longest even of its own graph.
        return golden if golden["length"] < length - TIES else {}

    return fewest(golden, answer, RULES, max(TIES, case.tolerance))


def _ours(job: Job, rank: int, annotation: str, place: int) -> float:
    if not annotation:
        frame = critical_path(job, path="run").frame
    elif annotation == "ProfilerStep":
        frame = critical_path(job).frame
    else:
        frame = critical_path(job, select=Selection(steps_by=annotation)).frame
    durations = frame.filter(frame["rank"] == rank)["duration"].to_numpy()
    place = min(place, len(durations) - 1)  # an annotation inside one of its own name is no step of its own
    return float(durations[place] if annotation else np.sum(durations)) / 1000
