"""Snapshots of all versions of torch are read, whichever form they have."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import numpy as np
import pytest

from kinetoscope.model.snapshot.snapshot import ACTIONS, Snapshot
from kinetoscope.readers.snapshot import load
from tests.conftest import first_quick
from tests.snapshots.everything import everything
from tests.snapshots.process import Snapshot as Written
from tests.snapshots.writing import Version, content, written_by

VERSIONS: list[Version] = [(2, 15), (2, 0), (2, 1), (2, 2), (2, 4), (2, 6), (2, 8), (2, 10), (2, 12), (2, 14)]


def read(written: Written, form: Literal["pickle", "c++", "json"], protocol: int = 4) -> Snapshot:
    return load("snapshot", iter([content(written, form, protocol)]))


def columns(snapshot: Snapshot) -> dict[str, Any]:
    """All columns, with texts in place of codes."""
    answer: dict[str, Any] = {"settings": snapshot.settings}
    parts: dict[str, Any] = {
        "segments": snapshot.segments,
        "blocks": snapshot.blocks,
        "annotations": snapshot.annotations,
    }
    parts |= {f"events {device}": events for device, events in enumerate(snapshot.events)}
    if snapshot.host_segments is not None:
        parts |= {"host segments": snapshot.host_segments, "host events": snapshot.host_events}
    coded = {"name", "compile_context", "metadata", "internal"}
    for part, rows in parts.items():
        for field in dataclasses.fields(rows):
            column = getattr(rows, field.name)
            if field.name in coded:
                column = [snapshot.strings.text(code) if code >= 0 else None for code in column.tolist()]
            elif field.name == "stack":
                column = [stack_of(snapshot, stack) for stack in column.tolist()]
            elif field.name == "pool":
                column = [snapshot.pools[pool] if pool >= 0 else None for pool in column.tolist()]
            else:
                column = np.asarray(column).tolist()
            answer[f"{part}.{field.name}"] = column
    return answer


def stack_of(snapshot: Snapshot, stack: int) -> list[tuple[str, str, int]]:
    text, frames = snapshot.strings.text, snapshot.frames
    return [
        (text(int(frames.name[row])), text(int(frames.file[row])), int(frames.line[row]))
        for row in snapshot.stacks.of(stack).tolist()
    ]


@pytest.mark.parametrize("version", first_quick(VERSIONS))
def test_forms_of_a_version_say_the_same(version: Version) -> None:
    written = written_by(everything().snapshot(), version)
    expected = columns(read(written, "pickle"))
    for form, protocol in (("pickle", 2), ("pickle", 5), ("json", 0)):
        assert columns(read(written, form, protocol)) == expected  # type: ignore[arg-type] # literals
    by_cpp = written_by(everything().snapshot(), version, "c++")
    assert columns(read(by_cpp, "c++")) == columns(read(by_cpp, "pickle"))


@pytest.mark.parametrize("expandable", [False, True])
def test_events_are_those_that_were_written(expandable: bool) -> None:
    written = everything(expandable=expandable).snapshot()
    snapshot = read(written, "pickle")
    for events, trace in zip(snapshot.events, written["device_traces"], strict=True):
        assert [ACTIONS[code] for code in events.action.tolist()] == [event["action"] for event in trace]
        assert events.address.tolist() == [event.get("addr", event.get("device_free")) for event in trace]
        assert events.size.tolist() == [event["size"] for event in trace]
        assert (events.time // 1000).tolist() == [event["time_us"] for event in trace]
    actions = {event["action"] for trace in written["device_traces"] for event in trace}
    assert actions == set(ACTIONS) - (
        {"segment_alloc", "segment_free"} if expandable else {"segment_map", "segment_unmap"}
    )


def test_a_ring_that_ran_over() -> None:
    written = everything(max_entries=300).snapshot()
    assert len(read(written, "pickle").events[0]) == 300
