"""What annotations of a graph's nodes say, in every form in which torch writes them."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope import annotations as ranges
from kinetoscope import kernels, modules, operators
from kinetoscope.errors import InputError, NotATraceError
from kinetoscope.model.execution.call_tree import call_tree
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.graphs.annotated import (
    Call,
    annotated_keys,
    dumped_paths,
    work_annotations,
)
from kinetoscope.model.graphs.calls_of_graph import CallsOfGraph, calls_of_annotations, with_annotations
from kinetoscope.model.graphs.replays import node_ids
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.steps.steps import steps
from kinetoscope.model.trace.captured_calls import CaptureSource
from kinetoscope.model.trace.trace import Trace
from kinetoscope.reading import read
from tests import drawn
from tests.model.graphs.drawn_graphs import INLINE, WRITERS, Node, inline, replay

NODES = (
    Node("gemm", 1, annotation={"module_fqn": "layers.0.wq", "name": "attention"}, stream=13),
    Node("gemm", 2, annotation={"module_fqn": "layers.0.wk"}, stream=14, lane=61),
    Node("norm", 3, annotation={"name": "sampling", "autograd_phase": "backward"}),
    Node("plain", 4),
)


def frame(name: str) -> Call:
    return Call("python_function", name)


def module(name: str) -> Call:
    return frame(f"nn.Module: {name}")


def span(name: str) -> Call:
    return Call("user_annotation", name)


def drawn_trace(folder: Path, form: str, nodes: tuple[Node, ...] = NODES) -> Trace:
    written, top = WRITERS[form]
    return drawn.job(folder, *replay(nodes, 0, 0, written=written), **top).trace()


@pytest.mark.parametrize("form", WRITERS)
def test_every_form_says_the_same(tmp_path: Path, form: str) -> None:
    trace = drawn_trace(tmp_path, form)
    found = work_annotations(trace, device_work(trace).rows)
    assert [found.paths[path] if path >= 0 else () for path in found.path.tolist()] == [
        (module("layers"), module("0"), module("wq"), span("attention")),
        (module("layers"), module("0"), module("wk")),
        (span("autograd_phase: backward"), span("sampling")),
        (),
    ]
    assert found.backward.tolist() == [False, False, True, False]


@pytest.mark.parametrize("form", WRITERS)
def test_modules_and_ranges_see_through_the_replays(tmp_path: Path, form: str) -> None:
    written, top = WRITERS[form]
    events = [event for number in range(3) for event in replay(NODES, 1000 * number, number, written=written)]
    job = drawn.job(tmp_path, drawn.python("nn.Module: Net_0", 0, 5000), *events, **top)
    rows = modules(job).frame.select("path", "calls", "device_self").rows()
    assert [(path, calls) for path, calls, _ in rows] == [
        ("Net_0", 1),
        ("Net_0/layers", 3),
        ("Net_0/layers/0", 3),
        ("Net_0/layers/0/wk", 3),
        ("Net_0/layers/0/wq", 3),
    ]
    assert [time for *_, time in rows] == [60, 0, 0, 30, 30]
    assert {row["name"]: row["device_total"] for row in ranges(job).frame.to_dicts()} == {
        "attention": 30,
        "autograd_phase: backward": 30,
        "sampling": 30,
    }
    captured = job.trace().captured
    assert captured is not None
    assert set(captured.source.tolist()) == {CaptureSource.ANNOTATIONS}


def test_a_captured_range_can_be_selected(tmp_path: Path) -> None:
    written, top = WRITERS["2.15 in place"]
    events = [event for number in range(3) for event in replay(NODES, 1000 * number, number, written=written)]
    job = drawn.job(tmp_path, drawn.annotation("run", 0, 1500), *events, **top)

    def chosen(name: str) -> dict[str, int]:
        rows = kernels(job, select=Selection(annotation=name)).frame.to_dicts()
        return {row["name"]: row["calls"] for row in rows}

    assert chosen("attention") == {"gemm": 3}
    assert chosen("sampling") == {"norm": 3}
    assert chosen("run") == {"gemm": 4, "norm": 2, "plain": 2}


def test_captured_ranges_are_no_steps(tmp_path: Path) -> None:
    nodes = [Node("k", n + 1, annotation={"name": f"Optimizer.step#Adam.step {n}"}) for n in range(8)]
    events = [event for number in range(8) for event in replay(nodes, 1000 * number, number, written=inline)]
    assert steps(drawn.job(tmp_path, *events, **INLINE).trace()).origin == "window"


def test_the_backward_pass_of_a_module(tmp_path: Path) -> None:
    """Captured in one graph with the forward pass, as torchtitan and whole training steps are."""
    forward = {"module_fqn": "layers.0"}
    nodes = (
        Node("gemm", 1, annotation=forward),
        Node("dgrad", 2, 25, annotation={**forward, "autograd_phase": "backward"}),
    )
    (_, row) = modules(drawn.job(tmp_path, *replay(nodes, 0, 0, written=WRITERS["2.15 in place"][0]))).frame.to_dicts()
    assert [row[name] for name in ("path", "device_forward", "device_backward")] == ["layers/0", 10, 25]


@pytest.mark.torch
def test_the_script_of_torch_writes_what_is_drawn(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch.cuda._annotate_cuda_graph_trace", reason="torch 2.12 or 2.13 has the script")
    trace: dict[str, Any] = {"traceEvents": replay(NODES, 0, 0)}
    torch.annotate_trace(trace, {node.node: [{**node.annotation}] for node in NODES if node.annotation})
    by_torch = drawn.job(tmp_path, *trace["traceEvents"]).trace()
    found = work_annotations(by_torch, device_work(by_torch).rows)
    by_us = drawn_trace(tmp_path, "2.12 post-processed")
    expected = work_annotations(by_us, device_work(by_us).rows)
    assert (found.paths, found.path.tolist()) == (expected.paths, expected.path.tolist())
    assert found.backward.tolist() == expected.backward.tolist()


@pytest.mark.parametrize(
    ("form", "streams"),
    [("2.12 post-processed", [7, 61, 7, 7]), ("2.14 on lanes", [13, 14, 7, 7]), ("2.15 in place", [13, 14, 7, 7])],
)
def test_the_stream_is_the_one_that_work_ran_on(tmp_path: Path, form: str, streams: list[int]) -> None:
    """Only the script of 2.12 and 2.13 overwrites it."""
    assert device_work(drawn_trace(tmp_path, form)).stream.tolist() == streams


def test_of_two_streams_of_one_name_the_original_counts(tmp_path: Path) -> None:
    """Early builds of 2.14 wrote the lane as a second `stream` behind the first."""
    kernel = json.dumps(drawn.kernel("gemm", 0, 10, 1, stream=13))
    text = kernel.replace('"stream": 13', '"stream": 13, "stream": 61, "original_stream": 13')
    file = tmp_path / "twice.json"
    file.write_text('{"traceEvents": [' + text + "]}")
    assert device_work(read(file, jobs=1).trace()).stream.tolist() == [13]


def test_what_was_no_dictionary_is_a_name(tmp_path: Path) -> None:
    kernel = drawn.kernel("gemm", 0, 10, 1, annotation="('a', 1)")
    trace = drawn.job(tmp_path, kernel).trace()
    assert work_annotations(trace, device_work(trace).rows).paths == ((span("('a', 1)"),),)


def test_empty_annotations_say_nothing(tmp_path: Path) -> None:
    nodes = Node("a", 1, annotation={"module_fqn": "..", "name": ""}), Node("b", 2, annotation={"name": "x"})
    trace = drawn_trace(tmp_path, "2.15 in place", nodes)
    found = work_annotations(trace, device_work(trace).rows)
    assert found.path.tolist()[0] == -1
    assert found.paths[found.path[1]] == (span("x"),)


def test_keys_that_somebody_chose(tmp_path: Path) -> None:
    annotation = {"name": "moe", "layer": "7", "Process Group Description": "tp"}
    trace = drawn_trace(
        tmp_path, "2.15 in place", (Node("a", 1, annotation=annotation, args={"grid": [1, 1, 1]}), Node("b", 2))
    )
    assert annotated_keys(trace, device_work(trace).rows) == ("name", "layer")


def test_ids_of_nodes_with_and_without_that_of_the_graph(tmp_path: Path) -> None:
    both: Any = {"graph id": 3, "graph node id": 5}
    whole: Any = {"graph node id": 3 << 32 | 6}
    none: Any = {"graph id": 0, "graph node id": 0}
    kernels = [drawn.kernel("k", 10 * n, 5, 1, **ids) for n, ids in enumerate((both, whole, none, {}))]
    trace = drawn.job(tmp_path, *kernels).trace()
    graph, node = node_ids(trace, device_work(trace).rows)
    assert (graph.tolist(), node.tolist()) == ([3, 3, -1, -1], [5, 6, -1, -1])


def test_stacks_in_a_file_of_their_own() -> None:
    stack = "model.py:12:forward\ntrain.py:90:main"
    assert dumped_paths(json.dumps({"4294967301": stack}), "stacks") == {
        (1 << 32) + 5: (frame("train.py(90): main"), frame("model.py(12): forward"))
    }


def test_annotations_in_a_file_of_their_own() -> None:
    text = json.dumps({"7": [{"module_fqn": "a.b"}, {"name": "x"}], "8": "", "9": ["loose"], "10": {"other": 1}})
    assert dumped_paths(text, "dump") == {7: (module("a"), module("b"), span("x")), 9: (span("loose"),)}


def test_stacks_and_annotations_from_a_file_count_with_those_of_the_trace(tmp_path: Path) -> None:
    """The ids of a file hold those of graph and node; a trace may have the node's alone."""
    nodes = Node("gemm", 1, annotation={"name": "attention"}), Node("norm", 2), Node("plain", 3)
    stack = "model.py:12:forward\ntrain.py:90:main"
    dump = tmp_path / "stacks.json.gz"
    dump.write_bytes(gzip.compress(json.dumps({str(5 << 32 | 1): stack, str(5 << 32 | 2): stack}).encode()))
    events = [event for n in range(2) for event in replay(nodes, 1000 * n, n, graph=5, written=inline)]
    job = read(drawn.written(tmp_path / "run.json", *events, **INLINE), capture=dump, jobs=1)
    trace = job.trace()
    work = device_work(trace)
    assert [stack_of(trace, int(call)) for call in work.captured[:3]] == [
        ["train.py(90): main", "model.py(12): forward", "attention"],
        ["train.py(90): main", "model.py(12): forward"],
        [],
    ]
    frames = operators(job, python=True).frame.filter(name="model.py(12): forward").to_dicts()
    assert [(row["calls"], row["device_total"]) for row in frames] == [(2, 40)]


def stack_of(trace: Trace, call: int) -> list[str]:
    parent, names = call_tree(trace).parent, list[str]()
    while call >= trace.recorded:
        names.append(trace.strings.label(int(trace.name[call])))
        call = int(parent[call])
    return names[::-1]


def test_a_file_of_annotations_is_no_trace(tmp_path: Path) -> None:
    dump = tmp_path / "stacks.json"
    dump.write_text(json.dumps({str(5 << 32): "model.py:1:f"}))
    with pytest.raises(NotATraceError, match=r"annotations of the nodes of CUDA graphs; name the trace .* --capture"):
        read(dump, jobs=1).trace()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"traceEvents": []}', '{"1": "a", "b": "c"}'])
def test_other_files_are_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"dump\.json"):
        dumped_paths(text, "dump.json")


PATHS = st.lists(st.lists(st.sampled_from("abc"), max_size=4).map(lambda names: tuple(map(span, names))), max_size=12)


def path_to(calls: CallsOfGraph, call: int) -> tuple[Call, ...]:
    """The calls around a call, and it, outermost first."""
    if call < 0:
        return ()
    category, name = (calls.spell(code)[0].decode() for code in (calls.category[call], calls.name[call]))
    return (*path_to(calls, int(calls.parent[call])), Call(category, name))


@given(paths=PATHS)
def test_calls_nest_as_the_paths_say(paths: list[tuple[Call, ...]]) -> None:
    nested = calls_of_annotations(paths)
    assert [path_to(nested, call) for call in nested.node.tolist()] == [*paths]
    assert (nested.parent < np.arange(len(nested.parent))).all()
    # A call is opened anew only where the node before was not inside it.
    for place in range(1, len(paths)):
        agree = [a == b for a, b in zip(paths[place - 1], paths[place], strict=False)]
        shared = next((level for level, same in enumerate(agree) if not same), len(agree))
        opened = [n for n in range(len(nested.name)) if _first_node(nested.node, nested.parent, n) == place]
        assert len(opened) == len(paths[place]) - shared


def _first_node(of_node: Any, parent: Any, wanted: int) -> int:
    for place, call in enumerate(of_node.tolist()):
        while call >= 0:
            if call == wanted:
                return place
            call = int(parent[call])
    return -1


# --- together with a capture


def op(name: str) -> Call:
    return Call("cpu_op", name)


def captured(*paths: tuple[Call, ...]) -> CallsOfGraph:
    """The calls of a capture in which each node has calls of its own."""
    calls = calls_of_annotations([each for path in paths for each in (path, ())])
    return _of_capture(replace(calls, node=calls.node[::2]))


def _of_capture(calls: CallsOfGraph) -> CallsOfGraph:
    codes = sorted({*calls.category, *calls.name})
    return replace(
        calls,
        source=CaptureSource.CAPTURE,
        label="capture_8",
        spell=lambda code: calls.spell(codes[code]),
        category=[codes.index(code) for code in calls.category],
        name=[codes.index(code) for code in calls.name],
    )


def test_annotations_lie_around_the_operators_of_a_capture() -> None:
    capture = captured((span("capture"), op("aten::linear"), op("aten::mm")), (span("capture"), op("aten::add")))
    both = with_annotations(capture, [(module("layers"), span("attention")), ()])
    assert (both.source, both.label) == (CaptureSource.BOTH, "capture_8")
    assert [path_to(both, call) for call in both.node.tolist()] == [
        (span("capture"), module("layers"), span("attention"), op("aten::linear"), op("aten::mm")),
        (span("capture"), op("aten::add")),
    ]


def test_a_capture_with_python_calls_knows_the_modules() -> None:
    capture = captured((module("Net_0"), span("attention"), op("aten::mm")))
    both = with_annotations(capture, [(module("layers"), span("attention"), span("more"))])
    assert path_to(both, int(both.node[0])) == (module("Net_0"), span("attention"), span("more"), op("aten::mm"))


def test_a_call_of_a_capture_stays_one_call() -> None:
    """Also where its nodes have different annotations, or nodes of another call are between them."""
    paths = [(span("a"), op("x")), (span("b"), op("y"))]
    calls = calls_of_annotations(paths[:2])
    capture = _of_capture(replace(calls, node=calls.node[[0, 1, 0]]))
    assert len(with_annotations(capture, [(), (), ()]).name) == 4
    both = with_annotations(capture, [(span("p"),), (), (span("q"),)])
    assert [path_to(both, call)[:2] for call in both.node.tolist()] == [
        (span("a"), span("p")),
        (span("b"), op("y")),
        (span("a"), span("q")),
    ]
    assert sum(call.name == "a" for n in range(len(both.name)) for call in path_to(both, n)[-1:]) == 1
