"""Modules: against a brute-force twin, the TensorBoard plugin's tables, and what real traces hold."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope import Selection, modules, read
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.operators.modules import modules as modules_of
from tests import drawn
from tests.catalog.samples import BUNDLED, SHARED, required
from tests.nesting import around

Times = tuple[int | None, ...]
HOST = ("host_total", "host_self", "host_forward", "host_backward")
DEVICE = ("device_total", "device_self", "device_forward", "device_backward")


def module(name: str, start: int, duration: int, *, tid: int = 1) -> drawn.Event:
    return drawn.python(f"nn.Module: {name}", start, duration, tid=tid)


def forward(start: int, duration: int, sequence: int, name: str = "aten::mm") -> drawn.Event:
    return drawn.op(name, start, duration, **{"Sequence number": sequence, "Fwd thread id": 0})


def backward(start: int, duration: int, sequence: int, *, tid: int = 2) -> drawn.Event:
    return drawn.op("MmBackward0", start, duration, tid=tid, **{"Sequence number": sequence, "Fwd thread id": 1})


def table(folder: Path, *events: drawn.Event, numbers: tuple[str, ...], **top: Any) -> dict[str, Times]:
    frame = modules(drawn.job(folder, *events, **top)).frame
    return {row["path"]: tuple(row[name] for name in numbers) for row in frame.iter_rows(named=True)}


# --- the brute-force twin


def enclosing(events: list[drawn.Event]) -> dict[int, int]:
    """The event around each of the same thread, by place."""
    found = {}
    for tid in (1, 2):
        here = [k for k, each in enumerate(events) if each["tid"] == tid and each["cat"] != "kernel"]
        for k, above in zip(here, around([events[k] for k in here]), strict=True):
            found[k] = here[above] if above >= 0 else -1
    return found


def span(event: drawn.Event) -> tuple[int, int]:
    start = round(event["ts"] * 1000)
    return start, start + round(event["dur"] * 1000)


class Twin:
    """What `modules` says, one instant at a time."""

    def __init__(self, events: list[drawn.Event], time: tuple[int, int] | None) -> None:
        self.events, self.around = events, enclosing(events)
        origin = min(span(event)[0] for event in events)
        self.low, self.high = (origin + time[0], origin + time[1]) if time else (-1000, 1000)

    def forward_of(self, k: int) -> int:
        """The forward operator of a backward one: the last of its number that began before."""
        args = self.events[k]["args"]
        if not args.get("Fwd thread id"):
            return -1
        made = [
            j
            for j, event in enumerate(self.events)
            if event["args"].get("Fwd thread id") == 0 and event["args"]["Sequence number"] == args["Sequence number"]
        ]
        last = min(made, key=lambda j: (-span(self.events[j])[0], j), default=-1)
        return last if last >= 0 and span(self.events[last])[0] < span(self.events[k])[0] else -1

    def is_module(self, k: int) -> bool:
        return str(self.events[k]["name"]).startswith("nn.Module: ")

    def path(self, k: int) -> str:
        """Of the module that a call works for; "" for none."""
        if k < 0:
            return ""
        linked = self.forward_of(k)
        around = self.path(linked if linked >= 0 else self.around[k])
        if not self.is_module(k):
            return around
        name = str(self.events[k]["name"]).removeprefix("nn.Module: ")
        return f"{around}/{name}" if around else name

    def phase(self, k: int) -> str:
        while k >= 0 and self.forward_of(k) < 0:
            k = self.around[k]
        return "backward" if k >= 0 else "forward"

    def answer(self) -> dict[str, tuple[int, ...]]:
        own: dict[str, Counter[str]] = defaultdict(Counter)
        launches = {event["args"].get("correlation"): k for k, event in enumerate(self.events) if k in self.around}
        for k, event in enumerate(self.events):
            start, end = span(event)
            if event["cat"] == "kernel":
                by = launches.get(event["args"]["correlation"], -1)
                time, what = max(0, min(end, self.high) - max(start, self.low)), "device"
            elif self.is_module(k) or self.forward_of(k) >= 0:
                by, what, time = k, "host", self.own_time(k)
            else:
                continue
            if by >= 0 and (path := self.path(by)):
                own[path][f"{what}_{self.phase(by)}"] += time
                own[path]["calls"] += self.is_module(k) and self.low <= start < self.high
        return {path: self.row(path, own) for path in own}

    def own_time(self, k: int) -> int:
        later = [j for j in self.around if self.order(j) > self.order(k) and self.is_owner(j)]
        beside = [j for j in later if self.events[j]["tid"] == self.events[k]["tid"]]
        return len(self.instants(k) - set().union(*map(self.instants, beside)))

    def order(self, k: int) -> tuple[int, int, int]:
        start, end = span(self.events[k])
        return start, -end, k

    def is_owner(self, k: int) -> bool:
        return self.is_module(k) or self.forward_of(k) >= 0

    def instants(self, k: int) -> set[int]:
        start, end = span(self.events[k])
        return set(range(max(start, self.low), min(end, self.high)))

    def row(self, path: str, own: dict[str, Counter[str]]) -> tuple[int, ...]:
        below = [some for other, some in own.items() if other == path or other.startswith(path + "/")]
        parts = [own[path]["calls"]]
        for what in ("host", "device"):
            front, back = (sum(some[f"{what}_{phase}"] for some in below) for phase in ("forward", "backward"))
            parts += [front + back, own[path][f"{what}_forward"] + own[path][f"{what}_backward"], front, back]
        return tuple(parts)


def drawn_kernel(start: int, duration: int, correlation: int) -> drawn.Event:
    return drawn.kernel("k", start, duration, correlation)


def drawn_launch(start: int, correlation: int, tid: int) -> drawn.Event:
    return drawn.launch(start, 1, correlation, tid=tid)


def launch_number(event: drawn.Event) -> int:
    """One launch has a number alone."""
    return int(event["args"]["correlation"]) if event["cat"] == "cuda_runtime" else id(event)


TIME = st.integers(0, 20)
EVENTS = st.one_of(
    st.builds(module, st.sampled_from(["A_0", "B_0", "B_1"]), TIME, TIME),
    st.builds(module, st.sampled_from(["A_0", "B_0", "B_1"]), TIME, TIME),
    st.builds(forward, TIME, TIME, st.integers(1, 4)),
    st.builds(backward, st.integers(5, 30), TIME, st.integers(1, 4)),
    st.builds(drawn_launch, st.integers(0, 30), st.integers(1, 5), st.integers(1, 2)),
    st.builds(drawn_kernel, st.integers(0, 30), st.integers(1, 9), st.integers(1, 6)),
)


@pytest.mark.slow
@given(
    st.lists(EVENTS, min_size=1, max_size=14, unique_by=launch_number),
    st.none() | st.tuples(st.integers(0, 9), st.integers(10, 30)),
)
def test_twin(
    tmp_path_factory: pytest.TempPathFactory, events: list[drawn.Event], time: tuple[int, int] | None
) -> None:
    result = modules(drawn.job(tmp_path_factory.getbasetemp(), *events), select=Selection(time=time))
    twin = Twin(events, time).answer()
    found = {
        row["path"]: tuple(row[name] or 0 for name in ("calls", *HOST, *DEVICE))
        for row in result.frame.iter_rows(named=True)
    }
    if time is not None:
        twin = {path: row for path, row in twin.items() if found.get(path) or any(row)}
    assert found == twin


# --- small cases


def test_the_backward_pass_belongs_to_the_module_of_its_forward_pass(tmp_path: Path) -> None:
    events = [
        *(module("Net_0", 0, 100), module("Linear_0", 10, 30), forward(15, 20, 1), module("Linear_1", 50, 30)),
        *(forward(55, 20, 2), drawn.launch(16, 2, 1), drawn.launch(56, 2, 2)),
        *(backward(200, 30, 2), backward(205, 20, 2), backward(240, 25, 1), drawn.op("AccumulateGrad", 270, 9, tid=2)),
        *(drawn.launch(210, 2, 3, tid=2), drawn.launch(250, 2, 4, tid=2), drawn.launch(272, 2, 5, tid=2)),
        *(drawn.kernel("k", 300 + 10 * each, each, each) for each in range(1, 6)),
    ]
    assert table(tmp_path, *events, numbers=("calls", *HOST, *DEVICE, "operators")) == {
        "Net_0": (1, 155, 40, 100, 55, 1 + 2 + 3 + 4, 0, 3, 7, 0),
        "Net_0/Linear_0": (1, 55, 55, 30, 25, 5, 5, 1, 4, 1),
        "Net_0/Linear_1": (1, 60, 60, 30, 30, 5, 5, 2, 3, 1),
    }
    [note] = modules(drawn.job(tmp_path, *events)).notes
    assert note.startswith("1 of 5 pieces of device work (33.3% of device time) are in no row: launched outside")


def test_what_checkpointing_calls_anew_is_the_same_module(tmp_path: Path) -> None:
    anew = [("Block_0", 110, 60), ("Linear_0", 115, 20), ("ReLU_0", 140, 20), ("Norm_0", 180, 5)]
    events = [
        *(module("Net_0", 0, 90), module("Block_0", 10, 60), module("Linear_0", 15, 20), module("ReLU_0", 40, 20)),
        *(forward(45, 10, 1), backward(100, 90, 1)),
        *(module(name, start, duration, tid=2) for name, start, duration in anew),
    ]
    assert table(tmp_path, *events, numbers=("calls", "host_self", "host_backward")) == {
        "Net_0": (1, 90 - 60, 90),
        "Net_0/Block_0": (2, 20 + 20, 90),
        "Net_0/Block_0/ReLU_0": (2, 20 + 20 + 90 - 60 - 5, 50),
        "Net_0/Block_0/ReLU_0/Norm_0": (1, 5, 5),
        "Net_0/Block_0/Linear_0": (2, 20 + 20, 20),
    }


def test_a_graph_launched_outside_all_modules_belongs_to_none(tmp_path: Path) -> None:
    # The TensorBoard plugin charges launches without an External id, such as those of graphs, to some module.
    events = [
        *(module("Sampler_0", 0, 20), drawn.launch(5, 2, 1), drawn.kernel("k", 30, 4, 1)),
        *(drawn.launch(50, 2, 2, name="hipGraphLaunch"), drawn.kernel("a", 60, 100, 2), drawn.kernel("b", 160, 100, 2)),
    ]
    assert table(tmp_path, *events, numbers=("device_total",)) == {"Sampler_0": (4,)}


def test_rows_are_in_the_order_of_the_tree(tmp_path: Path) -> None:
    calls = [
        module("A_0", 0, 50),
        module("C_0", 1, 5),
        module("B_0", 10, 5),
        module("D_0", 20, 9),
        module("Z_0", 60, 60),
    ]
    assert list(table(tmp_path, *calls, numbers=())) == ["Z_0", "A_0", "A_0/D_0", "A_0/B_0", "A_0/C_0"]
    work = drawn.launch(2, 1, 1), drawn.kernel("k", 70, 1, 1)
    assert list(table(tmp_path, *calls, *work, numbers=())) == ["A_0", "A_0/C_0", "A_0/D_0", "A_0/B_0", "Z_0"]


def test_spans_of_lightning_nest_by_their_names(tmp_path: Path) -> None:
    spans = [
        drawn.op("[pl][module]torch.nn.modules.linear.Linear: net.layers.0", 0, 10),
        drawn.op("[pl][module]my.Net: net", 20, 50),
        drawn.op("[pl][module]torch.nn.modules.linear.Linear: net.layers.0", 30, 20),
        drawn.op("aten::linear", 31, 5),
        drawn.op("aten::addmm", 32, 2),
    ]
    found = table(tmp_path, *spans, numbers=("depth", "calls", "host_total", "host_self", "operators"))
    assert found == {
        "net(Net)": (0, 1, 60, 30, 0),
        "net(Net)/layers": (1, 0, 30, 0, 0),
        "net(Net)/layers/0(Linear)": (2, 2, 30, 30, 1),
    }


def test_operators_tell_the_modules_of_torchscript(tmp_path: Path) -> None:
    inside: Any = "TOP(Net)::forward.layer(Sequential)::forward.0(Conv2d)::forward.SELF(Conv2d)::_conv_forward."
    outside: Any = "TOP(Net)::forward"
    nowhere: Any = ""
    ops = [
        drawn.op("aten::conv2d", 0, 30, **{"Module Hierarchy": inside}),
        drawn.op("aten::convolution", 5, 20, **{"Module Hierarchy": inside}),
        drawn.op("aten::relu", 40, 5, **{"Module Hierarchy": outside}),
        drawn.op("aten::sum", 50, 5, **{"Module Hierarchy": nowhere}),
    ]
    assert table(tmp_path, *ops, numbers=("calls", "host_total", "host_self", "operators")) == {
        "TOP(Net)": (None, 35, 5, 1),
        "TOP(Net)/layer(Sequential)": (None, 30, 0, 0),
        "TOP(Net)/layer(Sequential)/0(Conv2d)": (None, 30, 30, 1),
    }


def test_no_modules_no_rows(tmp_path: Path) -> None:
    result = modules(drawn.job(tmp_path, drawn.op("aten::mm", 0, 5)))
    assert len(result) == 0
    assert [note.partition(" (")[0] for note in result.notes] == ["Modules were not recorded"]


def test_a_step(tmp_path: Path) -> None:
    steps = [drawn.annotation(f"ProfilerStep#{number}", 100 * number, 100) for number in (0, 1)]
    events = [*steps, module("A_0", 10, 20), module("B_0", 40, 5), module("A_0", 110, 30), drawn.launch(115, 2, 1)]
    job = drawn.job(tmp_path, *events, drawn.kernel("k", 300, 7, 1))
    frame = modules(job, select=Selection(steps=(1,))).frame
    assert frame.select("path", "calls", "host_total", "device_total").rows() == [("A_0", 1, 30, 7)]


# --- the TensorBoard plugin's tables


def flat(nodes: list[Any]) -> dict[str, Any]:
    """Its rows by name: it gives the same numbers wherever the module of a name is called."""
    found: dict[str, Any] = {}
    for node in nodes:
        found |= {node["name"]: node, **flat(node["children"])}
    return found


# --- real traces

REAL = [BUNDLED / "mlp.pt.trace.json.gz", *(SHARED / name for name in ("resnet_ddp_mi300", "owlv2_h100", "eager_b200"))]


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
def test_nothing_counts_twice_and_nothing_is_lost(path: Path) -> None:
    trace = read(required(path), jobs=1).trace()
    job = read(path, jobs=1)
    frame, found, work = modules(job).frame, modules_of(trace), device_work(trace)
    sums = {name: frame[name].sum() for name in frame.columns if frame[name].dtype.is_integer()}
    roots = frame.filter(depth=0)
    assert (sums["host_self"], sums["device_self"]) == (roots["host_total"].sum(), roots["device_total"].sum())
    # Self time is the time in which a thread is in any module, forward or backward, each instant once.
    owned = found.owner & (found.node >= 0)
    covered = 0
    for track in np.unique(trace.track[owned]).tolist():
        rows = np.flatnonzero(owned & (trace.track == track))
        rows = rows[np.lexsort((-trace.end[rows], trace.start[rows]))]
        reach = np.maximum.accumulate(trace.end[rows])
        first = np.maximum(trace.start[rows][1:], reach[:-1])
        covered += int(trace.end[rows[0]] - trace.start[rows[0]] + np.maximum(reach[1:] - first, 0).sum())
    assert sums["host_self"] == covered
    launched = np.where(work.launch >= 0, work.launch, work.op)
    inside = (launched >= 0) & (found.node[launched] >= 0)
    assert sums["device_self"] == int(work.duration[inside].sum())
