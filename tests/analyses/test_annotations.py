"""Annotations: against a brute-force twin, and HTA's own answers."""

from collections import defaultdict
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kinetoscope import Selection, annotations, read
from tests import drawn
from tests.catalog.samples import BUNDLED, SHARED, required
from tests.nesting import around, whole
from tests.notes import codes

WORK = ("work", "work_self", "device_total", "device_self", "device_total_busy", "device_self_busy")
HOST = ("calls", "host_total", "host_self")
Rows = dict[str, tuple[int | None, ...]]


def table(folder: Path, *events: drawn.Event, numbers: tuple[str, ...], **params: Any) -> Rows:
    frame = annotations(drawn.job(folder, *events), **params).frame
    return {row["name"]: tuple(row[name] for name in numbers) for row in frame.iter_rows(named=True)}


def shadow(name: str, start: int, duration: int, *, stream: int = 7, number: int = 0) -> drawn.Event:
    args = {"External id": number} if number else {}
    return drawn.event("gpu_user_annotation", name, start, duration, pid=0, tid=stream, **args)


# --- the brute-force twin


def span(event: drawn.Event) -> tuple[int, int]:
    start = round(event["ts"] * 1000)
    return start, start + round(event["dur"] * 1000)


class Twin:
    """What `annotations` says, one range and one piece of work at a time."""

    def __init__(self, events: list[drawn.Event], time: tuple[int, int] | None) -> None:
        self.events = events
        origin = min(span(event)[0] for event in events)
        self.low, self.high = (origin + time[0], origin + time[1]) if time else (-1000, 1000)
        self.around = self.nested()
        self.leave_out_repeats()

    def nested(self) -> dict[int, int]:
        found = {}
        for tid in (1, 2):
            here = [k for k in self.of("user_annotation", "cuda_runtime") if self.events[k]["tid"] == tid]
            for k, above in zip(here, around([self.events[k] for k in here]), strict=True):
                found[k] = here[above] if above >= 0 else -1
        return found

    def leave_out_repeats(self) -> None:
        """A call directly in a call of its name is that call again."""
        spans = {k: span(self.events[k]) for k in self.around}
        may = {k: up for k, up in self.around.items() if up >= 0 and spans[k][0] < spans[k][1] <= spans[up][1]}
        self.same = {k: up for k, up in may.items() if self.name(k) == self.name(up)}
        above = {k: self.ranges(up)[:1] if up >= 0 else [] for k, up in self.around.items()}
        self.around = {k: up[0] if up else -1 for k, up in above.items() if k not in self.same}

    def of(self, *categories: str) -> list[int]:
        return [k for k, event in enumerate(self.events) if event["cat"] in categories]

    def ranges(self, k: int) -> list[int]:
        """The ranges that a call lies in, or is; the innermost first."""
        while k in self.same:
            k = self.same[k]
        above = self.around[k]
        own = [k] if self.events[k]["cat"] == "user_annotation" else []
        return own + (self.ranges(above) if above >= 0 else [])

    def instants(self, k: int) -> range:
        start, end = span(self.events[k])
        return range(max(start, self.low), min(end, self.high))

    def ranges_of_work(self, k: int, by: str) -> list[int]:
        event = self.events[k]
        if by == "launch":
            number = event["args"]["correlation"]
            launches = [j for j in self.of("cuda_runtime") if self.events[j]["args"]["correlation"] == number]
            return self.ranges(launches[0]) if launches else []
        running = [
            j
            for j in self.of("gpu_user_annotation")
            if self.events[j]["tid"] == event["tid"] and span(event)[0] in range(*span(self.events[j]))
        ]
        return sorted(running, key=lambda j: (-span(self.events[j])[0], span(self.events[j])[1], -j))

    def answer(self, by: str) -> dict[str, tuple[int, ...]]:
        host: dict[str, list[int]] = defaultdict(lambda: [0] * 3)
        for tid in (1, 2):
            here = [k for k in self.of("user_annotation") if k in self.around and self.events[k]["tid"] == tid]
            here.sort(key=lambda k: (span(self.events[k])[0], -span(self.events[k])[1]))
            parents, until = whole([self.events[k] for k in here])
            for place, (k, end) in enumerate(zip(here, until, strict=True)):
                own = len(range(self.instants(k).start, min(self.instants(k).stop, end)))
                before = [span(self.events[j])[1] for j in here[:place] if self.name(j) == self.name(k)]
                total = len(range(max([self.instants(k).start, *before]), self.instants(k).stop))
                begun = self.low <= span(self.events[k])[0] < self.high
                charge = (begun, total, own)
                host[self.name(k)] = [a + b for a, b in zip(host[self.name(k)], charge, strict=True)]
                if parents[place] >= 0:
                    host[self.name(here[parents[place]])][2] -= own
        inside: dict[str, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for k in self.of("kernel"):
            ranges = self.ranges_of_work(k, by)
            for name in {self.name(j) for j in ranges} if self.instants(k) else set():
                inside[name][0].append(k)
            for j in ranges[:1] if self.instants(k) else []:
                inside[self.name(j)][1].append(k)
        names = host.keys() | {self.name(k) for k in self.of("gpu_user_annotation")}
        return {name: (*host[name], *self.costs(*inside[name])) for name in names}

    def name(self, k: int) -> str:
        return str(self.events[k]["name"])

    def costs(self, total: list[int], own: list[int]) -> list[int]:
        """Counts, sums and unions."""
        times = [sum(len(self.instants(k)) for k in works) for works in (total, own)]
        busy = [len({when for k in works for when in self.instants(k)}) for works in (total, own)]
        return [len(total), len(own), *times, *busy]


def test_ranges_of_one_name_that_begin_in_one_instant_all_count(tmp_path: Path) -> None:
    """Only one that lasts and lies in another may be that one recorded twice."""
    empty = [drawn.annotation("ProfilerStep#1", 0, 0), drawn.annotation("ProfilerStep#1", 0, 100)]
    found = annotations(drawn.job(tmp_path, *empty, drawn.annotation("a", 10, 20), drawn.annotation("a", 20, 18)))
    assert found.frame.select("name", "calls").rows() == [("ProfilerStep*", 2), ("a", 2)]
    twice = drawn.job(tmp_path, drawn.annotation("a", 10, 20), drawn.annotation("a", 11, 18))
    assert annotations(twice).frame["calls"].to_list() == [1]


def drawn_launch(start: int, correlation: int, tid: int) -> drawn.Event:
    return drawn.launch(start, 1, correlation, tid=tid)


def drawn_kernel(start: int, duration: int, correlation: int, stream: int) -> drawn.Event:
    return drawn.kernel("k", start, duration, correlation, stream=stream)


def drawn_shadow(name: str, start: int, duration: int, stream: int) -> drawn.Event:
    return shadow(name, start, duration, stream=stream)


NAMES, TIME = st.sampled_from(["a", "b", "c"]), st.integers(0, 15)
EVENTS = st.one_of(
    st.builds(drawn.annotation, NAMES, TIME, TIME, tid=st.integers(1, 2)),
    st.builds(drawn.annotation, NAMES, TIME, TIME, tid=st.integers(1, 2)),
    st.builds(drawn_shadow, NAMES, TIME, TIME, st.integers(7, 8)),
    st.builds(drawn_launch, TIME, st.integers(1, 4), st.integers(1, 2)),
    st.builds(drawn_kernel, st.integers(0, 25), st.integers(1, 9), st.integers(1, 5), st.integers(7, 8)),
)


@given(
    st.lists(EVENTS, min_size=1, max_size=12),
    st.none() | st.tuples(st.integers(0, 9), st.integers(10, 20)),
    st.sampled_from(["launch", "stream"]),
)
@example([drawn_shadow("a", 0, 3, 7), drawn_shadow("a", 1, 3, 7), drawn_kernel(3, 1, 1, 7)], None, "stream")
def test_twin(
    tmp_path_factory: pytest.TempPathFactory,
    events: list[drawn.Event],
    time: tuple[int, int] | None,
    by: Literal["launch", "stream"],
) -> None:
    job = drawn.job(tmp_path_factory.getbasetemp(), *events)
    found = annotations(job, by=by, select=Selection(time=time)).frame
    ours = {row["name"]: tuple(row[n] or 0 for n in (*HOST, *WORK)) for row in found.iter_rows(named=True)}
    theirs = Twin(events, time).answer(by)
    if by == "stream" and not any(event["cat"] == "gpu_user_annotation" for event in events):
        theirs = {name: (*row[:3], *[0] * len(WORK)) for name, row in theirs.items()}
    nothing = (0,) * len((*HOST, *WORK))
    assert ours == {name: row for name, row in theirs.items() if row != nothing or name in ours}


# --- small cases


def test_host_and_shadows(tmp_path: Path) -> None:
    events = [
        drawn.annotation("ProfilerStep#1", 0, 100, **{"External id": 1}),
        drawn.annotation("step", 10, 40, **{"External id": 2}),
        drawn.annotation("ProfilerStep#2", 100, 50, **{"External id": 3}),
        drawn.annotation("step", 120, 11, **{"External id": 4}),
        drawn.launch(20, 5, 1),
        shadow("step", 200, 30, number=2),
        shadow("step", 300, 11, number=4),
        shadow("ProfilerStep#1", 200, 30, number=1),
        drawn.kernel("k", 201, 28, 1),
        drawn.kernel("k", 301, 9, 99),
    ]
    assert table(tmp_path, *events, numbers=(*HOST, "host_mean", "host_min", "host_max")) == {
        "ProfilerStep*": (2, 150, 150 - 51, 75, 50, 100),
        "step": (2, 51, 51, 26, 11, 40),
    }
    spans = ("device_calls", "device_span", "device_span_mean", "device_span_min", "device_span_max")
    assert table(tmp_path, *events, numbers=spans) == {
        "ProfilerStep*": (1, 30, 30, 30, 30),
        "step": (2, 41, 21, 11, 30),
    }
    of_step = Selection(steps=(2,))
    assert table(tmp_path, *events, numbers=("calls", *spans), select=of_step)["step"] == (1, 1, 11, 11, 11, 11)
    assert table(tmp_path, *events, numbers=WORK) == {
        "ProfilerStep*": (1, 0, 28, 0, 28, 0),
        "step": (1, 1, 28, 28, 28, 28),
    }
    assert table(tmp_path, *events, numbers=WORK, by="stream") == {
        "ProfilerStep*": (1, 0, 28, 0, 28, 0),
        "step": (2, 2, 37, 37, 37, 37),
    }
    [note] = annotations(drawn.job(tmp_path, *events)).notes
    assert note.startswith("1 of 2 pieces of device work (24.3% of device time) are in no range: launched outside")


def test_what_ends_on_another_thread_holds_nothing(tmp_path: Path) -> None:
    events = drawn.annotation("gloo:all_reduce", 0, 50), drawn.annotation("inside", 10, 5)
    assert table(tmp_path, *events, numbers=HOST) == {"gloo:all_reduce": (1, 50, 0), "inside": (1, 5, 5)}


def test_ranges_of_2021_are_operators(tmp_path: Path) -> None:
    names = "ProfilerStep#1", "Optimizer.step#SGD.step", "enumerate(DataLoader)#X.__next__", "aten::mm"
    events = [drawn.event("Operator", name, 10 * k, 5) for k, name in enumerate(names)]
    assert list(table(tmp_path, *events, numbers=())) == sorted(["ProfilerStep*", *names[1:3]])


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    [note] = annotations(drawn.job(tmp_path, drawn.op("aten::mm", 0, 5))).notes
    assert note == "No annotations were recorded (`with torch.profiler.record_function(name):` makes one)."
    job = drawn.job(tmp_path, drawn.annotation("a", 0, 5), drawn.kernel("k", 0, 5, 1))
    result = annotations(job, by="stream")
    assert codes(result.notes) == ["NO_SHADOWS"]
    assert result.frame.select("device_span", "work", "device_total").row(0) == (None, None, None)


# --- real traces

REAL = [
    *(BUNDLED / f"{name}.pt.trace.json.gz" for name in ("mlp", "threads")),
    *(SHARED / name for name in ("ddp_nccl_a100", "resnet_ddp_mi300", "mi250_train", "alexnet_a100", "resnet50_v100")),
]


@pytest.mark.parametrize("by", ["launch", "stream"])
@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
def test_self_times_are_what_is_in_any_range(path: Path, by: Literal["launch", "stream"]) -> None:
    path = required(path)
    job = read(next(path.rglob("*.json.gz")) if path.is_dir() else path, jobs=1)
    frame = annotations(job, by=by).frame
    assert len(frame) > 0
    for total, own in (("host_total", "host_self"), ("device_total", "device_self"), ("work", "work_self")):
        assert (frame[own].drop_nulls() <= frame[total].drop_nulls()).all()
        assert (frame[own].drop_nulls() >= 0).all()
    assert frame["device_self_busy"].sum() <= frame["device_self"].sum()
    if by == "launch" and frame["work"].sum():
        flame_of = frame["device_self"].sum()
        assert 0 < flame_of <= frame["device_total"].sum()
