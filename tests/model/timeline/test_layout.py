"""Lanes, rows and counters of the timeline."""

from __future__ import annotations

import json
from collections import Counter
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest

from kinetoscope.algorithms.intervals.intervals import Intervals
from kinetoscope.algorithms.layout.pyramid import MAX_SCALE, UNITS, marks
from kinetoscope.algorithms.layout.sampling import sample
from kinetoscope.errors import KinetoscopeError
from kinetoscope.model.collectives.calls import collective_calls
from kinetoscope.model.device.utilization import kernels_of, use_of
from kinetoscope.model.execution.call_tree import call_tree
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.matching.match import rank_offsets
from kinetoscope.model.steps.scope import scope
from kinetoscope.model.steps.selection import ALL
from kinetoscope.model.timeline.categories import MARK_KINDS, mark_kinds
from kinetoscope.model.timeline.counters import counter_curve, counter_lanes
from kinetoscope.model.timeline.layout import CALLS, timeline, times
from kinetoscope.model.timeline.range import BUCKETS, minimap
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.trace import Trace
from kinetoscope.reading import read
from tests.conftest import OURS
from tests.drawn import Event, annotation, event, job, kernel, launch, memory, op, python, written
from tests.simulator import Model, simulate

NOT_DRAWN = {EventKind.MEMORY, EventKind.METADATA}


def titles(trace: Trace) -> list[tuple[str, str, int]]:
    return [(lane.group.title, lane.title, lane.rows) for lane in timeline(trace).lanes]


def named(pid: int, tid: int, **names: str) -> list[Event]:
    return [
        {"ph": "M", "name": what, "pid": pid, "tid": tid, "ts": 0, "args": {key: value}}
        for what, (key, value) in {
            "process_name": ("name", names.get("process", "python")),
            "process_labels": ("labels", names.get("labels", "CPU")),
        }.items()
    ]


def test_lanes_in_the_order_in_which_they_are_read(tmp_path: Path) -> None:
    trace = job(
        tmp_path,
        *named(1, 0),
        *named(0, 0, labels="GPU 0"),
        kernel("gemm", 5_000, 4_000, 7),
        op("aten::mm_backward", 3_000, 1_000, tid=3, **{"Fwd thread id": 1}),
        op("aten::other", 0, 500, tid=2),
        annotation("ProfilerStep#3", 0, 10_000),
        op("aten::mm", 1_000, 3_000),
        launch(2_000, 500, 7),
    ).trace()
    assert titles(trace) == [
        ("GPU 0", "stream 7", 1),
        ("python", "main thread", 3),
        ("python", "autograd thread", 1),
        ("python", "thread 2", 1),
    ]


def folded(trace: Trace) -> list[tuple[str, str]]:
    return [(lane.group.title, lane.title) for lane in timeline(trace).lanes if lane.group.folded]


def test_threads_that_only_wait_are_folded(tmp_path: Path) -> None:
    waiting = [
        python("tqdm/_monitor.py(60): run", 0, 10_000, tid=5),
        python("threading.py(589): wait", 100, 9_900, tid=5),
        python("<built-in method acquire of _thread.lock object at 0x7f>", 200, 9_700, tid=5),
        python("threading.py(1002): _bootstrap", 0, 10_000, tid=6),
        python("torch/_inductor/compile_worker/subproc_pool.py(190): _read_thread", 0, 9_999, tid=6),
        event("cuda_runtime", "cudaStreamSynchronize", 0, 10_000, tid=8),
    ]
    ours = [annotation("ProfilerStep#3", 0, 10_000), python("threading.py(589): wait", 0, 10_000)]
    trace = job(tmp_path, *named(1, 0), *waiting, *ours, op("aten::mm", 0, 10, tid=9)).trace()
    titles = [title for _, title in folded(trace)]
    assert titles == ["thread 5", "thread 8"], "the main thread may wait, and a thread that computes for all we know"
    assert {group for group, _ in folded(trace)} == {"python · threads that only wait"}


def test_a_thread_that_waits_all_the_time_is_not_the_main_thread(tmp_path: Path) -> None:
    waiting = python("threading.py(589): wait", 0, 100_000, tid=5)
    trace = job(tmp_path, *named(1, 0), waiting, python("train.py(3): main", 10, 900), op("aten::mm", 20, 800)).trace()
    assert titles(trace) == [("python", "main thread", 2), ("python · threads that only wait", "thread 5", 1)]


def test_streams_beyond_a_dozen_are_folded_those_with_least_work(tmp_path: Path) -> None:
    kernels = [
        kernel("gemm", at * 100, 50, stream * 100 + at, stream=stream) for stream in range(15) for at in range(stream)
    ]
    trace = job(tmp_path, *named(0, 0, labels="GPU 0"), *kernels).trace()
    assert [title for _, title in folded(trace)] == ["stream 1", "stream 2"]


def test_a_process_that_is_a_number_here_and_a_text_there_is_two_groups(tmp_path: Path) -> None:
    other = {**op("b", 0, 10), "pid": "1"}
    third = {**op("c", 0, 10, tid=5), "pid": 2}
    found = timeline(job(tmp_path, op("a", 0, 10), other, third, op("d", 5, 10, tid=3)).trace())
    ids = [lane.group.id for lane in found.lanes]
    assert [each for each, _ in groupby(ids)] == sorted(set(ids), key=ids.index), "the lanes of a group stand together"
    assert len(set(ids)) == 3
    assert len({lane.id for lane in found.lanes}) == 4


def test_work_that_overlaps_on_a_stream_has_rows_of_its_own(tmp_path: Path) -> None:
    kernels = [kernel("a", 0, 100, 1), kernel("b", 50, 100, 2), kernel("c", 120, 10, 3), kernel("d", 200, 10, 4)]
    trace = job(tmp_path, *kernels).trace()
    assert timeline(trace).depth.tolist() == [0, 1, 0, 0]


def test_annotations_and_waits_on_a_stream_lie_beside_its_work(tmp_path: Path) -> None:
    shadow = event("gpu_user_annotation", "forward", 0, 300, pid=0, tid=7)
    wait = event("cuda_sync", "Stream Wait Event", 10, 20, pid=0, tid=7, stream=7)
    trace = job(tmp_path, kernel("a", 0, 100, 1), shadow, wait).trace()
    assert [(lane.title, lane.events) for lane in timeline(trace).lanes] == [
        ("stream 7", 1),
        ("stream 7 · annotations", 2),
    ]
    assert [title for _, title in folded(trace)] == ["stream 7 · annotations"]
    assert [MARK_KINDS[kind] for kind in mark_kinds(trace)] == ["computation", "annotation", "waiting"]


def test_calls_lie_at_their_depth_in_the_call_tree() -> None:
    trace = read(OURS / "mlp.pt.trace.json.gz").trace()
    calls = call_tree(trace)
    if calls.partial == 0:
        assert (timeline(trace).depth[calls.member] == calls.depth[calls.member]).all()
    assert calls.member.sum() > 100


def test_a_call_that_ends_before_it_begins_and_times_beyond_all(tmp_path: Path) -> None:
    far = {"ph": "X", "cat": "cpu_op", "name": "far", "pid": 1, "tid": 1, "ts": 4e15, "dur": 1e15, "args": {}}
    trace = job(tmp_path, op("a", 1_000, -500), op("b", 2_000, 100), far).trace()
    found = timeline(trace)
    start, end = times(trace)
    assert int(start.max()) <= 1 << 61
    assert int(end.max()) <= 1 << 61
    drawn = marks(found.pyramid, np.arange(found.pyramid.rows.size - 1), origin=found.origin, scale=0, tile=0)
    assert trace.strings.label(int(trace.name[drawn.span[0]])) == "a"
    assert drawn.extent[0] == 0


@pytest.mark.parametrize("astray", [0, 4_000_000_000_000_000_000])
def test_one_wrong_time_moves_neither_the_origin_nor_the_end(tmp_path: Path, astray: int) -> None:
    """What a browser cannot count, it does not get."""
    begin = 1_700_000_000_000_000_000
    ops = [op("a", begin + at * 1000, 500) for at in range(20)]
    found = timeline(job(tmp_path, op("bad", astray, 10), *ops).trace())
    assert (found.origin, found.end, found.astray) == (begin, 19_500, 1)


def test_an_event_that_lasts_for_ever_ends_where_a_browser_can_count(tmp_path: Path) -> None:
    trace = job(tmp_path, op("bad", 0, 10**18), *(op("a", at * 1000, 500) for at in range(20))).trace()
    found = timeline(trace)
    assert (found.end, found.astray) == (19_500, 1)
    assert int(times(trace)[1].max()) == (1 << 53) - 1


def test_a_trace_without_events(tmp_path: Path) -> None:
    trace = job(tmp_path, *named(1, 0)).trace()
    found = timeline(trace)
    assert (found.lanes, found.end) == ((), 0)
    assert counter_lanes(trace) == ()
    assert len(marks(found.pyramid, np.empty(0, np.int64), origin=found.origin, scale=3, tile=0)) == 0


# --- real traces: every tile at every scale covers what the events themselves say


def by_hand(trace: Trace) -> dict[tuple[str, str], tuple[int, int]]:
    """Events that last and their time, by pid and tid as they stand in the file."""
    count: Counter[tuple[str, str]] = Counter()
    time: Counter[tuple[str, str]] = Counter()
    for row, each in enumerate(trace.events()):
        if not isinstance(each, dict) or EventKind(int(trace.kind[row])) in NOT_DRAWN:
            continue
        if each.get("ph") == "X" or EventKind(int(trace.kind[row])) == EventKind.INSTANT:
            lane = repr(each.get("pid")), repr(each.get("tid"))
            count[lane] += 1
            time[lane] += max(int(trace.end[row] - trace.start[row]), 0)
    return {lane: (count[lane], time[lane]) for lane in count}


def in_tiles(trace: Trace, scale: int) -> dict[tuple[str, str], tuple[int, int]]:
    """The same from all tiles of a scale."""
    found = timeline(trace)
    begin = int(times(trace)[0][found.layer >= 0].min(initial=found.origin)) - found.origin
    last = int(times(trace)[1][found.layer >= 0].max(initial=found.origin)) - found.origin
    seen: dict[tuple[int, int], tuple[int, int]] = {}
    lane_of_row = {row: lane for lane in found.lanes for row in range(lane.first, lane.first + lane.rows)}
    rows = np.arange(found.pyramid.rows.size - 1)
    for tile in range((begin >> scale) // UNITS, (last >> scale) // UNITS + 1):
        drawn = marks(found.pyramid, rows, origin=found.origin, scale=scale, tile=tile)
        row = np.repeat(rows, np.diff(drawn.rows))
        for key in zip(row.tolist(), drawn.span.tolist(), drawn.count.tolist(), drawn.busy.tolist(), strict=True):
            assert seen.setdefault(key[:2], key[2:]) == key[2:]
    total: dict[tuple[str, str], tuple[int, int]] = {}
    for (row_, _), (count, busy) in seen.items():
        track = lane_of_row[row_].track
        lane = repr(trace.tracks.pids[track]), repr(trace.tracks.tids[track])
        before = total.get(lane, (0, 0))
        total[lane] = before[0] + count, before[1] + busy
    return total


SHARED = [
    "alexnet_a100",
    "broken/truncated.pt.trace.json",
    "cpu_only",
    "critical_path/cuda_event_sync_multi_stream",
    "cupti_counters",
    "ddp_nccl_a100",
    "dlrm_ddp_v100_8rank",
    "eager_b200",
    "hostile/rank_not_found.json.gz",
    "hostile/trace_view.json",
    "mi250_train",
    "mtia",
    "resnet_ddp_mi300",
    "torch_2_13_cpu/conv.pt.trace.json.gz",
]


@pytest.mark.slow
@pytest.mark.parametrize("name", SHARED)
def test_tiles_cover_what_the_events_of_real_traces_say(shared_traces: Path, name: str) -> None:
    opened = read(shared_traces / name)
    trace = opened.trace(opened.ranks[0])
    expected = by_hand(trace)
    top = max(timeline(trace).end // UNITS, 1).bit_length()
    for scale in range(max(top - 4, 0), min(top + 2, MAX_SCALE)):
        assert in_tiles(trace, scale) == expected


@pytest.mark.parametrize("name", ["mlp", "conv"])
def test_tiles_cover_our_own_traces_at_every_scale(name: str) -> None:
    path = OURS / f"{name}.pt.trace.json.gz"
    if not path.exists():
        pytest.skip(f"{path.name} is not among the recordings")
    trace = read(path).trace()
    expected = by_hand(trace)
    top = max(timeline(trace).end // UNITS, 1).bit_length()
    for scale in range(max(top - 8, 0), top + 2):
        assert in_tiles(trace, scale) == expected


@pytest.mark.slow
def test_every_shared_trace_can_be_laid_out(shared_traces: Path) -> None:
    tried = 0
    for path in sorted(shared_traces.rglob("*.json*")):
        try:
            trace = read(path).trace()
        except KinetoscopeError:
            continue
        found = timeline(trace)
        assert sum(lane.events for lane in found.lanes) == len(found.pyramid.order)
        for counter in counter_lanes(trace):
            counter_curve(trace, counter.source, counter.place)
        tried += 1
    assert tried > 20


# --- many lanes


def test_very_many_lanes(tmp_path: Path) -> None:
    events = [op("a", number, 1, tid=number) for number in range(20_000)]
    trace = read(written(tmp_path / "many.json", *events), jobs=1).trace()
    found = timeline(trace)
    assert len(found.lanes) == 20_000
    drawn = marks(found.pyramid, np.arange(20_000), origin=found.origin, scale=5, tile=0)
    assert int(drawn.count.sum()) == 20_000


# --- counters


def levels(trace: Trace, source: str, place: int, times_: list[int]) -> list[float]:
    curve = counter_curve(trace, source, place)
    origin = timeline(trace).origin
    return [float(sample(curve, origin + time, 1, 1)[0][0]) for time in times_]


def filling(work: Event, blocks: float) -> Event:
    return {**work, "args": {**work["args"], "blocks per SM": blocks}}


def test_counters_say_what_the_analyses_say(tmp_path: Path) -> None:
    trace = job(
        tmp_path,
        launch(0, 10, 1),
        launch(20, 10, 2),
        filling(kernel("a", 100, 100, 1), 0.5),
        filling(kernel("b", 150, 100, 2, stream=8), 0.25),
        kernel("Memcpy HtoD (Pinned -> Device)", 300, 10, 3, category="gpu_memcpy", bytes=1000),
        memory(120, 4096, device=0, **{"Total Allocated": 5000, "Total Reserved": 8192}),
    ).trace()
    found = {counter.title: counter for counter in counter_lanes(trace)}
    assert list(found) == [
        "GPU 0 · utilization",
        "GPU 0 · SM efficiency",
        "GPU 0 · queue",
        "GPU 0 · HtoD bandwidth",
        "cuda:0 · memory allocated",
        "cuda:0 · memory reserved",
    ]
    assert levels(trace, "utilization", 0, [50, 120, 249, 250]) == [0, 1, 1, 0]
    assert levels(trace, "sm_efficiency", 0, [120, 160, 240]) == [0.5, 0.75, 0.25]
    assert levels(trace, "queue", 0, [10, 30, 110, 150]) == [1, 2, 1, 0]
    assert levels(trace, "bandwidth", 0, [305]) == [1000 / 10e-9]
    assert levels(trace, "memory", 0, [100, 130]) == [904, 5000]
    assert levels(trace, "memory", 1, [130]) == [8192]


@pytest.mark.parametrize("name", ["owlv2_h100", "ddp_nccl_a100", "resnet_ddp_mi300"])
def test_counters_of_real_traces_are_those_of_the_analyses(shared_traces: Path, name: str) -> None:
    trace = read(shared_traces / name).trace()
    origin = timeline(trace).origin
    windows = Intervals(origin + np.arange(7) * 10_000_000, origin + np.arange(1, 8) * 10_000_000)
    device = int(device_work(trace).device[0])
    use = use_of(kernels_of(scope(trace, ALL), device), windows)
    by_title = {counter.title.split(" · ")[-1]: counter for counter in counter_lanes(trace)[:2]}
    for title, expected in (("utilization", use.busy), ("SM efficiency", use.filled)):
        if counter := by_title.get(title):
            curve = counter_curve(trace, counter.source, counter.place)
            assert sample(curve, origin, 10_000_000, 7)[0] == pytest.approx(expected / 10_000_000)
    assert "utilization" in by_title


def test_counters_of_the_file(tmp_path: Path) -> None:
    samples = [
        {"ph": "C", "name": "power", "pid": 1, "tid": 1, "ts": time / 1000, "args": {"watts": value}}
        for time, value in ((100, 5), (200, 7.5))
    ]
    trace = job(tmp_path, op("a", 0, 500), *samples).trace()
    (counter,) = counter_lanes(trace)
    assert counter.title.endswith("power · watts")
    assert levels(trace, "recorded", 0, [150, 300]) == [5, 7.5]
    assert np.isnan(levels(trace, "recorded", 0, [50])[0])


# --- the whole


def test_the_minimap_says_how_busy_devices_were(tmp_path: Path) -> None:
    trace = job(tmp_path, kernel("a", 0, 512, 1), kernel("nccl_all_reduce", 512, 256, 2)).trace()
    found = minimap(trace, timeline(trace).origin, 2)
    assert sorted(found) == ["communication", "computation"] or sorted(found) == ["computation"]
    assert sum(share.sum() for share in found.values()) * 2 == pytest.approx(768)
    assert all(len(share) == BUCKETS for share in found.values())


def test_the_minimap_of_a_run_on_the_host(tmp_path: Path) -> None:
    trace = job(tmp_path, op("a", 0, 512)).trace()
    assert minimap(trace, timeline(trace).origin, 2)["host"].sum() == 256


def test_ranks_lie_on_one_clock(tmp_path: Path) -> None:
    for rank, late in ((0, 0), (1, 3_000_000)):
        written(
            tmp_path / f"rank{rank}.json",
            op("a", late + 5_000, 1_000),
            baseTimeNanoseconds=1_000_000,
            distributedInfo={"rank": rank, "world_size": 2},
        )
    opened = read(tmp_path, jobs=1)
    shifts, notes = rank_offsets([opened.trace(rank) for rank in opened.ranks])
    assert shifts == [0, 3_000_000]
    assert "No collectives" in notes[0]


def test_ranks_that_were_recorded_at_quite_another_time(tmp_path: Path) -> None:
    for rank, base in ((0, 0), (1, 1_700_000_000_000_000_000)):
        top = {"baseTimeNanoseconds": base, "distributedInfo": {"rank": rank, "world_size": 2}}
        written(tmp_path / f"rank{rank}.json", op("a", 5_000, 1_000), **top)
    opened = read(tmp_path, jobs=1)
    shifts, notes = rank_offsets([opened.trace(rank) for rank in opened.ranks])
    assert shifts == [0, 0]
    assert "hundred days" in notes[0]


def test_python_calls_and_the_calls_in_them_are_one_lane(tmp_path: Path) -> None:
    trace = job(tmp_path, python("train.py(3): main", 0, 100), op("aten::mm", 10, 20), python("a", 40, 5)).trace()
    (lane,) = timeline(trace).lanes
    assert (lane.layer, lane.rows, lane.events) == (CALLS, 2, 3)
    assert json.dumps(timeline(trace).depth.tolist()) == "[0, 1, 1]"


def test_clocks_that_are_wrong_are_set_right(tmp_path: Path) -> None:
    simulate(Model(ranks=4, ranks_per_host=1, steps=3, clock_offset=10_000_000), tmp_path)
    opened = read(tmp_path, jobs=1)
    traces = [opened.trace(rank) for rank in opened.ranks]
    shifts, _ = rank_offsets(traces)
    raw = [trace.base + timeline(trace).origin for trace in traces]
    ends: dict[str, list[list[int]]] = {"aligned": [], "raw": []}
    for trace, shift, first in zip(traces, shifts, raw, strict=True):
        calls = collective_calls(trace).filter(kind="all_reduce").sort("seq", "start")
        last = calls["end"].to_numpy() - trace.base - timeline(trace).origin
        ends["aligned"].append((last + shift).tolist())
        ends["raw"].append((last + first - raw[0]).tolist())
    spread = {name: float(np.median(np.ptp(np.array(each), axis=0))) for name, each in ends.items()}
    assert spread["raw"] > 1_000_000
    assert spread["aligned"] < 20_000
