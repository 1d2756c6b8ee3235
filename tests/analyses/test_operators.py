"""Operators: against a brute-force twin, and torch's own tables."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope import operators
from kinetoscope.model.execution.call_tree import call_tree, whole_calls
from kinetoscope.model.execution.calls import call_name, call_names
from kinetoscope.model.memory.allocator import allocations
from kinetoscope.model.steps.selection import ALL, Selection
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.recording import not_recorded
from kinetoscope.model.trace.trace import Trace
from kinetoscope.reading import read
from kinetoscope.schema import Result
from tests.catalog.samples import required
from tests.drawn import Event, annotation, event, job, kernel, launch, memory, op, python
from tests.nesting import around, whole

OWN = Path(__file__).parents[1] / "traces"
SHARED = Path(__file__).resolve().parents[3] / "shared"

NUMBERS = (
    "calls",
    "host_total",
    "host_self",
    "device_total",
    "device_self",
    "device_total_busy",
    "device_self_busy",
    "host_memory_total",
    "host_memory_self",
)
Key = tuple[str, ...]


def by_key(result: Result, *keys: str, numbers: tuple[str, ...] = NUMBERS) -> dict[Key, list[int | None]]:
    rows = {tuple(row[key] for key in keys): [row[n] for n in numbers] for row in result.frame.iter_rows(named=True)}
    assert len(rows) == len(result)
    return rows


def load(path: Path) -> Any:
    content = path.read_bytes()
    return json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)


def shared(*parts: str) -> Path:
    path = SHARED.joinpath(*parts)
    required(path)
    return path


# --- matrix units


def test_what_matrix_units_can_compute_and_do(tmp_path: Path) -> None:
    fast, plain, unknown = "ampere_fp16_s16816gemm_fp16", "volta_sgemm_128x32_nn", "my_kernel"
    events = [
        annotation("forward", 0, 100),
        op("aten::linear", 0, 50),
        op("aten::addmm", 5, 40),
        *(launch(10, 2, 1), launch(13, 2, 2), launch(16, 2, 3)),
        *(kernel(fast, 20, 30, 1), kernel(plain, 60, 10, 2), kernel(unknown, 80, 100, 3)),
        op("my::fused", 60, 20),
        *(launch(62, 2, 4), kernel(fast, 200, 5, 4)),
        op("aten::add", 85, 10),
        *(launch(86, 2, 5), kernel("at::native::vectorized_elementwise_kernel", 300, 5, 5)),
        op("aten::view", 97, 1),
    ]
    rows = by_key(
        operators(job(tmp_path, *events)),
        "name",
        numbers=("matrix_eligible", "matrix_self_share", "matrix_total_share", "host_mean", "device_mean"),
    )
    del rows["cudaLaunchKernel",]
    assert rows == {
        ("forward",): [True, None, 0.7, 100, 150],
        ("aten::linear",): [True, None, 0.75, 50, 140],
        ("aten::addmm",): [True, 0.75, 0.75, 40, 140],
        ("my::fused",): [True, 1.0, 1.0, 20, 5],
        ("aten::add",): [False, 0.0, 0.0, 10, 5],
        ("aten::view",): [False, None, None, 1, 0],
    }


# --- the brute-force twin

KINDS = {"cpu_op": "operator", "user_annotation": "annotation", "cuda_runtime": "runtime", "python_function": "python"}


@dataclass(frozen=True, eq=False)
class Node:
    event: Event
    around: Node | None

    @property
    def name(self) -> str:
        return re.sub("ProfilerStep#.*", "ProfilerStep*", str(self.event["name"]))

    @property
    def kind(self) -> str:
        return KINDS[self.event["cat"]]

    @property
    def key(self) -> Key:
        return self.name, self.kind

    @property
    def asynchronous(self) -> bool:
        return self.name.startswith("gloo:")

    @property
    def path(self) -> list[Node]:
        """It, what is around it, and so on."""
        return [self, *(self.around.path if self.around else [])]

    @property
    def repeats(self) -> bool:
        """Whether it may be the call around it once more."""
        start, end = span(self.event)
        return self.around is not None and start < end <= span(self.around.event)[1]


def span(drawn: Event) -> tuple[int, int]:
    start = round(drawn["ts"] * 1000)
    return start, start + round(drawn["dur"] * 1000)


def nested(events: list[Event]) -> list[Node]:
    nodes = []
    for tid in (1, 2):
        here = [each for each in events if each["tid"] == tid and each.get("cat") in KINDS]
        here = sorted(here, key=lambda each: (span(each)[0], -span(each)[1]))
        nodes += [Node(each, None) for each in here if each["name"].startswith("gloo:")]
        here = [each for each in here if not each["name"].startswith(("gloo:", "aten::is_leaf"))]
        inside = list[Node]()
        for each, above in zip(here, around(here), strict=True):
            inside.append(Node(each, inside[above] if above >= 0 else None))
        nodes += inside
    return nodes


def without_repeats(nodes: list[Node]) -> list[Node]:
    """Leaves out what lies directly in a call of its name and kind."""
    return [node for node in nodes if not (node.around and node.around.key == node.key and node.repeats)]


@dataclass(frozen=True)
class Twin:
    """What `operators` says, worked out one event and one instant at a time."""

    events: list[Event]
    time: tuple[int, int] | None
    hidden: set[str]

    def of(self, category: str) -> list[Event]:
        return [each for each in self.events if each.get("cat") == category]

    def length(self, drawn: Event) -> int:
        return len(self.instants(drawn))

    def instants(self, drawn: Event) -> range:
        (start, end), (low, high) = span(drawn), self.limits
        return range(max(start, low), min(end, high))

    @property
    def limits(self) -> tuple[int, int]:
        origin = min(round(each["ts"] * 1000) for each in self.events)
        return (origin + self.time[0], origin + self.time[1]) if self.time else (-1000, 1000)

    @property
    def allocated(self) -> list[tuple[int, int]]:
        return [(round(each["ts"] * 1000), each["args"]["Bytes"]) for each in self.events if each["ph"] == "i"]

    def within(self, drawn: Event, until: int, since: int = 0) -> int:
        (start, end), (low, high) = span(drawn), self.limits
        return len(range(max(start, low, since), min(end, until, high)))

    def change(self, drawn: Event, until: int = 1000, since: int = 0) -> int:
        (start, end), (low, high) = span(drawn), self.limits
        start, end = since + 1 if since > start else start, until - 1 if until < end else end
        return sum(size for when, size in self.allocated if max(start, low) <= when <= min(end, high - 1))

    def host(self, shown: list[Node]) -> dict[Key, list[int]]:
        """Calls, time and memory."""
        low, high = self.limits
        rows: dict[Key, list[int]] = defaultdict(lambda: [0] * 5)

        def add(to: Node, *values: int) -> None:
            rows[to.key] = [a + b for a, b in zip(rows[to.key], values, strict=True)]

        for node in shown:
            begins = int(low <= span(node.event)[0] < high)
            time, change = (self.length(node.event), self.change(node.event)) if node.asynchronous else (0, 0)
            add(node, begins, time, 0, change, 0)
        for tid in (1, 2):
            here = [node for node in shown if node.event["tid"] == tid and not node.asynchronous]
            parents, until = whole([node.event for node in here])
            for k, (node, parent, end) in enumerate(zip(here, parents, until, strict=True)):
                own = self.within(node.event, end), self.change(node.event, end)
                add(node, 0, 0, own[0], 0, own[1])
                if parent >= 0:
                    add(here[parent], 0, 0, -own[0], 0, -own[1])
                # Of calls of one name that run at once the first one has the instant.
                before = [span(each.event)[1] for each in here[:k] if each.key == node.key]
                since = max([span(node.event)[0], *before])
                total = self.within(node.event, 1000, since), self.change(node.event, 1000, since)
                add(node, 0, total[0], 0, total[1], 0)
        return rows

    def device(self, everything: list[Node], shown: list[Node]) -> dict[Key, list[list[Event]]]:
        """The work launched in each row, and that launched by it."""
        rows: dict[Key, list[list[Event]]] = defaultdict(lambda: [[], []])
        for work in filter(self.length, self.of("kernel")):
            by = [
                each for each in self.of("cuda_runtime") if each["args"]["correlation"] == work["args"]["correlation"]
            ]
            launches = [node for node in everything if by and node.event is by[0]]
            path = [node for launch in launches for node in launch.path if node in shown]
            for key in {node.key for node in path}:
                rows[key][0].append(work)
            for node in ([node for node in path if node.kind != "runtime"] or path)[:1]:
                rows[node.key][1].append(work)
        return rows

    def answer(self) -> dict[Key, list[int | None]]:
        everything = nested(self.events)
        shown = [node for node in without_repeats(everything) if node.kind not in self.hidden]
        launched = self.device(everything, shown)
        found: dict[Key, list[int | None]] = {}
        for key, (calls, *times, total, own) in self.host(shown).items():
            parts = [[self.instants(work) for work in some] for some in launched[key]]
            sums = [sum(map(len, some)) for some in parts] + [len(set().union(*some)) for some in parts]
            if self.time is None or calls or times[0] or sums[0]:
                device = sums if any(some for some, _ in launched.values()) else [None] * 4
                found[key] = [calls, *times, *device, *((total, own) if self.allocated else (None, None))]
        return found | self.outside(shown)

    def outside(self, shown: list[Node]) -> dict[Key, list[int | None]]:
        spans = [span(node.event) for node in shown]
        selected = [(when, size) for when, size in self.allocated if self.limits[0] <= when < self.limits[1]]
        alone = [size for when, size in selected if not any(start <= when <= end for start, end in spans)]
        return {("[memory]", "memory"): [len(alone), *[None] * 6, sum(alone), sum(alone)]} if alone else {}


NAMES = st.sampled_from(["a", "a", "b", "ProfilerStep#1", "ProfilerStep#22", "aten::is_leaf"])
START, DURATION, THREAD = st.integers(0, 15), st.integers(0, 12), st.integers(1, 2)


def drawn_launch(start: int, duration: int, correlation: int, tid: int) -> Event:
    return launch(start, duration, correlation, tid=tid)


def drawn_kernel(start: int, duration: int, correlation: int, stream: int) -> Event:
    return kernel("k", start, duration, correlation, stream=stream)


EVENTS = st.one_of(
    st.builds(op, NAMES, START, DURATION, tid=THREAD),
    st.builds(op, NAMES, START, DURATION, tid=THREAD),
    st.builds(annotation, st.sampled_from(["a", "ProfilerStep#3", "gloo:all_reduce"]), START, DURATION, tid=THREAD),
    st.builds(python, st.sampled_from(["a", "f"]), START, DURATION, tid=THREAD),
    st.builds(drawn_launch, START, DURATION, st.integers(1, 3), THREAD),
    st.builds(drawn_kernel, st.integers(0, 25), st.integers(1, 9), st.integers(1, 4), st.integers(7, 8)),
    st.builds(memory, st.integers(0, 25), st.integers(-9, 9)),
)


@given(
    events=st.lists(EVENTS, min_size=1, max_size=14),
    time=st.none() | st.tuples(st.integers(0, 9), st.integers(10, 20)),
    show_python=st.booleans(),
    runtime=st.sampled_from(["separate", "include"]),
)
def test_twin(
    tmp_path_factory: pytest.TempPathFactory,
    events: list[Event],
    time: tuple[int, int] | None,
    show_python: bool,
    runtime: Literal["separate", "include"],
) -> None:
    drawn = job(tmp_path_factory.getbasetemp(), *events)
    result = operators(drawn, select=Selection(time=time), python=show_python, runtime=runtime)
    hidden = {*([] if show_python else ["python"]), *(["runtime"] if runtime == "include" else [])}
    assert by_key(result, "name", "kind") == Twin(events, time, hidden).answer()


# --- small cases


def test_where_device_work_is_charged(tmp_path: Path) -> None:
    drawn = job(
        tmp_path,
        op("outer", 0, 100),
        op("inner", 10, 50),
        launch(20, 5, 1),
        launch(70, 5, 2),
        launch(200, 5, 3, name="cudaGraphLaunch"),
        kernel("k", 30, 40, 1, stream=7),
        kernel("k", 50, 40, 2, stream=8),
        kernel("k", 300, 7, 3),
        kernel("k", 310, 3, 3),
        kernel("Memcpy DtoH", 400, 2, 9, category="gpu_memcpy"),
    )
    result = operators(drawn)
    assert by_key(result, "name", numbers=NUMBERS[3:7]) == {
        ("outer",): [80, 40, 60, 40],
        ("inner",): [40, 40, 40, 40],
        ("cudaGraphLaunch",): [10, 10, 10, 10],
        ("cudaLaunchKernel",): [80, 0, 60, 0],
    }
    assert result.frame["name"].to_list() == ["inner", "outer", "cudaGraphLaunch", "cudaLaunchKernel"]
    lost, alone = result.notes[:2]
    assert lost.startswith(
        "1 of 5 pieces of device work (2.2% of device time) are in no row: what launched them was not"
    )
    assert alone.startswith("2 of 5 pieces of device work (10.9% of device time) were launched outside all operators:")
    included = operators(drawn, runtime="include")
    assert by_key(included, "name", numbers=("host_self", "device_self")) == {
        ("outer",): [50, 40],
        ("inner",): [50, 40],
    }


def test_without_its_launch_work_goes_to_the_operator_of_its_external_id(tmp_path: Path) -> None:
    same: dict[str, Any] = {"External id": 5}
    drawn = job(tmp_path, op("a", 0, 9, **same), kernel("k", 20, 4, 77, **same))
    assert by_key(operators(drawn), "name", numbers=("device_total", "device_self")) == {("a",): [4, 4]}


def test_busy_time_of_devices_adds_up(tmp_path: Path) -> None:
    drawn = job(tmp_path, launch(0, 9, 1), kernel("k", 5, 4, 1), kernel("k", 6, 4, 1), kernel("k", 5, 4, 1, device=1))
    assert operators(drawn).frame["device_self_busy"].to_list() == [5 + 4]


def test_memory_of_host_and_devices(tmp_path: Path) -> None:
    instants = memory(5, 100), memory(10, -30), memory(6, 8, device=0), memory(30, 7), memory(31, 1, device=1)
    result = operators(job(tmp_path, op("a", 5, 5), op("b", 7, 3), *instants))
    columns = [f"{what}_memory_{part}" for what in ("host", "device") for part in ("total", "self")]
    assert by_key(result, "name", numbers=("calls", *columns)) == {
        ("a",): [1, 70, 100, 8, 8],
        ("b",): [1, -30, -30, 0, 0],
        ("[memory]",): [2, 7, 7, 1, 1],
    }
    only_host = operators(job(tmp_path, op("a", 0, 9), memory(1, 4)))
    assert only_host.frame["device_memory_total"].to_list() == [None]


def test_shapes_and_overloads(tmp_path: Path) -> None:
    def add(start: int, name: str, dims: Any) -> Event:
        return op(name, start, 5, **{"Input Dims": dims})

    drawn = job(tmp_path, add(0, "aten::add.Tensor", [[2], []]), add(10, "aten::add.Scalar", [[2], []]),
                add(20, "aten::add", [[[3], [4]]]), op("b", 30, 5), annotation("my::own.range", 40, 5))  # fmt: skip
    assert by_key(operators(drawn), "name", "kind", numbers=("calls",)) == {
        ("aten::add", "operator"): [3],
        ("b", "operator"): [1],
        ("my::own.range", "annotation"): [1],
    }
    assert by_key(operators(drawn, group_by="shapes"), "name", "input_shapes", numbers=("calls",)) == {
        ("aten::add", "[[2], []]"): [2],
        ("aten::add", "[[[3], [4]]]"): [1],
        ("b", None): [1],
        ("my::own.range", None): [1],
    }


def test_stacks(tmp_path: Path) -> None:
    calls = python("main", 0, 99), python("f", 10, 30), op("a", 15, 5), op("a", 30, 6), op("a", 50, 7), op("a", 200, 8)
    drawn = job(tmp_path, *calls)
    rows = by_key(operators(drawn, group_by="stack"), "name", "call_stack", numbers=("calls", "host_self"))
    assert rows == {("a", "main;f"): [2, 11], ("a", "main"): [1, 7], ("a", None): [1, 8]}
    with_python = by_key(operators(drawn, group_by="stack", python=True), "name", "call_stack", numbers=("host_self",))
    assert with_python[("f", "main")] == [30 - 11]
    assert operators(drawn).frame["call_stack"].null_count() == len(operators(drawn))


def test_selection_of_a_step(tmp_path: Path) -> None:
    steps = [annotation(f"ProfilerStep#{n}", 100 * n, 90) for n in (1, 2)]
    work = [kernel("k", 195, 50, 1), kernel("k", 290, 10, 2)]
    drawn = job(tmp_path, *steps, op("a", 110, 20), op("a", 210, 30), launch(120, 5, 1), launch(220, 5, 2), *work)
    result = operators(drawn, select=Selection(steps=(2,)))
    assert by_key(result, "name", numbers=("calls", "host_total", "device_total"))[("a",)] == [1, 30, 10]
    assert by_key(result, "name", numbers=("calls",))[("ProfilerStep*",)] == [1]


def test_range_of_time(tmp_path: Path) -> None:
    calls = op("around", 0, 100), op("inside", 50, 30), op("after", 200, 10)
    work = launch(60, 1, 1), launch(90, 1, 2), kernel("k", 65, 20, 1), kernel("k", 100, 9, 2)
    drawn = job(tmp_path, *calls, *work, memory(40, 1), memory(69, 10), memory(70, 100))
    result = operators(drawn, select=Selection(time=(40, 70)), runtime="include")
    assert by_key(
        result, "name", numbers=("calls", "host_total", "host_self", "device_total", "host_memory_total")
    ) == {
        ("around",): [0, 30, 10, 5, 11],
        ("inside",): [1, 20, 20, 5, 10],
    }


def test_what_is_not_in_the_table_is_said(tmp_path: Path) -> None:
    result = operators(job(tmp_path, op("a", 0, 9), python("f", 1, 2)), group_by="shapes")
    assert result.notes == (
        not_recorded("device work", "the columns of device time are empty"),
        "Input shapes were not recorded (record_shapes=True records them): rows are by name only.",
        "Memory was not recorded (profile_memory=True records it): its columns are empty.",
        "Python calls have no rows (there are 1; python=True): the call around them has their time.",
    )
    assert result.frame["device_total"].to_list() == [None]
    [_, stacks, *_] = operators(job(tmp_path, op("a", 0, 9)), group_by="stack").notes
    assert stacks == "Call stacks were not recorded (with_stack=True records them): rows are by name only."
    assert operators(job(tmp_path, event("kernel", "k", 0, 5)), select=ALL).frame.height == 0


# --- torch's own tables

BY_TORCH = [
    *[(OWN, OWN, name) for name in ("mlp", "mlp_default", "conv", "transformer", "dataloader", "leak")],
    *[
        (SHARED / "traces" / "torch_2_13_cpu", SHARED / "golden" / "key_averages", name)
        for name in ("mlp", "mlp_default", "conv", "transformer", "compile", "dataloader2", "leak", "leak_light")
    ],
]


def flat(shapes: str | None) -> str:
    """Shapes as `key_averages` gives them: of a list of tensors it says []."""
    dims = None if shapes is None else json.loads(shapes)
    return json.dumps(dims and [[] if any(isinstance(size, list) for size in each) else each for each in dims])


def golden_key_averages(path: Path, table: str) -> dict[Key, list[int]]:
    found: dict[Key, list[int]] = {}
    for row in load(path)[table]:
        times = [round(row[name] * 1000) for name in ("cpu_time_total", "self_cpu_time_total")]
        shapes = flat(json.dumps(row["input_shapes"])) if table == "by_shape" else ""
        key = row["key"], "annotation" if row["is_user_annotation"] else "", shapes
        found[key] = [row["count"], *times, row["cpu_memory_usage"], row["self_cpu_memory_usage"]]
    return found


@pytest.mark.parametrize("table", ["key_averages", "by_shape"])
@pytest.mark.parametrize(("traces", "golden", "name"), BY_TORCH, ids=lambda part: part if isinstance(part, str) else "")
def test_equals_key_averages(traces: Path, golden: Path, name: str, table: str) -> None:
    file = f"{name}.key_averages.json.gz" if golden == OWN else f"{name}.json.gz"
    trace = traces / f"{name}.pt.trace.json.gz"
    required(trace)
    result = operators(read(trace), python=True, group_by="shapes" if table == "by_shape" else "name")
    found: dict[Key, list[int]] = defaultdict(lambda: [0] * 5)
    for row in result.frame.iter_rows(named=True):
        shapes = flat(row["input_shapes"]) if table == "by_shape" else ""
        key = row["name"], "annotation" if row["kind"] == "annotation" else "", shapes
        names = ("calls", "host_total", "host_self", "host_memory_total", "host_memory_self")
        found[key] = [old + (row[name] or 0) for old, name in zip(found[key], names, strict=True)]
    peer = golden_key_averages(golden / file, table)
    assert all(row[2] >= 0 for row in found.values())
    # What torch counts twice differs, and nothing else.
    twice = counted_twice(read(trace).trace())
    assert {key[0] for key in found.keys() | peer.keys() if found.get(key) != peer.get(key)} <= twice
    if table == "key_averages":
        assert torch_rules(read(trace).trace()) == peer


def counted_twice(trace: Trace) -> set[str]:
    """The names of calls in calls of their name, of those that overlap in part, and of the calls around these."""
    tree, whole, names, rows = call_tree(trace), whole_calls(trace), call_names(trace), set[int]()
    for row in np.flatnonzero(tree.member).tolist():
        above, cut = int(whole.parent[row]), whole.until[row] < trace.end[row]
        if cut:
            rows |= {row, above}
        while above >= 0:
            if names[above] == names[row]:
                rows.add(row)
            above = int(whole.parent[above])
    return {call_name(trace.strings.label(int(names[row])), int(trace.kind[row])) for row in rows if row >= 0}


def torch_rules(trace: Trace) -> dict[Key, list[int]]:
    """`key_averages` by its own rules: calls of one name add up, and what lies inside as a whole is taken off.

    It leaves out a call that is the only one in a call of its name.
    """
    changes, names = allocations(trace, of_host=True), call_names(trace)
    members = np.flatnonzero(call_tree(trace).member).tolist()
    parent = {row: int(whole_calls(trace).parent[row]) for row in members}
    children = Counter(parent.values())
    again = [row for row, above in parent.items() if above >= 0 and names[row] == names[above] and children[above] == 1]
    values = np.stack([trace.end - trace.start, changes.change_within(trace.start, trace.end)]).tolist()
    found: dict[Key, list[int]] = defaultdict(lambda: [0] * 5)
    for row in parent.keys() - set(again):
        above = parent[row]
        while above in set(again):
            above = parent[above]
        for each, sign in ((row, 1), (above, -1)):
            if each < 0:
                continue
            kind = "annotation" if trace.kind[each] == EventKind.ANNOTATION else ""
            key = call_name(trace.strings.label(int(names[each])), int(trace.kind[each])), kind, ""
            time, memory = (sign * every[row] for every in values)
            added = (1, time, time, memory, memory) if sign > 0 else (0, 0, time, 0, memory)
            found[key] = [old + new for old, new in zip(found[key], added, strict=True)]
    return found
