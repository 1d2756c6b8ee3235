"""A trace for Perfetto: the events of the original, and nothing that Perfetto would drop."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinetoscope import Trace, read
from kinetoscope.views.exports import perfetto, perfetto_lanes
from kinetoscope.views.exports.perfetto import CounterSeries, Marked, PerfettoAdditions
from tests.catalog.samples import SHARED, bundled, required
from tests.drawn import Event, annotation, job, kernel, launch, op

STREAM: dict[str, Any] = {"ph": "M", "name": "thread_name", "pid": 0, "tid": 7, "args": {"name": "stream 7 "}}
PLACE: dict[str, Any] = {"ph": "M", "name": "thread_sort_index", "pid": 0, "tid": 7, "args": {"sort_index": 40}}


def written(trace: Trace, folder: Path, **more: Any) -> tuple[list[Any], PerfettoAdditions]:
    """The events of the file, and what was said about it."""
    said = perfetto.write(trace, folder / "out.json.gz", **more)
    document = json.loads(gzip.decompress((folder / "out.json.gz").read_bytes()))
    return document if isinstance(document, list) else document["traceEvents"], said


def flow(phase: str, time: int, pid: int, tid: int, number: int = 1) -> Event:
    place = {"ph": phase, "id": number, "pid": pid, "tid": tid, "ts": time / 1000, "cat": "ac2g", "name": "ac2g"}
    return place | ({"bp": "e"} if phase == "f" else {})


def nanoseconds(time: Any) -> int:
    """A time as Perfetto reads it: numbers with decimals as a double, texts exactly."""
    return round(Decimal(time) * 1000) if isinstance(time, str) else round(time * 1000)


def dropped(events: list[Any]) -> int:
    """How many spans Perfetto drops: those that begin in an open span of their lane and end after it."""
    by_lane = defaultdict(list)
    for event in events:
        if isinstance(event, dict) and event.get("ph") == "X" and isinstance(event.get("ts"), int | float | str):
            start, duration = (nanoseconds(event.get(key, 0)) for key in ("ts", "dur"))
            by_lane[repr((event.get("pid"), event.get("tid")))].append((start, start + duration))
    count = 0
    for spans in by_lane.values():
        ends: list[int] = []
        for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            while ends and ends[-1] <= start:
                ends.pop()
            if ends and end > ends[-1]:
                count += 1
            else:
                ends.append(end)
    return count


def test_kernels_that_overlap_get_a_lane_beside_their_stream(tmp_path: Path) -> None:
    trace = job(
        tmp_path,
        *(STREAM, PLACE),
        *(launch(0, 1, 1), launch(1, 1, 2), flow("s", 0, 1, 1, 1), flow("s", 1, 1, 1, 2)),
        kernel("first", 10, 100, 1),
        kernel("second", 90, 100, 2),  # launched programmatically, it begins before the other ends
        *(flow("f", 10, 0, 7, 1), flow("f", 90, 0, 7, 2)),
    ).trace()
    events, said = written(trace, tmp_path)
    assert said == PerfettoAdditions(counters=0, moved=1, overlapping=0, renumbered=0, marked=0, arrows=0)
    second, arrow = events[7], events[9]
    lane = second["tid"]
    assert (second["args"]["original tid"], arrow["tid"], arrow["id"]) == (7, lane, 2)
    added = [event for event in events[len(trace) :] if event.get("tid") == lane]
    assert [(event["name"], event["pid"], event["args"]) for event in added] == [
        ("thread_name", 0, {"name": "stream 7 (overlapping)"}),
        ("thread_sort_index", 0, {"sort_index": 40}),
    ]
    assert dropped(list(trace.events())) == 1
    assert dropped(events) == 0


def test_arrows_stay_with_a_span_that_stays(tmp_path: Path) -> None:
    trace = job(tmp_path, op("a", 0, 100), op("b", 50, 100), op("c", 50, 10), flow("s", 50, 1, 1)).trace()
    events, said = written(trace, tmp_path)
    assert said.moved == 1
    assert [event["tid"] == 1 for event in events[:4]] == [True, False, True, True]


def test_everything_else_is_as_it_was(tmp_path: Path) -> None:
    top = {"deviceProperties": [{"id": 0}], "traceName": "x.json"}
    args: dict[str, Any] = {"Input Dims": [[1]]}
    trace = job(tmp_path, op("a", 0, 100, **args), op("b", 50, 100), **top).trace()
    events, _ = written(trace, tmp_path)
    [first, second, *added] = events
    assert first == trace.event(0)
    assert second == trace.event(1) | {"tid": second["tid"], "args": {"original tid": 1}}
    assert {event["ph"] for event in added} == {"M"}
    document = json.loads(gzip.decompress((tmp_path / "out.json.gz").read_bytes()))
    assert {key: document[key] for key in top} == top


def test_lanes_get_numbers_that_nothing_has(tmp_path: Path) -> None:
    trace = job(tmp_path, op("a", 0, 9), op("b", 5, 9), op("c", 6, 9), op("d", 0, 1, tid=1_000_000_001)).trace()
    events, _ = written(trace, tmp_path)
    assert [event["tid"] for event in events[:4]] == [1, 1_000_000_000, 1_000_000_002, 1_000_000_001]


def test_numbers_that_perfetto_cannot_take_are_replaced(tmp_path: Path) -> None:
    name: dict[str, Any] = {"ph": "M", "name": "thread_name", "pid": 1, "tid": -5, "args": {"name": "autograd"}}
    trace = job(
        tmp_path,
        *(op("main", 0, 100), name, op("backward", 50, 100, tid=-5), flow("f", 50, 1, -5)),
        *(event | {"pid": 1 << 33} for event in (op("a", 0, 1), op("b", 0, 1))),
        *(op("zero", 0, 1, tid=0), kernel("k", 0, 1, 1, stream=0)),
    ).trace()
    events, said = written(trace, tmp_path)
    assert (said.renumbered, said.moved) == (3, 0)
    lanes = [(event["pid"], event["tid"]) for event in events[: len(trace)]]
    first = 1_000_000_000
    assert lanes == [(1, 1), *[(1, first + 1)] * 3, (first, 1), (first, 1), (1, first + 2), (0, 0)]
    assert events[2]["args"] == {"original tid": -5}
    assert events[4]["args"] == {"original pid": 1 << 33}
    assert (events[1]["args"], "args" in events[3]) == ({"name": "autograd"}, False)
    assert [(e["pid"], e["args"]["name"]) for e in events[8:] if e["name"] == "process_name"][-1][0] == 0


def test_what_nests_in_no_lane_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perfetto_lanes, "MAX_LANES", 2)
    events, said = written(job(tmp_path, *(op(str(n), n, 50) for n in range(4))).trace(), tmp_path)
    assert (said.moved, said.overlapping) == (3, 2)
    assert dropped(events) == 2


def test_names_that_the_file_does_not_give_are_added(tmp_path: Path) -> None:
    trace = job(tmp_path, STREAM, kernel("k", 0, 1, 1), op("a", 0, 1)).trace()
    events, _ = written(trace, tmp_path)
    assert [(event["name"], event["pid"], event.get("tid"), event["args"]["name"]) for event in events[3:]] == [
        ("process_name", 0, None, "GPU 0"),
        ("process_name", 1, None, "process 1"),
        ("thread_name", 1, 1, "thread 1"),
    ]


def test_counters(tmp_path: Path) -> None:
    times, values = np.array([5, 1000, 2000, 3000, 4001]), np.array([1.0, 1.0, np.nan, 0.25, 1e18])
    series = [
        CounterSeries("queue of stream 7", 1, "launches", times, values),
        CounterSeries("\x1b odd", 2, "", times[:1], values[:1]),
        CounterSeries("nothing", -1, "", times[:1], np.array([np.nan])),
    ]
    trace = job(tmp_path, op("a", 0, 1), kernel("k", 0, 1, 1), op("b", 0, 1) | {"pid": "Spans"}).trace()
    events, said = written(trace, tmp_path, series=series)
    assert said.counters == 2
    assert [event for event in events if event["ph"] == "C"] == [
        {"ph": "C", "name": "queue of stream 7", "pid": 0, "ts": 0.005, "args": {"launches": 1}},
        {"ph": "C", "name": "queue of stream 7", "pid": 0, "ts": 3.0, "args": {"launches": 0.25}},
        {"ph": "C", "name": "queue of stream 7", "pid": 0, "ts": 4.001, "args": {"launches": 10**18}},
        {"ph": "C", "name": "\x1b odd", "pid": "Spans", "ts": 0.005, "args": {"value": 1}},
    ]


def test_what_is_marked_has_an_argument_and_arrows_in_its_lane(tmp_path: Path) -> None:
    trace = job(tmp_path, op("a", 0, 100, x=1), op("b", 50, 100), kernel("k", 70, 9, 1), op("c", 0, 1, tid=2)).trace()
    del_args = {key: value for key, value in trace.event(3).items() if key != "args"}
    assert del_args  # its arguments are an empty object
    marked = Marked("critical", np.array([0, 1, 2], np.int32), np.array([[0, 1], [1, 2]], np.int32))
    events, said = written(trace, tmp_path, marked=marked)
    assert (said.marked, said.arrows) == (3, 2)
    assert [event["args"].get("critical") for event in events[:4]] == [1, 1, 1, None]
    assert events[1]["args"] == {"critical": 1, "original tid": 1}
    beside = events[1]["tid"]
    arrows = [(e["ph"], e["id"], e["pid"], e["tid"], e["ts"], e.get("bp")) for e in events if e["ph"] in "sf"]
    assert arrows == [
        ("s", 0, 1, 1, 0.0, None),
        ("f", 0, 1, beside, 0.05, "e"),
        ("s", 1, 1, beside, 0.05, None),
        ("f", 1, 0, 7, 0.07, "e"),
    ]


@pytest.mark.parametrize(
    "text", ['[{"ph": "X", "ts": 0, "dur": 2}, 7]', '{"traceEvents": [{"ph": "X", "args": 5}]}', "[]"]
)
def test_odd_events_can_be_marked(tmp_path: Path, text: str) -> None:
    (tmp_path / "odd.json").write_text(text)
    trace = read(tmp_path / "odd.json").trace()
    rows = np.arange(min(len(trace), 1), dtype=np.int32)
    events, _ = written(trace, tmp_path, marked=Marked("critical", rows, np.empty((0, 2), np.int32)))
    assert [event["args"]["critical"] for event in events[: len(rows)]] == [1] * len(rows)


@pytest.mark.slow
@pytest.mark.parametrize(
    "file",
    [
        *bundled(),
        *(
            SHARED / name
            for name in ("eager_b200/eager_trace.json.gz", "critical_path", "mtia", "hostile", "trace_compare")
        ),
    ],
    ids=lambda path: path.name.partition(".")[0],
)
def test_of_real_traces_nothing_is_dropped_or_lost(file: Path, tmp_path: Path) -> None:
    for source in read(required(file), jobs=1).sources:
        trace = read(source.url, jobs=1).trace()
        events, said = written(trace, tmp_path)
        assert said.overlapping == 0
        moved = 0
        lanes = {
            (event["pid"], event["tid"]): event["args"]["name"]
            for event in events[len(trace) :]
            if event["name"] == "thread_name"
        }
        for row, original in enumerate(trace.events()):
            now = events[row]
            for key in ("pid", "tid"):
                if isinstance(now, dict) and now.get(key) != original.get(key):
                    moved += now["ph"] == "X" and "overlapping" in lanes.get((now["pid"], now["tid"]), "")
                    if now["ph"] == "X":
                        assert now["args"].pop(f"original {key}") == original[key]
                        original = {"args": {}, **original}
                    now = now | {key: original[key]}
            if isinstance(now, dict):
                now = now | {key: float(now[key]) for key in ("ts", "dur") if isinstance(original.get(key), float)}
            assert json.dumps(now, sort_keys=True) == json.dumps(original, sort_keys=True)
        assert moved == said.moved
        assert dropped(events) == 0


def test_times_that_a_float_would_round_are_texts(tmp_path: Path) -> None:
    times = ("1712867402348628.123", "4403612733447.845", "1712867402348628", "12.5")
    texts = (f'{{"ph": "X", "name": "x", "pid": 1, "tid": {n}, "ts": {ts}, "dur": 0.5}}' for n, ts in enumerate(times))
    (tmp_path / "times.json").write_text(f'{{"traceEvents": [{", ".join(texts)}]}}')
    events, _ = written(read(tmp_path / "times.json").trace(), tmp_path)
    assert [event["ts"] for event in events[:4]] == [times[0], times[1], int(times[2]), float(times[3])]
    assert [event["dur"] for event in events[:4]] == ["0.500", "0.500", "0.500", 0.5]


def test_an_annotation_that_ends_within_a_call_is_moved(tmp_path: Path) -> None:
    trace = job(tmp_path, annotation("step", 10, 50), op("a", 0, 30), op("b", 12, 5)).trace()
    events, said = written(trace, tmp_path)
    assert said.moved == 1
    assert [event["tid"] == 1 for event in events[:3]] == [False, True, True]
