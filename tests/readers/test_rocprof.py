"""Results of rocprofv3 as JSON: each dispatch is there with its times, and what is damaged is refused in one line."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

import kinetoscope
from kinetoscope.errors import InputError
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.trace import Trace
from tests.catalog.samples import SHARED
from tests.conftest import first_quick

SAMPLE = SHARED.parent / "samples" / "rocprof" / "908_results.json.gz"


def record(start: int, end: int, correlation: int, **more: Any) -> dict[str, Any]:
    times = {"start_timestamp": start, "end_timestamp": end}
    return {"thread_id": 12, "correlation_id": {"internal": correlation, "external": 0}, **times, **more}


def dispatch(start: int, end: int, correlation: int, *, kernel: int = 1) -> dict[str, Any]:
    info = {
        "agent_id": {"handle": 90},
        "queue_id": {"handle": 3},
        "kernel_id": kernel,
        "group_segment_size": 64,
        "workgroup_size": {"x": 256, "y": 1, "z": 1},
        "grid_size": {"x": 1000, "y": 2, "z": 1},
    }
    return record(start, end, correlation, dispatch_info=info, stream_id={"handle": 0})


def results(**records: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "rocprofiler-sdk-tool": [
            {
                "metadata": {"pid": 900},
                "agents": [
                    {"id": {"handle": 80}, "type": 1, "product_name": "EPYC"},
                    {"id": {"handle": 90}, "type": 2, "product_name": "AMD Instinct MI300X", "cu_count": 304},
                ],
                "kernel_symbols": [{"kernel_id": 1, "formatted_kernel_name": "gemm(float*)"}],
                "strings": {
                    "buffer_records": [
                        {"kind": "NONE", "operations": []},
                        {"kind": "HIP", "operations": ["hipInit", "hipLaunchKernel"]},
                    ],
                    "marker_api": [{"key": 40, "value": "aten::mm, op_id = 3"}],
                },
                "buffer_records": records,
            }
        ]
    }


def names(trace: Trace, kind: EventKind) -> list[str]:
    return [trace.strings.label(code) for code in trace.name[trace.rows(kind)].tolist()]


def test_records_of_a_process(tmp_path: Path) -> None:
    copy = record(
        270, 290, 33, bytes=4096, src_agent_id={"handle": 80}, dst_agent_id={"handle": 90}, stream_id={"handle": 5}
    )
    said = results(
        kernel_dispatch=[dispatch(150, 260, 31), record(1, 2, 9), dispatch(5, "x", 9)],  # type: ignore[arg-type]
        hip_api=[record(100, 130, 31, kind=1, operation=1)],
        marker_api=[record(90, 140, 40, kind=0, operation=0)],
        memory_copy=[copy],
        memory_allocation=[record(1, 2, 3)],
    )
    file = tmp_path / "900_results.json"
    file.write_text(json.dumps(said))
    trace = kinetoscope.read(tmp_path).trace()
    work = device_work(trace)
    assert (work.duration.tolist(), work.stream.tolist(), work.device.tolist()) == ([110, 20], [3, 5], [0, 0])
    assert names(trace, EventKind.MEMCPY) == ["Memcpy HtoD (Host -> Device)"]
    assert (names(trace, EventKind.RUNTIME), names(trace, EventKind.HOST_OP)) == (["hipLaunchKernel"], ["aten::mm"])
    assert trace.strings.label(int(trace.name[work.op[0]])) == "aten::mm"
    assert trace.event(int(work.rows[0]))["args"]["grid"] == [4, 2, 1]
    assert str(trace.health["RECORDS_LEFT_OUT"]).startswith("2 records have")
    assert "memory_allocation (1)" in str(trace.health["KINDS_NOT_READ"])


def counted(start: int, end: int, number: int, *values: tuple[int, float]) -> dict[str, Any]:
    """A dispatch whose counters were read."""
    data = dispatch(start, end, number)
    data["dispatch_info"] = {**data["dispatch_info"], "dispatch_id": number}
    return {"dispatch_data": data, "records": [{"counter_id": {"handle": key}, "value": one} for key, one in values]}


@pytest.mark.parametrize("has_kernels", [True, False], ids=["beside kernels", "counters alone"])
def test_counters_of_kernels(tmp_path: Path, has_kernels: bool) -> None:
    collected = [
        counted(150, 260, 1, (7, 64.0), (8, 10.0), (8, 30.0)),  # one of them is of two units
        counted(300, 350, 2, (7, 32.0)),
        counted(400, 450, 3, (7, float("nan")), (99, 1.0)),
        counted(500, 1 << 63, 4, (7, 1.0)),  # no time
    ]
    document = results(kernel_dispatch=[each["dispatch_data"] for each in collected] if has_kernels else [])
    [process] = document["rocprofiler-sdk-tool"]
    process["counters"] = [{"id": {"handle": 7}, "name": "SQ_WAVES"}, {"id": {"handle": 8}, "name": "GRBM_COUNT"}]
    process["callback_records"] = {"counter_collection": collected}
    (tmp_path / "900_results.json").write_text(json.dumps(document))
    trace = kinetoscope.read(tmp_path).trace()
    assert device_work(trace).duration.tolist() == [110, 50, 50]
    rows = trace.rows(EventKind.COUNTER_RANGE).tolist()
    found = [(trace.start[row], trace.end[row], trace.event(row)["args"]) for row in rows]
    assert [(end - start, values) for start, end, values in found] == [
        (110, {"SQ_WAVES": 64, "GRBM_COUNT": 40}), (50, {"SQ_WAVES": 32}),
    ]  # fmt: skip
    assert names(trace, EventKind.COUNTER_RANGE) == ["gemm(float*)"] * 2
    said = "2 records have" if has_kernels else "1 record has"  # the dispatch without times, and its counters
    assert str(trace.health["RECORDS_LEFT_OUT"]).startswith(said)


@pytest.mark.parametrize("seed", first_quick(range(30)))
def test_damaged_files_are_read_or_refused_in_one_line(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    text = bytearray(json.dumps(results(kernel_dispatch=[dispatch(n, n + 5, n) for n in range(20)])).encode())
    for _ in range(rng.randint(1, 12)):
        text[rng.randrange(30, len(text))] = rng.choice(b'0-9{}[]",:anx')
    file = tmp_path / "1_results.json"
    file.write_bytes(bytes(text))
    try:
        said = str(kinetoscope.read(file).trace().health.symptoms)
    except InputError as error:
        said = str(error)
    assert "\n" not in said


@pytest.mark.skipif(not SAMPLE.exists(), reason=f"no {SAMPLE}")
def test_each_dispatch_of_a_real_run_is_there() -> None:
    [process] = json.loads(gzip.decompress(SAMPLE.read_bytes()))["rocprofiler-sdk-tool"]
    dispatches = process["buffer_records"]["kernel_dispatch"]
    trace = kinetoscope.read(SAMPLE).trace()
    rows = trace.rows(EventKind.KERNEL)
    there = sorted(zip((trace.start[rows] + trace.base).tolist(), (trace.end[rows] + trace.base).tolist(), strict=True))
    assert there == sorted((each["start_timestamp"], each["end_timestamp"]) for each in dispatches)
    assert all(names(trace, EventKind.KERNEL))
