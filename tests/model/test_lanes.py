"""Names of processes, threads and streams."""

from __future__ import annotations

import json
from pathlib import Path

import kinetoscope
from kinetoscope.model.devices import devices
from kinetoscope.model.lanes import lanes


def _trace(tmp_path: Path, events: list[dict[str, object]], **top: object) -> kinetoscope.Trace:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({**top, "traceEvents": events}))
    return kinetoscope.read(path).trace()


def _event(pid: object, tid: object, cat: str = "cpu_op") -> dict[str, object]:
    return {"ph": "X", "cat": cat, "name": "work", "pid": pid, "tid": tid, "ts": 1, "dur": 1}


def _meta(what: str, pid: object, tid: object, **args: object) -> dict[str, object]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "ts": 0, "args": args}


def test_names_labels_and_order_come_from_the_metadata_events(tmp_path: Path) -> None:
    events = [
        _event(10, 11),
        _event(0, 7, "kernel"),
        _meta("process_name", 10, 0, name="python"),
        _meta("process_labels", 0, 0, labels="GPU 0"),
        _meta("process_name", 0, 0, name="python"),
        _meta("process_sort_index", 0, 0, sort_index=5),
        _meta("thread_name", 10, 11, name="thread 11 (main)"),
        _meta("thread_name", 0, 7, name="stream 7 "),
        _meta("thread_sort_index", 0, 7, sort_index=3),
    ]
    host, stream, *_ = _trace(tmp_path, events).of(lanes)
    assert (host.process, host.name, host.is_device) == ("python", "thread 11 (main)", False)
    assert (stream.process, stream.name, stream.is_device, stream.sort) == ("GPU 0", "stream 7", True, (5, 3))


def test_of_two_names_of_a_thread_the_last_one_counts(tmp_path: Path) -> None:
    names = ("python", "pt_gloo_runloop")
    events = [_event(1, 2), *(_meta("thread_name", 1, 2, name=name) for name in names)]
    assert _trace(tmp_path, events).of(lanes)[0].name == "pt_gloo_runloop"


def test_lanes_without_names_are_called_by_their_numbers(tmp_path: Path) -> None:
    found = _trace(tmp_path, [_event(1, 2), _event(0, 7, "kernel"), _event(0, "stream 9", "Kernel")]).of(lanes)
    assert [lane.name for lane in found] == ["thread 2", "stream 7", "stream 9"]
    assert [lane.process for lane in found] == ["process 1", "device 0", "device 0"]


def test_metadata_events_may_hold_anything(tmp_path: Path) -> None:
    events: list[dict[str, object]] = [
        _event(1, 2),
        {"ph": "M", "name": 5, "pid": [1], "tid": {}, "args": 3},
        {"ph": "M"},
    ]
    assert _trace(tmp_path, events).of(lanes)[0].name == "thread 2"


def test_devices_are_read_as_far_as_they_are_described(tmp_path: Path) -> None:
    properties = [
        {"id": 3, "name": "A", "totalGlobalMem": 1 << 34, "numSms": 108, "computeMajor": 8, "computeMinor": 6},
        {"name": "B"},
        "nonsense",
    ]
    first, second = _trace(tmp_path, [_event(1, 2)], deviceProperties=properties).of(devices)
    assert (first.number, first.memory, first.multiprocessors, first.capability) == (3, 1 << 34, 108, (8, 6))
    assert (second.number, second.memory, second.capability) == (1, None, None)
    assert not _trace(tmp_path, [_event(1, 2)], deviceProperties=7).of(devices)
