"""HTA's delays of operators: from an operator to its first launch, and from there to its kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetoscope import Trace, operator_launch_delay
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_named
from tests.golden.comparison import fewest
from tests.golden.hta import Case
from tests.golden.outcome import Outcome

ANALYSIS = "operator_launch_delay"
SECTIONS = ("aten_op_kernels_and_delay",)
RULES = ("kernel launches only", "latest operator of any thread")
COLUMNS = {
    "calls": "occurrence_count",
    "operator_delay": "avg_aten_op_launch_delay",
    "launch_delay": "avg_runtime_delay",
}


def compare(case: Case) -> Outcome:
    golden: dict[Any, Any] = {}
    for rank, found in case.golden.items():
        golden[rank] = found["n"]
        for row in found["top"]:
            key = (int(rank), row["aten_op_name"], row["kernel_sequence"])
            golden[key] = {ours: row[its] for ours, its in COLUMNS.items()}
    return fewest(golden, lambda rules: _ours(case, rules, golden), RULES, 0.0011)


def _ours(case: Case, rules: frozenset[str], golden: dict[Any, Any]) -> dict[Any, Any]:
    """The rows that HTA has of ours, and how many there are."""
    job, ranks = case.job(rules), [int(rank) for rank in case.golden]
    if "latest operator of any thread" in rules:
        rows = [(rank, *row) for rank in ranks for row in _formula(job.trace(rank))]
    else:
        rows = [
            (row["rank"], row["operator"], " -> ".join(row["names"]), *(row[name] for name in COLUMNS))
            for row in operator_launch_delay(job).frame.to_dicts()
            if row["rank"] in ranks
        ]
    found: dict[Any, Any] = {}
    for rank, operator, sequence, calls, *delays in rows:
        found[str(rank)] = found.get(str(rank), 0) + 1
        if (rank, operator, sequence) in golden:
            means = (delay / calls / 1000 for delay in delays)
            found[rank, operator, sequence] = dict(zip(COLUMNS, (calls, *means), strict=True))
    return found


def _formula(trace: Trace) -> list[tuple[str, str, int, int, int]]:
    """HTA's own: of all operators that begin before a launch and end after it, whatever their thread, the latest.

    Of those that begin in the same microsecond it is the first in the file, which is the outermost.
    """
    work = device_work(trace)
    linked = np.flatnonzero(work.launch >= 0)
    linked = linked[np.lexsort((linked, trace.start[work.launch[linked]]))]
    ops = np.flatnonzero(rows_named(trace, lambda name: name.startswith("aten::"), EventKind.HOST_OP))
    ops = ops[np.argsort(trace.start[ops], kind="stable")]
    calls: dict[tuple[int, int], list[int]] = {}
    for piece in linked.tolist():
        launch = int(work.launch[piece])
        begun = ops[: np.searchsorted(trace.start[ops], trace.start[launch], side="right")]
        around = np.flatnonzero(trace.end[begun] >= trace.end[launch])
        if len(around):
            latest = begun[around][trace.start[begun[around]] == trace.start[begun[around[-1]]]]
            calls.setdefault((int(trace.track[launch]), int(latest.min())), []).append(piece)
    found: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for (_, op), pieces in calls.items():
        names = trace.strings.labels(trace.name[[op, *work.rows[pieces].tolist()]].tolist())
        launched = int(trace.start[work.launch[pieces[0]]])
        delays = launched - int(trace.start[op]), int(work.start[pieces[0]]) - launched
        found.setdefault((names[0], " -> ".join(names[1:])), []).append(delays)
    return [(*key, len(rows), *map(sum, zip(*rows, strict=True))) for key, rows in found.items()]  # type: ignore[misc]
