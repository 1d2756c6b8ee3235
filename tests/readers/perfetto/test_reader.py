"""Recordings of Perfetto: slices, stages of GPUs, counters, what is interned, and whatever clock they were taken by."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any

import pytest

import kinetoscope
from kinetoscope.errors import BrokenTraceError
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.trace.counters import counters
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.trace import Trace
from tests.readers.perfetto.damage import damaged
from tests.readers.perfetto.encoding import THREAD, begin, end, recording


def read(folder: Path, *packets: dict[str, Any]) -> Trace:
    file = folder / "trace.pftrace"
    file.write_bytes(gzip.compress(recording(*THREAD, *packets)))
    return kinetoscope.read(file).trace()


def spans(trace: Trace) -> list[tuple[str, int, int]]:
    rows = [row for row in range(len(trace)) if chr(trace.ph[row]) == "X"]
    named = [trace.strings.label(int(trace.name[row])) for row in rows]
    return sorted(zip(named, trace.start[rows].tolist(), trace.end[rows].tolist(), strict=True))


def test_slices_have_their_kinds_and_arguments(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        begin(
            10, "aten::mm", category="cpu_op", External_id=7, Input_Dims=[[2, 3], [3, 4]], Concrete_Inputs={"a": 1.5}
        ),
        begin(12, "cudaLaunchKernel", category="cuda_runtime", correlation=5),
        end(15),
        end(20),
        begin(30, "mine", ok=True),
        end(40),
    )
    assert spans(trace) == [("aten::mm", 10, 20), ("cudaLaunchKernel", 12, 15), ("mine", 30, 40)]
    [op], [call], [mine] = (trace.rows(kind) for kind in (EventKind.HOST_OP, EventKind.RUNTIME, EventKind.ANNOTATION))
    assert trace.event(op)["args"] == {"External id": 7, "Input Dims": [[2, 3], [3, 4]], "Concrete Inputs": {"a": 1.5}}
    assert trace.event(call)["args"] == {"correlation": 5}
    assert trace.event(mine)["args"] == {"ok": True}
    assert (trace.event(op)["pid"], trace.event(op)["tid"]) == (900, 901)


STAGES: dict[str, Any] = {
    "trusted_packet_sequence_id": 1,
    "sequence_flags": 1,
    "interned_data": {
        "event_names": [{"iid": 1, "name": "gemm<float>"}],
        "gpu_specifications": [
            {"iid": 1, "name": "Kernel"},
            {"iid": 2, "name": "Memcpy"},
            {"iid": 9, "name": "[0007] stream 7"},
        ],
        "compute_kernels": [{"iid": 1, "demangled_name": "gemm<float>"}],
        "compute_arg_names": [{"iid": 1, "name": "registers_per_thread"}],
        "gpu_counter_descriptors": [
            {"iid": 1, "gpu_id": 3, "counter_descriptor": {"specs": [{"counter_id": 4, "name": "Power (W)"}]}}
        ],
    },
}


def stage(time: int, duration: int, number: int, which: int = 1, **more: Any) -> dict[str, Any]:
    event = {"event_id": number, "duration": duration, "gpu_id": 3, "hw_queue_iid": 9, "stage_iid": which, **more}
    return {"timestamp": time, "trusted_packet_sequence_id": 1, "sequence_flags": 2, "gpu_render_stage_event": event}


def test_stages_are_device_work_that_calls_launched(tmp_path: Path) -> None:
    launch = begin(12, "cudaLaunchKernel", category="cuda_runtime", correlation=5)
    graph = begin(40, "cudaGraphLaunch", category="cuda_runtime")
    graph["track_event"]["gpu_correlation"] = {"render_stage_submission_event_ids": [102, 103]}
    config = {"grid_size": {"x": 4, "y": 1, "z": 1}, "workgroup_size": {"x": 256, "y": 1, "z": 1}}
    extra = [{"name": "correlation", "value": "5"}, {"name": "context id", "value": "1"}]
    trace = read(
        tmp_path,
        STAGES,
        launch,
        end(15),
        graph,
        end(45),
        stage(20, 10, 101, name_iid=1, kernel_iid=1, extra_data=extra, launch=config),
        stage(50, 5, 102, kernel_iid=1),
        stage(60, 5, 103, 2, extra_data=[{"name": "bytes", "value": "64"}]),
        {
            "timestamp": 21,
            "trusted_packet_sequence_id": 1,
            "gpu_counter_event": {"counter_descriptor_iid": 1, "counters": [{"counter_id": 4, "double_value": 250.5}]},
        },
    )
    work = device_work(trace)
    assert (work.duration.tolist(), work.device.tolist(), work.stream.tolist()) == ([10, 5, 5], [3] * 3, [7] * 3)
    launches = [trace.strings.label(int(trace.name[row])) for row in work.launch.tolist()]
    assert launches == ["cudaLaunchKernel", "cudaGraphLaunch", "cudaGraphLaunch"]
    kernel, other, copy = work.rows.tolist()
    assert trace.event(kernel)["args"]["grid"] == [4, 1, 1]
    assert (trace.event(kernel)["name"], trace.event(other)["name"]) == ("gemm<float>", "gemm<float>")
    assert (trace.kind[copy], trace.event(copy)["args"]["bytes"]) == (EventKind.MEMCPY, 64)
    assert counters(trace).value.tolist() == [250.5]
    assert trace.event(int(counters(trace).rows[0]))["pid"] == "GPU 3 Counters"


def test_ids_mean_what_their_stretch_says(tmp_path: Path) -> None:
    def named(sequence: int, flags: int, time: int, **more: Any) -> dict[str, Any]:
        event = {"type": 1, "track_uuid": 2, "name_iid": 1}
        return {
            "trusted_packet_sequence_id": sequence,
            "sequence_flags": flags,
            "timestamp": time,
            "track_event": event,
        } | more

    def names(text: str) -> dict[str, Any]:
        return {"interned_data": {"event_names": [{"iid": 1, "name": text}]}}

    trace = read(
        tmp_path,
        named(1, 1, 10, **names("first")),
        end(11),
        named(2, 1, 12, **names("other sequence")),
        end(13),
        named(1, 2, 14),
        end(15),
        named(1, 1, 16, **names("after the clear")),
        end(17),
        named(2, 2, 18),
        end(19),
    )
    expected = [("after the clear", 16), ("first", 10), ("first", 14), ("other sequence", 12), ("other sequence", 18)]
    assert [(name, start) for name, start, _ in spans(trace)] == expected


def test_times_are_of_one_clock(tmp_path: Path) -> None:
    def clocks(*pairs: tuple[int, int], **more: int) -> dict[str, Any]:
        read_at = [{"clock_id": clock, "timestamp": time} for clock, time in pairs]
        read_at[-1] |= more
        return {"trusted_packet_sequence_id": 1, "clock_snapshot": {"clocks": read_at}}

    def ended(name: str, first: int, last: int, **more: Any) -> list[dict[str, Any]]:
        return [begin(first, name) | more, end(last) | more]

    own = {"trusted_packet_sequence_id": 1, "trace_packet_defaults": {"timestamp_clock_id": 64}}
    trace = read(
        tmp_path,
        clocks((6, 1_000_000), (1, 5_000_000), (3, 400_000), (64, 100), is_incremental=1, unit_multiplier_ns=1000),
        *ended("boot", 1_000_500, 1_000_600),
        *ended("monotonic", 401_000, 401_100, timestamp_clock_id=3),
        own,
        *ended("own", 2, 3),  # µs since the packet before
    )
    assert spans(trace) == [("boot", 500, 600), ("monotonic", 1000, 1100), ("own", 2000, 5000)]
    assert trace.metadata["baseTimeNanoseconds"] == 5_000_000


def test_ends_are_joined_with_their_beginnings(tmp_path: Path) -> None:
    blocks = [
        begin(5, "late"),
        end(6),
        begin(0, "a"),
        begin(10, "b"),
        begin(10, "b's child"),
        end(10),
        end(20),
        end(15),
    ]
    assert spans(read(tmp_path, *blocks)) == [("a", 0, 10), ("b", 10, 20), ("b's child", 10, 15), ("late", 5, 6)]
    nested = [end(1), begin(2, "outer"), begin(3, "inner"), end(4), end(9), begin(10, "open"), begin(12, "x"), end(13)]
    trace = read(tmp_path, *nested)
    assert spans(trace) == [("inner", 3, 4), ("open", 10, 13), ("outer", 2, 9), ("x", 12, 13)]
    assert {"OPEN_SPANS", "SPANS_WITHOUT_BEGIN"} <= {note.code for note in trace.health}


def test_older_events_and_packed_packets_are_read(tmp_path: Path) -> None:
    whole = {"phase": ord("X"), "duration_us": 3}
    event = {"track_uuid": 2, "name": "whole", "legacy_event": whole}
    counter = {"uuid": 5, "parent_uuid": 1, "name": "memory", "counter": {"unit_name": "KB", "unit_multiplier": 1024}}
    value = {"type": 4, "track_uuid": 5, "counter_value": 3}
    inner = recording({"timestamp": 7, "track_event": value}, {"timestamp": 100, "track_event": event})
    trace = read(tmp_path, {"track_descriptor": counter}, {"compressed_packets": zlib.compress(inner)})
    assert spans(trace) == [("whole", 100, 3100)]
    [sample] = trace.rows(EventKind.COUNTER).tolist()
    assert (trace.event(sample)["name"], trace.event(sample)["args"]) == ("memory", {"KB": 3072})


def test_the_encoder_writes_what_perfettos_own_does() -> None:
    protos = pytest.importorskip(
        "perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="perfetto is not installed"
    )
    packets: list[dict[str, Any]] = [
        *THREAD,
        STAGES,
        stage(5, 6, 7, launch={"grid_size": {"x": 1}}),
        begin(1, "a", b=1.5, c=[1, {"d": "e"}]),
    ]
    assert protos.Trace.FromString(recording(*packets)).ByteSize() == len(recording(*packets))
    [slice_] = [
        each.track_event for each in protos.Trace.FromString(recording(*packets)).packet if each.HasField("track_event")
    ]
    assert slice_.debug_annotations[1].array_values[1].dict_entries[0].string_value == "e"


def test_what_is_cut_is_kept_and_what_holds_nothing_is_refused(tmp_path: Path) -> None:
    whole = recording(*THREAD, begin(1, "first"), end(5), begin(6, "second"), end(9))
    file = tmp_path / "cut.pftrace"
    file.write_bytes(whole[:-4])
    trace = kinetoscope.read(file).trace()
    assert spans(trace)[0] == ("first", 1, 5)
    assert trace.health["STREAM"].severity == "error"
    file.write_bytes(recording(*THREAD))
    with pytest.raises(BrokenTraceError, match="without track events"):
        kinetoscope.read(file).trace()


def test_damaged_recordings_are_read_or_refused() -> None:
    assert damaged(300, 1) == 300


@pytest.mark.slow
def test_many_damaged_recordings_are_read_or_refused() -> None:
    assert damaged(4_000, 2) == 4_000
