"""HTA's frequent sequences of kernels of an operator."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from kinetoscope import Trace, kernel_sequences
from kinetoscope.model.execution.call_tree import call_tree
from kinetoscope.model.execution.device_work import device_work
from tests.golden.comparison import fewest
from tests.golden.hta import Case, results
from tests.golden.outcome import Outcome

ANALYSIS = "kernel_sequences"
SECTIONS = ("frequent_cuda_kernel_sequences",)
RULES = ("shallowest calls only",)
LENGTH = 3
"""Kernels that a sequence has at least."""

Rows = dict[tuple[str, ...], dict[str, float]]


def compare(case: Case) -> Outcome:
    call = results(case.name)[case.section]["call"]
    operator, rank = re.findall(r"operator_name='(.*?)'.*rank=(\d+)", call)[0]
    golden = {
        tuple(row["pattern"].split("|")): {
            "calls": row["count"],
            "device": row["GPU kernel duration (us)"],
            "host": row["CPU op duration (us)"],
        }
        for row in case.golden["top"]
    }

    def answer(rules: frozenset[str]) -> Any:
        found = _formula(case.job(rules).trace(int(rank)), operator) if rules else _ours(case, operator, int(rank))
        return {"rows": {key: found.get(key) for key in golden}, "number": len(found)}

    return fewest({"rows": golden, "number": case.golden["n_patterns"]}, answer, RULES, max(case.tolerance, 0.01))


def _ours(case: Case, operator: str, rank: int) -> Rows:
    frame = kernel_sequences(case.job(), operator=operator, min_length=LENGTH).frame
    return {
        (row["operator"], *row["sequence"].split(" -> ")): {
            "calls": row["calls"],
            "device": row["device_time"] / 1000,
            "host": row["host_time"] / 1000,
        }
        for row in frame.to_dicts()
        if row["rank"] == rank
    }


def _formula(trace: Trace, operator: str) -> Rows:
    """HTA's own: of all calls whose name contains the operator's those at the least depth, with kernels by start."""
    tree, work = call_tree(trace), device_work(trace)
    codes = [code for code in np.unique(trace.name[tree.order]).tolist() if operator in trace.strings.label(code)]
    calls = np.flatnonzero(tree.member & np.isin(trace.name, codes))
    launched: dict[int, list[int]] = {call: [] for call in calls.tolist()}
    for piece in np.argsort(work.start, kind="stable").tolist():
        row = int(work.launch[piece])
        while row >= 0:
            if row in launched:
                launched[row].append(piece)
            row = int(tree.parent[row])
    depth = min((int(tree.depth[call]) for call in launched), default=0)
    found: Rows = {}
    for call, pieces in launched.items():
        if tree.depth[call] == depth and len(pieces) >= LENGTH:
            rows = [call, *work.rows[pieces].tolist()]
            numbers = found.setdefault(
                tuple(trace.strings.labels(trace.name[rows].tolist())), dict.fromkeys(PARTS, 0.0)
            )
            numbers["calls"] += 1
            numbers["device"] += int(work.duration[pieces].sum()) / 1000
            numbers["host"] += int(trace.end[call] - trace.start[call]) / 1000
    return found


PARTS = ("calls", "device", "host")
