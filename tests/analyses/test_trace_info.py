from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kinetoscope import Selection, read, trace_info
from tests import drawn
from tests.catalog.samples import BUNDLED

A100 = {
    "id": 0,
    "name": "A100",
    "totalGlobalMem": 42_297_524_224,
    "numSms": 108,
    "computeMajor": 8,
    "computeMinor": 0,
}


def facts(folder: Path, *events: drawn.Event, steps_by: str | None = None, **top: Any) -> dict[str, dict[str, str]]:
    """What is told, by topic and item."""
    result = trace_info(drawn.job(folder, *events, **top), select=Selection(steps_by=steps_by))
    told: dict[str, dict[str, str]] = {}
    for _, topic, item, value in result.frame.iter_rows():
        assert item not in told.setdefault(topic, {})
        told[topic][item] = value
    return told


def test_the_file(tmp_path: Path) -> None:
    told = facts(tmp_path, drawn.op("aten::mm", 0, 5), drawn.op("aten::mm", 10, 5))["file"]
    size = (tmp_path / "drawn.pt.trace.json").stat().st_size
    assert (told["name"], told["text"], told["events"]) == ("drawn.pt.trace.json", f"{size} bytes", "2")


def test_what_the_file_states_about_the_run(tmp_path: Path) -> None:
    distributed = {"rank": 3, "world_size": 8, "backend": "nccl", "pg_config": []}
    told = facts(tmp_path, host_name="host", cuda_runtime_version=12080, distributedInfo=distributed)
    assert told["run"] == {
        "program": "unknown",
        "host_name": "host",
        "cuda_runtime_version": "12080",
        "rank": "3",
        "world_size": "8",
        "backend": "nccl",
    }


def test_options_are_on_or_not_stated(tmp_path: Path) -> None:
    told = facts(tmp_path, record_shapes=1, with_stack=0)["options"]
    assert told.pop("record_shapes") == "on"
    assert set(told.values()) == {"not stated"}


def test_devices_say_what_they_are_and_whether_they_worked(tmp_path: Path) -> None:
    other = {"id": 1, "name": "A100", "totalGlobalMem": None}
    listed = facts(tmp_path, drawn.kernel("gemm", 0, 5, 1), deviceProperties=[A100, other, "odd"])
    assert listed["peaks"]["0"].startswith("Peaks are the dense ones of A100 40 GB: NVIDIA A100 datasheet, https://")
    assert listed["device"] == {"0": "A100, 42297524224 bytes, 108 SMs, compute capability 8.0, used", "1": "A100"}


def test_times_since_1970_are_dates_and_others_are_not_told(tmp_path: Path) -> None:
    events = [drawn.op("aten::mm", 1000, 500), drawn.op("aten::mm", 3000, 500)]
    told = facts(tmp_path, *events, baseTimeNanoseconds=1_767_189_312_000_000_000)["time"]
    assert (told["start"], told["window"]) == ("2025-12-31T13:55:12.000+00:00", "2500 ns")
    assert "start" not in facts(tmp_path, *events)["time"]


def test_steps_say_where_they_come_from(tmp_path: Path) -> None:
    marked = [drawn.annotation(f"ProfilerStep#{number}", 10 * number, 5) for number in (3, 4, 7)]
    mine = [drawn.annotation("train", 10 * number, 3) for number in (3, 4)]
    assert facts(tmp_path, *marked)["time"]["steps"] == "3 (3-4, 7), marked by the profiler"
    assert facts(tmp_path, *marked, *mine, steps_by="train")["time"]["steps"] == "2, marked by an annotation"
    assert facts(tmp_path, drawn.op("aten::mm", 0, 5))["time"]["steps"] == "1, none marked: the whole window"


def test_events_are_counted_by_what_they_are(tmp_path: Path) -> None:
    told = facts(
        tmp_path,
        *[drawn.op("aten::mm", 0, 5)] * 3,
        drawn.op("aten::mm", 0, 5, tid=2),
        drawn.annotation("forward", 0, 5),
        drawn.launch(1, 1, 1),
        drawn.python("main", 0, 9),
        drawn.memory(3, 64),
        drawn.kernel("gemm", 10, 5, 1),
        drawn.kernel("ncclDevKernel", 10, 5, 2, stream=8),
        drawn.kernel("Memcpy", 10, 5, 3, device=1, category="gpu_memcpy"),
        drawn.kernel("Stream Wait Event", 10, 5, 4, stream=99, category="cuda_sync"),
    )["events"]
    assert told == {
        "operators": "4",
        "annotations": "1",
        "Python calls": "1",
        "runtime and driver calls": "1",
        "memory events": "1",
        "waits on streams": "1",
        "computation on devices": "1",
        "communication on devices": "1",
        "memcpy on devices": "1",
        "streams used": "3",
        "host threads": "2",
    }


def test_health_stands_at_the_end_worst_first() -> None:
    frame = trace_info(read(BUNDLED / "name_quote.pt.trace.json.gz", jobs=1)).frame
    health = [(item, value) for _, topic, item, value in frame.rows() if topic == "health"]
    assert frame.rows()[-len(health) :] == [(0, "health", item, value) for item, value in health]
    assert health[0][0] == "warning REPAIRED"
    severities = [item.partition(" ")[0] for item, _ in health]
    assert severities == sorted(severities, key=["error", "warning", "note"].index)


def test_an_empty_trace_has_no_time(tmp_path: Path) -> None:
    told = facts(tmp_path)
    assert told["file"]["events"] == "0"
    assert set(told.get("time", {})) <= {"steps"}


def test_a_name_that_is_no_text_is_told_as_well_as_can_be(tmp_path: Path) -> None:
    try:
        file = drawn.written(tmp_path / "caf\udce9.json", drawn.op("aten::mm", 0, 5))
    except (UnicodeEncodeError, OSError):
        pytest.skip("no such name on this file system")
    frame = trace_info(read(file, jobs=1)).frame
    assert "?" in frame.filter(item="name")["value"][0]


def test_metadata_that_is_no_text_is_told_as_well_as_can_be(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"host_name": "h\\ud800st", "distributedInfo": {"backend": ["a", "\\ud800"]}, "traceEvents": []}')
    frame = trace_info(read(file, jobs=1)).frame
    assert frame.filter(item="host_name")["value"].to_list() == ["h?st"]
    assert len(frame.filter(item="backend")) == 1


def test_a_device_among_others_that_are_alike_is_named_though_rocm_numbers_it_otherwise(tmp_path: Path) -> None:
    known = {"name": "", "totalGlobalMem": 206141652992, "computeMajor": 9, "computeMinor": 4, "numSms": 304}
    eight = [{"id": number, **known} for number in range(8)]
    work = drawn.kernel("gemm", 0, 10, 1, device=2)
    info = trace_info(drawn.job(tmp_path, work, deviceProperties=eight, roctracer_version=4.1)).frame
    assert info.filter(topic="used device").select("item", "value").rows() == [("2", "MI300X")]
