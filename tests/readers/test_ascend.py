"""Timelines of torch_npu (`trace_view.json`): work of devices is read, and leads to the operator that asked for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinetoscope
from kinetoscope.model.execution.device_work import device_work


def test_work_of_a_real_timeline_is_that_of_its_own_overlap_analysis(shared_traces: Path) -> None:
    file = shared_traces / "hostile/trace_view.json"
    events = json.loads(file.read_text())
    [pid] = [each["pid"] for each in events if each["ph"] == "M" and each.get("args") == {"name": "Ascend Hardware"}]
    spans = [each for each in events if each["pid"] == pid and each["ph"] == "X"]
    computing = sum(each["dur"] for each in events if each["ph"] == "X" and each["name"] == "Computing")
    job = kinetoscope.read(file)
    work = device_work(job.trace())
    assert len(work) == len(spans)
    assert np.unique(work.stream).tolist() == sorted({each["args"]["Stream Id"] for each in spans})
    assert (work.op >= 0).sum() >= 0.99 * len(work)
    busy = kinetoscope.temporal_breakdown(job).frame["computation"].item()
    assert busy == pytest.approx(computing * 1000, rel=0.01)


def test_waits_are_no_work_and_arrows_lead_to_operators(tmp_path: Path) -> None:
    def span(name: str, start: int, length: int, pid: int, tid: int, **more: Any) -> dict[str, Any]:
        return {
            "ph": "X",
            "name": name,
            "pid": pid,
            "tid": tid,
            "ts": f"{start}.500",
            "dur": length,
            "args": {},
            **more,
        }

    def arrow(number: int, at: int, to: int) -> list[dict[str, Any]]:
        both = {"name": "torch_to_npu", "cat": "async_npu", "id": number}
        return [
            {"ph": "s", "pid": 1, "tid": 1, "ts": f"{at}.500", **both},
            {"ph": "f", "bp": "e", "pid": 9, "tid": 3, "ts": f"{to}.500", **both},
        ]

    events = [
        {"ph": "M", "name": "process_name", "pid": 9, "tid": 0, "args": {"name": "Ascend Hardware"}},
        {"ph": "M", "name": "process_name", "pid": 7, "tid": 0, "args": {"name": "Overlap Analysis"}},
        span("aten::mm", 10, 20, 1, 1, cat="cpu_op"),
        span("MatMulV2", 40, 30, 9, 3),
        span("EVENT_WAIT", 70, 10, 9, 3),
        span("hcom_allReduce__1", 80, 5, 9, 3),
        span("Computing", 40, 30, 7, 0),
        *arrow(5, 15, 40),
        *arrow(6, 50, 80),
    ]
    file = tmp_path / "trace_view.json"
    file.write_text(json.dumps(events))
    rows = {row["name"]: row for row in kinetoscope.kernels(kinetoscope.read(file), group_by="launch").frame.to_dicts()}
    assert {name: (row["kind"], row["operator"], row["total"]) for name, row in rows.items()} == {
        "MatMulV2": ("computation", "aten::mm", 30_000),
        "hcom_allReduce__1": ("communication", None, 5000),
    }
