"""The join of replays with captures: right where something tells, refused where nothing does, and never wrong."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope import graph_nodes, graphs, idle_breakdown, operators
from kinetoscope import kernels as kernels_of
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.graphs.templates import templates
from kinetoscope.model.trace.trace import Trace
from kinetoscope.reading import read
from tests import drawn
from tests.conftest import ROOT, few_examples
from tests.model.graphs.drawn_captures import Answer, Graph, Program, answer, joined

SAMPLE = ROOT.parent / "shared" / "samples" / "serving" / "vllm_decode_full"
PIECES = [Graph("ab"), *[Graph("xyx")] * 4, Graph("yz")]


def notes(trace: Trace) -> str:
    assert trace.captured is not None
    return " ".join(trace.captured.notes)


@pytest.mark.parametrize("rocm", [True, False])
def test_pieces_with_the_same_kernels_are_told_by_their_order(tmp_path: Path, rocm: bool) -> None:
    """Piecewise graphs of one size: layers have the same kernels; the recording begins in the midst of a step."""
    program = Program(PIECES, rocm)
    program.capture(*range(len(PIECES)), label="capture_8_PIECEWISE")
    captured = len(program.events)
    program.step("execute_new_0_cached_7", 3, 4, 5)
    for _ in range(2):
        program.step("execute_new_0_cached_7", *range(len(PIECES)))
    assert answer(joined(tmp_path, program, captured)) == program.truth


def test_answers_that_rest_on_operators_say_which_replays_have_them(tmp_path: Path) -> None:
    program = Program([Graph("ab"), Graph("abc")])
    program.capture(0)
    captured = len(program.events)
    program.replay(0)
    program.replay(1)
    joined(tmp_path, program, captured)
    job = read(tmp_path / "run.json", capture=tmp_path / "capture.json", jobs=1)
    said = [note for note in operators(job).notes if "CUDA graphs" in note][1:]
    assert said[0].startswith("2 of 5 kernels, copies and sets in replays of CUDA graphs have the operators of their")
    assert said[1] == "1 replay of CUDA graphs matches no capture trace: no operators are assigned."
    assert not set(said) & set(idle_breakdown(job).notes)


def test_a_capture_trace_that_cannot_be_read_does_not_keep_the_run_from_being_read(tmp_path: Path) -> None:
    program = Program([Graph("ab")])
    program.capture(0)
    captured = len(program.events)
    program.replay(0)
    joined(tmp_path, program, captured)
    job = read(tmp_path / "run.json", capture=tmp_path / "capture.json", jobs=1)
    (tmp_path / "capture.json").write_text("[")
    assert "A capture trace is left out: " in notes(job.trace())
    assert operators(job).frame["device_total"].to_list() == [20]


def test_the_size_of_the_step_tells_graphs_with_the_same_kernels_apart(tmp_path: Path) -> None:
    program = Program([Graph("ab")] * 3)
    for graph, size in enumerate((32, 16, 8)):
        program.capture(graph, label=f"capture_{size}_FULL")
    captured = len(program.events)
    for batch, graph in ((3, 2), (16, 1), (17, 0), (8, 2)):
        program.step(f"execute_context_0(0)_generation_{batch}({batch})", graph)
    assert answer(joined(tmp_path, program, captured)) == program.truth


def test_a_shorter_last_graph_is_a_template_of_its_own_where_its_capture_tells(tmp_path: Path) -> None:
    """Piecewise graphs: no attention follows the last layer, so the last piece ends sooner than those before."""
    program = Program([Graph("xy"), *[Graph("abcab")] * 3, Graph("abc")])
    program.capture(*range(5), label="capture_8_PIECEWISE")
    captured = len(program.events)
    program.step("execute_new_0_cached_7", *range(5))
    trace = joined(tmp_path, program, captured)
    assert answer(trace) == program.truth
    assert templates(trace).nodes.tolist() == [2, 5, 3]
    assert templates(trace).is_whole.all()
    assert templates(read(tmp_path / "run.json", capture="off", jobs=1).trace()).is_whole.tolist() == [True] * 4 + [
        False
    ]


def test_nodes_of_a_graph_are_of_the_module_that_launches_it_where_the_capture_names_none(tmp_path: Path) -> None:
    """Piecewise graphs are captured, and launched, inside a module's call."""
    program = Program([Graph("ab")])
    program.capture(0)
    captured, began = len(program.events), program.time
    program.replay(0)
    program.events.append(drawn.python("nn.Module: Layer_0", began, program.time - began))
    joined(tmp_path, program, captured)
    job = read(tmp_path / "run.json", capture=tmp_path / "capture.json", jobs=1)
    assert graphs(job).frame["module_share"].to_list() == [1.0]
    assert graph_nodes(job).frame["module"].to_list() == ["Layer_0"] * 2


def test_mangled_names_of_launches_are_those_of_kernels(tmp_path: Path) -> None:
    """ROCm's launches name kernels as its compiler does; the kernels of a trace are demangled when it is read."""
    program = Program([Graph(("_Z3addPfi", "_Z3mulPfi"))])
    program.capture(0)
    captured = len(program.events)
    program.replay(0)
    assert answer(joined(tmp_path, program, captured)) == program.truth


def test_captures_of_another_recording_take_no_operators_away(tmp_path: Path) -> None:
    """All captures of a folder are given; that of another size is no part of the round that is replayed."""
    program = Program([Graph("xy"), *[Graph("abcab")] * 3, Graph("abc")])
    program.capture(*range(5), label="capture_8_PIECEWISE")
    captured = len(program.events)
    program.step("execute_new_0_cached_7", *range(5))
    other = Program([Graph("abcabz"), Graph("zzzz")])
    other.capture(0, 1, label="capture_4_FULL")
    (tmp_path / "capture_traces").mkdir()
    drawn.written(tmp_path / "capture_traces" / "graph_capture_2.json", *other.events)
    drawn.written(tmp_path / "capture_traces" / "graph_capture_1.json", *program.events[:captured])
    trace = read(program.written(tmp_path / "run.json", captured), jobs=1).trace()
    assert len(trace.source.files("capture")) == 2
    assert answer(trace) == program.truth


def test_captures_that_nothing_tells_apart_are_refused_and_said(tmp_path: Path) -> None:
    program = Program([Graph("ab")] * 2)
    for graph in (0, 1):
        program.capture(graph, label=f"capture_{graph}_FULL")
    captured = len(program.events)
    for graph in (1, 0, 0):
        program.replay(graph)
    trace = joined(tmp_path, program, captured)
    assert answer(trace) == [[None, None]] * 3
    assert "3 replays of CUDA graphs may be of several captures that differ" in notes(trace)


def test_graph_ids_grow_from_capture_to_capture(tmp_path: Path) -> None:
    program = Program([Graph("ab")] * 3, rocm=False)
    for graph in range(3):
        program.capture(graph, label=f"capture_{8 - graph}_FULL")
    captured = len(program.events)
    for graph in (2, 0, 1, 1):
        program.replay(graph, graph_id=10 + 7 * graph)
    assert answer(joined(tmp_path, program, captured)) == program.truth


def test_launches_of_all_threads_count_but_not_those_that_start_work(tmp_path: Path) -> None:
    program = Program([Graph(["a", "b", "Memcpy DtoD", "c"], thread_of=(1, 2, 2, 1))])
    program.capture(0)
    begin = next(event for event in program.events if event["name"].endswith("BeginCapture"))
    other = program.call("LaunchKernel", tid=3, kernel="q")
    program.events[-1]["ts"] = begin["ts"] + 0.06
    program.events.append(drawn.kernel("q", program.time, 10, other, stream=9))
    captured = len(program.events)
    program.replay(0)
    assert answer(joined(tmp_path, program, captured)) == program.truth


def test_a_run_before_the_capture_names_kernels_where_cuda_does_not(tmp_path: Path) -> None:
    """Two captures of as many nodes: a program without graph ids replays the second one."""
    program = Program([Graph("ab", operator="aten::one"), Graph("cd", operator="aten::two")], rocm=False)
    for graph in (0, 1):
        program.run(graph)
        program.capture(graph)
    captured = len(program.events)
    for graph in (1, 1, 0):
        program.replay(graph)
    for event in program.events[captured:]:
        event["args"].pop("graph id", None)
    trace = joined(tmp_path, program, captured)
    assert answer(trace) == program.truth
    assert "have the operators of their capture: 6 by the kernel's name, or its grid and block." in notes(trace)


def test_a_replay_before_its_capture_replays_another(tmp_path: Path) -> None:
    program = Program([Graph("ab"), Graph("ab")])
    for graph in (0, 1):
        program.capture(graph, label=f"capture_{graph}_FULL")
        program.replay(graph)
        if not graph:
            first = len(program.truth)
    trace = read(program.written(tmp_path / "run.json"), jobs=1).trace()
    assert answer(trace)[:first] == program.truth[:first]


@pytest.mark.parametrize("rocm", [True, False])
def test_a_replay_that_the_recording_cut_off_is_joined_as_far_as_it_goes(tmp_path: Path, rocm: bool) -> None:
    program = Program([Graph("abcab")], rocm)
    program.capture(0)
    captured = len(program.events)
    program.replay(0)
    program.replay(0, kept=slice(3))
    assert answer(joined(tmp_path, program, captured)) == program.truth


def test_the_only_replay_of_a_graph_is_refused_where_it_may_be_cut_off(tmp_path: Path) -> None:
    program = Program([Graph("abcab"), Graph("abc")])
    program.capture(0, 1)
    captured = len(program.events)
    program.replay(0, kept=slice(3))
    trace = joined(tmp_path, program, captured)
    assert answer(trace) == [[None] * 3]
    assert "1 replay of CUDA graphs may be of several captures that differ" in notes(trace)


def test_replayed_kernels_have_the_grid_of_the_capture_where_they_have_none_themselves(tmp_path: Path) -> None:
    program = Program([Graph("ab")])
    program.capture(0)
    captured = len(program.events)
    for place, event in enumerate(event for event in program.events if "kernel" in event["args"]):
        event["args"] |= {"grid": [place + 3, 1, 1], "block": [64, 1, 1]}
    program.replay(0)
    program.replay(0)
    joined(tmp_path, program, captured)
    found = read(tmp_path / "run.json", capture=tmp_path / "capture.json", jobs=1)
    rows = kernels_of(found).frame.select("name", "grid", "block", "calls").sort("name").rows()
    assert rows == [("a", "[3, 1, 1]", "[64, 1, 1]", 2), ("b", "[4, 1, 1]", "[64, 1, 1]", 2)]


def test_copies_that_replays_do_not_record_are_left_out(tmp_path: Path) -> None:
    program = Program([Graph(["a", "Memcpy DtoD", "b", "Memset"])])
    program.capture(0)
    captured = len(program.events)
    program.replay(0, order=[0, 2])
    assert answer(joined(tmp_path, program, captured)) == program.truth


def test_threads_may_capture_at_the_same_time(tmp_path: Path) -> None:
    program = Program([Graph("ab"), Graph("cd")], rocm=False)
    program.capture(0)
    count, time = len(program.events), program.time
    program.capture(1)
    for event in program.events[count:]:
        event |= {"tid": 2, "ts": event["ts"] - (time - 30) / 1000}
    captured = len(program.events)
    program.replay(1)
    program.replay(0)
    assert answer(joined(tmp_path, program, captured)) == [program.truth[0], program.truth[1]]


def test_functions_of_the_host_are_no_nodes_with_work(tmp_path: Path) -> None:
    program = Program([Graph("ab")], rocm=False)
    program.capture(0)
    begin = next(event for event in program.events if event["name"].endswith("BeginCapture"))
    program.call("LaunchHostFunc")
    program.events[-1]["ts"] = begin["ts"] + 0.06
    captured = len(program.events)
    program.replay(0)
    assert answer(joined(tmp_path, program, captured)) == program.truth


def test_rocm_copies_by_kernels(tmp_path: Path) -> None:
    program = Program([Graph(["a", "Memcpy DtoD", "b"])])
    program.capture(0)
    captured = len(program.events)
    program.replay(0)
    for event in program.events[captured:]:
        if event["name"].startswith("Memcpy"):
            event |= {"name": "__amd_rocclr_copyBuffer", "cat": "kernel"}
    assert answer(joined(tmp_path, program, captured)) == program.truth


def test_alike_captures_need_no_telling_apart(tmp_path: Path) -> None:
    program = Program([Graph("ab")] * 2)
    program.capture(0, 1)
    captured = len(program.events)
    for event in program.events:
        event["args"].pop("Input Dims", None)
    program.replay(1)
    trace = joined(tmp_path, program, captured)
    assert (device_work(trace).captured >= 0).all()


@pytest.mark.slow
@pytest.mark.skipif(not SAMPLE.exists(), reason="needs the shared samples")
def test_a_real_replay_as_cuda_would_record_it_has_the_operators_that_rocm_tells(tmp_path: Path) -> None:
    """Launches name no kernels, and nodes have ids: of a real capture and replay, by order and kind."""
    capture = next((SAMPLE / "capture_traces").iterdir())
    for file, name in ((SAMPLE / "graph_execution.json.gz", "run.json"), (capture, "capture.json")):
        text = gzip.decompress(file.read_bytes()).decode()
        trace = json.loads(re.sub(r"\bhip(?:Ext)?(?:Module)?(?=[A-Z])", "cuda", text))
        for number, event in enumerate(trace["traceEvents"]):
            if event.get("cat") == "cuda_runtime":
                event["args"].pop("kernel", None)
            elif event.get("cat") == "kernel":
                event["args"] |= {"graph id": 3, "graph node id": number} if "grid" not in event["args"] else {}
        (tmp_path / name).write_text(json.dumps(trace))
    ours = read(tmp_path / "run.json", capture=tmp_path / "capture.json").trace()
    theirs = read(SAMPLE, jobs=1).trace()
    names = [trace.strings.labels(trace.name[device_work(trace).op].tolist()) for trace in (ours, theirs)]
    assert names[0] == names[1]
    assert "421 of 421 " in notes(ours)


kernels = st.lists(st.sampled_from("abc"), min_size=1, max_size=5)


@st.composite
def programs(draw: st.DrawFn, rocm: bool) -> tuple[Program, int]:
    """Graphs in rounds of several sizes, some with the same kernels, captured and then replayed in any order.

    Work of two streams begins in any order that keeps that of each stream; the streams have kernels of their own.
    """
    layers = draw(st.lists(kernels, min_size=1, max_size=3))
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3, unique=True))
    graphs = list[Graph]()
    for _ in sizes:
        for layer in layers:
            streams = draw(st.lists(st.integers(1, draw(st.integers(1, 2))), min_size=len(layer), max_size=len(layer)))
            graphs.append(Graph([f"{name}{stream}" for name, stream in zip(layer, streams, strict=True)], streams))
    program = Program(graphs, rocm)
    named = draw(st.booleans())
    for place, size in enumerate(sizes):
        own = range(place * len(layers), (place + 1) * len(layers))
        program.capture(*own, label=f"capture_{8 * size}_PIECEWISE" if named else "")
    captured = len(program.events)
    steps = draw(st.integers(1, 4))
    lost = draw(st.integers(0, len(layers[-1]) - 1))  # nodes of the last replay that the recording cut off
    for step in range(steps):
        place = draw(st.integers(0, len(sizes) - 1))
        smaller = max((8 * size for size in sizes if size < sizes[place]), default=0)
        batch = draw(st.integers(smaller + 1, 8 * sizes[place]))
        began = program.time
        own = range(place * len(layers), (place + 1) * len(layers))
        for graph in own:
            order = draw(orders(graphs[graph].streams))
            is_last = step == steps - 1 and graph == own[-1]
            program.replay(graph, order=order, kept=slice(len(order) - lost if is_last else None))
        name = f"step[DECODE bs={batch}]" if draw(st.booleans()) else "mine"
        program.events.append(drawn.annotation(name, began, program.time - began))
    return program, captured


@st.composite
def orders(draw: st.DrawFn, streams: Sequence[int]) -> list[int]:
    """Places in an order that keeps those of each stream."""
    left = {stream: [place for place, of in enumerate(streams) if of == stream] for stream in set(streams)}
    return [left[stream].pop(0) for stream in draw(st.permutations(streams))]


def is_right(found: Answer, truth: Answer) -> bool:
    """What is told is true."""
    pairs = [pair for one, other in zip(found, truth, strict=True) for pair in zip(one, other, strict=True)]
    return all(got in (None, want) for got, want in pairs)


@few_examples
@pytest.mark.parametrize("rocm", [True, False])
@given(st.data())
def test_what_is_joined_is_right(tmp_path_factory: pytest.TempPathFactory, rocm: bool, data: st.DataObject) -> None:
    program, captured = data.draw(programs(rocm))
    found = answer(joined(tmp_path_factory.getbasetemp(), program, captured))
    assert is_right(found, program.truth)
    whole = len(program.truth[-1]) == len(program.graphs[program.truth[-1][0][0]].kernels)  # type: ignore[index]
    if rocm and whole and len({graph.kernels[0] for graph in program.graphs}) == len(program.graphs):
        assert found[0] == program.truth[0]
