"""Snapshots read from pickles say what `pickle.load` would have said, and nothing is ever executed."""

from __future__ import annotations

import gzip
import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from kinetoscope.errors import InputError, NotATraceError
from kinetoscope.model.snapshot.snapshot import ACTIONS, NONE, STATES, Segments, Snapshot, SnapshotEvents
from kinetoscope.readers.snapshot import is_snapshot, load
from tests.conftest import SHARED, first_quick
from tests.snapshots.writing import content, written_by

SAMPLES = SHARED.parent / "samples" / "memory"


def blocks(content: bytes, size: int = 1 << 22) -> Iterator[bytes]:
    """Content in pieces."""
    return (content[place : place + size] for place in range(0, len(content), size))


def frames_of(snapshot: Snapshot, stack: int) -> list[dict[str, Any]]:
    """A stack as torch writes it."""
    rows = snapshot.stacks.of(stack).tolist()
    name, file, line = snapshot.frames.name, snapshot.frames.file, snapshot.frames.line
    text = snapshot.strings.text
    return [{"name": text(name[k]), "filename": text(file[k]), "line": int(line[k])} for k in rows]


def events_of(snapshot: Snapshot, events: SnapshotEvents) -> list[dict[str, Any]]:
    """Events as torch writes them, as far as they are kept."""
    text = snapshot.strings.text
    written = []
    for k in range(len(events)):
        action = ACTIONS[events.action[k]]
        event: dict[str, Any] = {"action": action, "device_free" if action == "oom" else "addr": int(events.address[k])}
        event |= {"size": int(events.size[k]), "stream": int(events.stream[k])}
        event |= {
            "time_us": _microseconds(int(events.time[k])),
            "frames": frames_of(snapshot, int(events.stack[k])),
        }
        for key, column in {
            "compile_context": events.compile_context, "user_metadata": events.metadata,
            "internal_metadata": events.internal,
        }.items():  # fmt: skip
            if column[k] != NONE:
                event[key] = text(int(column[k]))
        if events.pool[k] != NONE:
            event["pool_id"] = snapshot.pools[events.pool[k]]
        if events.forward_stack[k] != NONE:
            event["forward_frames"] = [text(c) for c in snapshot.text_stacks.of(int(events.forward_stack[k])).tolist()]
        written.append(event)
    return written


def _microseconds(time: int) -> int:
    return time // 1000 if time != NONE else NONE


def segments_of(snapshot: Snapshot, segments: Segments) -> list[dict[str, Any]]:
    """Segments as torch writes them."""
    blocks = snapshot.blocks
    return [
        {
            "device": int(segments.device[k]),
            "address": int(segments.address[k]),
            "total_size": int(segments.size[k]),
            "allocated_size": int(segments.allocated[k]),
            "active_size": int(segments.active[k]),
            "requested_size": int(segments.requested[k]),
            "stream": int(segments.stream[k]),
            "segment_type": "small" if segments.is_small[k] else "large",
            "segment_pool_id": snapshot.pools[segments.pool[k]],
            "is_expandable": bool(segments.is_expandable[k]),
            "frames": frames_of(snapshot, int(segments.stack[k])),
            "blocks": [
                {
                    "address": int(blocks.address[b]),
                    "size": int(blocks.size[b]),
                    "requested_size": int(blocks.requested[b]),
                    "state": STATES[blocks.state[b]],
                    "frames": frames_of(snapshot, int(blocks.stack[b])),
                }
                for b in range(segments.first_block[k], segments.first_block[k + 1])
            ],
        }
        for k in range(len(segments))
    ]


def annotations_of(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Annotations as torch writes them."""
    rows = snapshot.annotations
    columns = zip(rows.name.tolist(), rows.is_start.tolist(), rows.device.tolist(), rows.time.tolist(), strict=True)
    return [
        {"name": snapshot.strings.text(n), "stage": "START" if s else "END", "device": d, "time_us": t // 1000}
        for n, s, d, t in columns
    ]


def drawn() -> dict[str, Any]:
    """A snapshot with everything that may occur in one, of two devices."""
    here = [
        {"name": "forward", "filename": "C:\\jobs\\new\\train.py", "line": 7},
        {"name": 'say "hé"', "filename": "/é.py", "line": 0},
    ]
    there = [here[1], here[0]]
    base = 0x7F_FFFF_0000_0000
    event = {"stream": 0, "time_us": 1_700_000_000_000_001, "frames": here}
    blocks_of_first = [
        {"address": base, "size": 512, "requested_size": 4, "state": "active_allocated", "frames": there},
        {"address": base + 512, "size": 512, "requested_size": 400, "state": "active_pending_free", "frames": here},
        {"address": base + 1024, "size": 2096128, "requested_size": 0, "state": "inactive", "frames": []},
    ]
    segment = {
        "device": 0, "address": base, "total_size": 2 << 20, "allocated_size": 512, "active_size": 1024,
        "requested_size": 404, "stream": 0, "segment_type": "small", "segment_pool_id": (0, 0), "is_expandable": False,
        "frames": here, "blocks": blocks_of_first,
    }  # fmt: skip
    other = segment | {
        "device": 1, "address": (1 << 63) - 512, "stream": 0xDEAD_BEEF_0000, "segment_type": "large",
        "segment_pool_id": (0, 1), "is_expandable": True, "frames": [], "blocks": [],
    }  # fmt: skip
    first = [
        {"action": "alloc", "addr": base, "size": 4, **event, "compile_context": "0/1", "pool_id": (0, 1)},
        {"action": "alloc", "addr": base + 512, "size": 400, **event, "user_metadata": '{"step": 3}'},
        {"action": "free_requested", "addr": base + 512, "size": 400, **event, "forward_frames": ["a\n", "b"]},
        {"action": "oom", "device_free": 77, "size": 1 << 40, **event, "internal_metadata": "mallocWithAddress"},
        {"action": "snapshot", "addr": 0, "size": 0, **event},
    ]
    many = [{"action": "segment_map", "addr": base + k, "size": k, **event} for k in range(2500)]
    return {
        "segments": [segment, other],
        "device_traces": [first, many, []],
        "allocator_settings": {
            "PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "garbage_collection_threshold": 0.8,
            "expandable_segments": True, "roundup_power2_divisions": {"1": 0, "2": 4},
        },
        "external_annotations": [
            {"name": "Optimizer.step#AdamW.step", "stage": stage, "device": 0, "time_us": 1_700_000_000_000_001}
            for stage in ("START", "END")
        ],
    }  # fmt: skip


def same(snapshot: Snapshot, written: dict[str, Any]) -> None:
    """The columns say what was written."""
    for device, trace in enumerate(written["device_traces"]):
        assert events_of(snapshot, snapshot.events[device]) == trace
    assert segments_of(snapshot, snapshot.segments) == written["segments"]
    assert annotations_of(snapshot) == written["external_annotations"]
    assert snapshot.settings == written["allocator_settings"]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("size", [1 << 22, 97])
def test_all_that_was_written_is_read(protocol: int, size: int) -> None:
    content = pickle.dumps(drawn(), protocol)
    assert is_snapshot(content[:100])
    same(load("drawn", blocks(content, size)), drawn())


@pytest.mark.parametrize("size", [1 << 22, 97])
@pytest.mark.parametrize("layout", [{}, {"indent": 1}, {"ensure_ascii": False, "separators": (",", ":")}])
def test_json_says_the_same(layout: dict[str, Any], size: int) -> None:
    content = json.dumps(drawn(), **layout).encode()
    assert is_snapshot(content[:100])
    snapshot = load("drawn.json", blocks(content, size))
    same(snapshot, drawn())
    assert snapshot.settings["garbage_collection_threshold"] == 0.8


VERSIONS: list[tuple[int, int]] = [(2, 0), (2, 1), (2, 3), (2, 6), (2, 9), (2, 12), (2, 15)]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("form", ["pickle", "c++", "json"])
def test_every_version_of_torch_is_read(version: tuple[int, int], form: Literal["pickle", "c++", "json"]) -> None:
    full = drawn()
    full["device_traces"][1] = full["device_traces"][1][:3]
    full["host_traces"], full["host_segments"] = full["device_traces"][1], [full["segments"][1] | {"device": -1}]
    written = written_by(full, version, "c++" if form == "c++" else "python")
    snapshot = load("drawn", blocks(content(written, form)))
    # What it tells is what the newest version would have told, without what the old one did not know.
    assert snapshot.blocks.address.tolist() == [b["address"] for b in full["segments"][0]["blocks"]]
    assert snapshot.blocks.requested.tolist() == [4, 400, 0]
    assert [frames_of(snapshot, stack) for stack in snapshot.blocks.stack.tolist()] == [
        block["frames"] for block in full["segments"][0]["blocks"]
    ]
    for device, trace in enumerate(written["device_traces"]):
        kept = [{"time_us": -1, **event} for event in trace]
        assert events_of(snapshot, snapshot.events[device]) == kept
    assert snapshot.settings == written.get("allocator_settings", {})
    assert annotations_of(snapshot) == written.get("external_annotations", [])
    if version < (2, 1):
        assert snapshot.segments.pool.tolist() == [NONE, NONE]
    else:
        assert segments_of(snapshot, snapshot.segments) == full["segments"]
    if "host_traces" in written:
        assert snapshot.host_events is not None
        assert snapshot.host_segments is not None
        assert events_of(snapshot, snapshot.host_events) == written["host_traces"]
        assert snapshot.host_segments.device.tolist() == [-1]
    else:
        assert snapshot.host_events is None


def test_a_list_of_segments_is_a_snapshot_without_history() -> None:
    pickled = pickle.dumps(drawn()["segments"])
    assert is_snapshot(pickled)
    snapshot = load("pool", blocks(pickled))
    assert segments_of(snapshot, snapshot.segments) == drawn()["segments"]
    assert snapshot.events == ()


def test_other_files_are_no_snapshots() -> None:
    for other in (b"", b"\x80", b"\x80\x04}.", b'{"traceEvents": [', b"[[1, 2]]", b'[{"ph": "X"', pickle.dumps([1])):
        assert not is_snapshot(other)


def test_what_torch_writes_from_cpp() -> None:
    """`torch::cuda::_memory_snapshot_pickled()` of torch 2.15.0 on the runtime of tests/snapshots/real."""
    pickled = gzip.decompress((Path(__file__).parent / "data" / "cpp_2.15.0.pickle.gz").read_bytes())
    written = pickle.loads(pickled)
    assert pickled[1] == 2
    assert is_snapshot(pickled)
    assert len(written["device_traces"][0]) == 74
    for event in written["device_traces"][0]:
        event.setdefault("frames", [])
    same_but_texts(load("cpp", blocks(pickled)), written)


def test_json_that_is_cut_says_after_how_many_bytes() -> None:
    with pytest.raises(InputError, match=r"ends before the snapshot does, after (1,00|9[0-9])\d bytes"):
        load("cut", blocks(json.dumps(drawn()).encode()[:1003]))


class Calls:
    """Pickles as a call."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (print, ("executed",))


def test_what_would_be_called_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    content = pickle.dumps({"segments": [], "device_traces": [], "more": Calls()}, 4)
    with pytest.raises(NotATraceError, match="opcode STACK_GLOBAL"):
        load("hostile", blocks(content))
    assert capsys.readouterr().out == ""


def test_what_is_cut_is_refused_wherever_it_is_cut() -> None:
    content = pickle.dumps(drawn() | {"device_traces": []}, 4)
    for length in range(0, len(content), 7):
        with pytest.raises(InputError) as refused:
            load("cut", blocks(content[:length]))
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", first_quick(["medium_128_inference", "medium_128_training"]))
def test_real_snapshots_are_read_as_pickle_reads_them(name: str) -> None:
    path = SAMPLES / f"{name}.pickle"
    if not path.exists():
        pytest.skip("needs ../shared/samples/memory")
    content = path.read_bytes()
    same_but_texts(load(name, blocks(content)), pickle.loads(content))


def same_but_texts(snapshot: Snapshot, written: dict[str, Any]) -> None:
    """As `same`, where torch also writes texts that say that there is none, and what a free block held last."""
    for segment in written["segments"]:
        for block in segment["blocks"]:
            if block["state"] == "inactive":
                block["requested_size"] = 0
    for trace in written["device_traces"]:
        for event in trace:
            for key in ("compile_context", "user_metadata"):
                if event.get(key) in ("", "N/A"):
                    del event[key]
    same(snapshot, written)
