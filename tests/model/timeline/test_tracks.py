"""Names of processes, threads and streams."""

from __future__ import annotations

import json
from pathlib import Path

import kinetoscope
from kinetoscope.model.device.hardware import devices
from kinetoscope.model.timeline.layout import timeline
from kinetoscope.model.timeline.tracks import metadata_rows, track_names


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
    host, stream, *_ = track_names(_trace(tmp_path, events))
    assert (host.process, host.name, host.is_device) == ("python", "thread 11 (main)", False)
    assert (stream.process, stream.name, stream.is_device, stream.sort) == ("GPU 0", "stream 7", True, (5, 3))


def test_of_two_names_of_a_thread_the_last_one_counts(tmp_path: Path) -> None:
    names = ("python", "pt_gloo_runloop")
    events = [_event(1, 2), *(_meta("thread_name", 1, 2, name=name) for name in names)]
    assert track_names(_trace(tmp_path, events))[0].name == "pt_gloo_runloop"


def test_lanes_without_names_are_called_by_their_numbers(tmp_path: Path) -> None:
    found = track_names(_trace(tmp_path, [_event(1, 2), _event(0, 7, "kernel"), _event(0, "stream 9", "Kernel")]))
    assert [lane.name for lane in found] == ["thread 2", "stream 7", "stream 9"]
    assert [lane.process for lane in found] == ["process 1", "GPU 0", "GPU 0"]


def test_metadata_events_may_hold_anything(tmp_path: Path) -> None:
    events: list[dict[str, object]] = [
        _event(1, 2),
        {"ph": "M", "name": 5, "pid": [1], "tid": {}, "args": 3},
        {"ph": "M"},
    ]
    assert track_names(_trace(tmp_path, events))[0].name == "thread 2"


def test_devices_are_read_as_far_as_they_are_described(tmp_path: Path) -> None:
    properties = [
        {"id": 3, "name": "A", "totalGlobalMem": 1 << 34, "numSms": 108, "computeMajor": 8, "computeMinor": 6},
        {"name": "B"},
        "nonsense",
    ]
    first, second = devices(_trace(tmp_path, [_event(1, 2)], deviceProperties=properties))
    assert (first.number, first.memory, first.multiprocessors, first.capability) == (3, 1 << 34, 108, (8, 6))
    assert (second.number, second.memory, second.capability) == (1, None, None)
    assert not devices(_trace(tmp_path, [_event(1, 2)], deviceProperties=7))


def test_a_name_written_again_with_every_event_is_looked_at_once(tmp_path: Path) -> None:
    named = [_meta("thread_name", 1, tid, name=f"worker {tid}") for _ in range(1000) for tid in (2, 3)]
    trace = _trace(tmp_path, [*named, _event(1, 2), _event(1, 3), _meta("thread_name", 1, 3, name="last")])
    assert metadata_rows(trace).tolist() == [1998, 2002]
    assert [lane.name for lane in track_names(trace)] == ["worker 2", "last"]


def test_a_name_and_a_place_for_one_thread_in_events_of_one_kind(tmp_path: Path) -> None:
    events = [_event(1, 2), _meta("thread_name", 1, 2, name="a"), _meta("thread_name", 1, 2, sort_index=3)]
    assert track_names(_trace(tmp_path, events))[0].name == "a"


def test_python_calls_with_the_number_of_a_device_are_the_hosts(tmp_path: Path) -> None:
    events = [
        _meta("process_name", 0, 0, name="python3"),
        _meta("process_labels", 0, 0, labels="GPU 0"),
        _meta("process_name", 10, 0, name="python3"),
        _meta("thread_name", 0, 0, name="thread 0 (python3)"),
        _event(10, 11) | {"dur": 5},
        _event(0, 7, "kernel"),
        _event(0, 0, "python_function"),
    ]
    trace = _trace(tmp_path, events)
    assert [lane.name for lane in track_names(trace) if lane.is_device] == ["stream 7"]
    found = [(lane.group.kind, lane.group.title, lane.title) for lane in timeline(trace).lanes]
    assert ("host", "python3", "thread 0 (python3)") in found
    assert [title for kind, _, title in found if kind == "device"] == ["stream 7"]
    assert len({lane.group.id for lane in timeline(trace).lanes if lane.group.kind == "host"}) == 1
