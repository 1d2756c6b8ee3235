"""Compiled kernels: each call joined with its place in generated code, and what is eager beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope import compiled_kernels, flame, kernels, modules, operator_stacks, read
from kinetoscope.model.compile.kernels import compiled_calls
from kinetoscope.model.job import Job
from tests.drawn import Event, annotation, kernel, launch, op, python, written
from tests.model.compile.drawn_files import ADD, NORM, compiled, log, printed, record, triton
from tests.notes import codes

MM = "ampere_sgemm_32x32"


def called(start: int, *names: str, key: str = "fkey", first: int = 1, **args: Any) -> list[Event]:
    """A call of a compiled graph at `start`: each of these kernels 100 ns apart, with 10, 20, 30 … ns on the device."""
    events = [annotation(f"## Call CompiledFxGraph {key} ##", start, 100 * len(names) + 50)]
    for place, name in enumerate(names):
        at, correlation = start + 100 * place + 10, first + place
        events += [
            op(name, at, 40, **args),
            launch(at + 10, 10, correlation, name="cuLaunchKernel"),
            kernel(MM if "::" in name else name, at + 30, 10 * (place + 1), correlation),
        ]
    return events


def job(folder: Path, events: list[Event], *records: str) -> Job:
    file = written(folder / "trace.json", *events)
    return read(file, compile=log(folder / "logs", *records) if records else "off", jobs=1)


def rows(frame: pl.DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return frame.sort("kernel", "total").select(columns).rows()


GRAPH = (
    record("inductor_post_grad_graph", printed(("relu", 10), ("norm", 20), ("relu_2", 30), ("mm", 40))),
    compiled(triton(f"{ADD}|relu|b", f"{NORM}|norm|b", "extern_kernels.mm|mm|b", f"{ADD}|relu_2|b"), "fkey"),
)
CALLED = (ADD, NORM, "aten::mm", ADD)


def test_the_nth_call_of_a_name_is_the_nth_in_the_code(tmp_path: Path) -> None:
    events = [*called(0, *CALLED), *called(1000, *CALLED, first=11), op("aten::add", 2000, 50)]
    events += [launch(2010, 10, 21), kernel("vectorized_add", 2040, 100, 21)]
    answer = compiled_kernels(job(tmp_path, events, *GRAPH), group_by="place")
    assert rows(answer.frame, "kernel", "origin", "operators", "source", "line", "calls", "total") == [
        (MM, "library", "aten::mm", "model.py:40", 40, 2, 60),
        (ADD, "fused", "aten::relu", "model.py:10", 10, 2, 20),
        (ADD, "fused", "aten::relu_2", "model.py:30", 30, 2, 80),
        (NORM, "fused", "aten::norm", "model.py:20", 20, 2, 40),
        ("vectorized_add", "eager", "aten::add", None, None, 1, 100),
    ]
    assert answer.frame["total"].sum() == 300
    assert answer.frame["share"].sum() == pytest.approx(1.0)
    assert "Of the time of computation: fused 46.7%, library 20.0%, eager 33.3%." in answer.notes
    assert "6 of 6 calls of fused kernels have the lines that they were made from." in answer.notes


def test_rows_of_one_kernel_have_the_lines_and_operators_of_all_its_places(tmp_path: Path) -> None:
    frame = compiled_kernels(job(tmp_path, called(0, *CALLED), *GRAPH)).frame
    assert rows(frame.filter(pl.col("kernel") == ADD), "calls", "source", "operators", "basis", "graph") == [
        (2, "model.py:10, 30", "aten::relu_2, aten::relu", "graph", "0/0 forward")
    ]
    assert frame.filter(pl.col("kernel") == NORM)["file"].to_list() == ["/home/user/model.py"]


def test_a_call_that_is_not_all_there_has_what_its_places_agree_in(tmp_path: Path) -> None:
    # One of the two calls of ADD lies before the recording: nobody knows which of the two the other one is.
    frame = compiled_kernels(job(tmp_path, called(0, NORM, "aten::mm", ADD), *GRAPH)).frame
    assert rows(frame, "kernel", "source") == [(MM, "model.py:40"), (ADD, None), (NORM, "model.py:20")]
    same = (compiled(triton(f"{ADD}|relu|b", f"{ADD}|relu|b"), "fkey"), GRAPH[0])
    frame = compiled_kernels(job(tmp_path, called(0, ADD), *reversed(same))).frame
    assert rows(frame, "source") == [("model.py:10",)]


def test_without_keys_the_order_of_kernels_tells_the_graph(tmp_path: Path) -> None:
    other = compiled(triton(f"{NORM}|norm|b", f"{ADD}|relu_2|b"), "", file="/tmp/other.py")
    graph = compiled(triton(f"{ADD}|relu|b", f"{NORM}|norm|b"), "", file="/tmp/one.py")
    lines = record("inductor_post_grad_graph", printed(("relu", 10), ("norm", 20), ("relu_2", 30)))
    events = [*called(0, ADD, NORM, key="f1"), *called(1000, NORM, ADD, key="f2", first=11)]
    frame = compiled_kernels(job(tmp_path, events, lines, graph, lines, other), group_by="place").frame
    assert set(rows(frame, "kernel", "source")) == {
        (ADD, "model.py:10"),
        (NORM, "model.py:20"),
        (ADD, "model.py:30"),
    }


def test_equal_graphs_that_say_different_things_tell_nothing(tmp_path: Path) -> None:
    code = triton(f"{ADD}|relu|b")
    first, second = (record("inductor_post_grad_graph", printed(("relu", line))) for line in (10, 11))
    one, two = (compiled(code, "", file=f"/tmp/{name}.py") for name in "ab")
    frame = compiled_kernels(job(tmp_path, called(0, ADD), first, one, second, two)).frame
    assert rows(frame, "origin", "operators", "source") == [("fused", "add_relu", None)]


def test_the_generated_file_among_python_calls_tells_the_graph(tmp_path: Path) -> None:
    name = f"c{'b' * 51}.py"
    code = triton(f"{ADD}|relu|b")
    records = [
        text
        for line, file in ((10, "/tmp/ca.py"), (11, f"/tmp/torchinductor_user/bb/{name}"))
        for text in (record("inductor_post_grad_graph", printed(("relu", line))), compiled(code, "", file=file))
    ]
    events = [*called(0, ADD), python(f"/tmp/torchinductor_user/bb/{name}(160): call", 5, 120)]
    traced = job(tmp_path, events, *records)
    assert rows(compiled_kernels(traced).frame, "source") == [("model.py:11",)]
    # The generated file is nobody's own; the line that it was made from is.
    stacks = operator_stacks(traced).frame.filter(pl.col("name") == ADD)
    assert stacks.select("file", "line", "function").rows() == [("/home/user/model.py", 11, "forward")]


def test_without_files_a_kernel_has_what_its_name_says(tmp_path: Path) -> None:
    answer = compiled_kernels(job(tmp_path, called(0, *CALLED)))
    assert rows(answer.frame, "kernel", "origin", "operators", "source", "basis") == [
        (MM, "library", "aten::mm", None, None),
        (ADD, "fused", "add_relu", None, None),
        (NORM, "fused", "native_layer_norm", None, None),
    ]
    assert "NO_COMPILE_FILES" in codes(answer.notes)


def test_a_kernel_whose_call_is_no_operator_is_told_by_its_launch(tmp_path: Path) -> None:
    events = [event for event in called(0, *CALLED) if event["name"] not in (ADD, NORM) or event["cat"] == "kernel"]
    frame = compiled_kernels(job(tmp_path, events, *GRAPH), group_by="place").frame
    assert rows(frame.filter(pl.col("origin") == "fused"), "kernel", "source") == [
        (ADD, "model.py:10"),
        (ADD, "model.py:30"),
        (NORM, "model.py:20"),
    ]


def test_calls_on_the_host_without_a_device(tmp_path: Path) -> None:
    name = "cpp_fused_add_relu_0"
    code = triton().replace("def call", f"{name} = async_compile.cpp_pybinding([], r'''\n''')\n\ndef call")
    code = code.replace("    return", f"    # [Provenance debug handles] {name}:1\n    {name}(buf0)\n    return")
    graph = compiled(
        code, "fkey", tables={"kernel_stack_traces": f'{{"{name}:1": ["  File \\"m.py\\", line 4, in f\\n"]}}'}
    )
    events = [
        annotation("## Call CompiledFxGraph fkey ##", 0, 100),
        op(f"graph_0_{name}", 10, 30),
        op("aten::mm", 50, 20),
        op("aten::add", 200, 50),
        op("aten::add_", 210, 20),
    ]
    answer = compiled_kernels(job(tmp_path, events, graph))
    assert rows(answer.frame, "kernel", "origin", "operators", "source", "total") == [
        ("aten::add", "eager", "aten::add", None, 50),
        ("aten::mm", "library", "aten::mm", None, 20),
        (f"graph_0_{name}", "fused", "add_relu", "m.py:4", 30),
    ]


def test_other_faces_have_the_lines_and_the_modules(tmp_path: Path) -> None:
    inputs = 'L_self_modules_a_parameters_w_: "f32[8]", L_self_modules_b_parameters_w_: "f32[8]"'
    records = (
        record({"dynamo_output_graph": {}}, printed(("relu", 10), ("norm", 20), inputs=inputs)),
        compiled(triton(f"{ADD}|relu|primals_1", f"{NORM}|norm|primals_2"), "fkey"),
    )
    traced = job(tmp_path, called(0, ADD, NORM), *records)
    assert kernels(traced).frame.sort("name").select("name", "source").rows() == [
        (ADD, "model.py:10"),
        (NORM, "model.py:20"),
    ]
    stacks = flame(traced).frame["stack"].to_list()
    assert any(f";{ADD} (model.py:10);{ADD}" in stack for stack in stacks)
    assert any(f";{NORM} (model.py:20);{NORM}" in stack for stack in stacks)
    assert modules(traced).frame.sort("path").select("path", "device_total").rows() == [("a", 10), ("b", 20)]


def test_a_program_without_compiled_code_has_no_rows(tmp_path: Path) -> None:
    answer = compiled_kernels(job(tmp_path, [op("aten::add", 0, 10)]))
    assert answer.frame.is_empty()
    assert codes(answer.notes) == ["NO_COMPILED_CODE"]


@given(st.lists(st.lists(st.sampled_from([ADD, NORM, "aten::mm"]), min_size=1, max_size=6), min_size=1, max_size=4))
def test_whole_calls_are_always_joined_in_order(
    tmp_path_factory: pytest.TempPathFactory, graphs: list[list[str]]
) -> None:
    folder = tmp_path_factory.mktemp("run")
    records, events = [], []
    for number, names in enumerate(graphs):
        lines = printed(*((f"n{place}", 100 * number + place + 1) for place in range(len(names))))
        calls = (f"{name.replace('aten::', 'extern_kernels.')}|n{place}|b" for place, name in enumerate(names))
        code = compiled(triton(*calls), f"f{number}", file=f"/tmp/{number}.py")
        records += [record("inductor_post_grad_graph", lines), code]
        events += called(1000 * number, *names, key=f"f{number}", first=10 * number + 1)
    traced = job(folder, events, *records)
    joined = compiled_calls(traced.engine.trace(traced.sources[0]))
    got = [joined.sites[site].lines.places[0].line for site in joined.site.tolist()]
    assert got == [100 * number + place + 1 for number, names in enumerate(graphs) for place in range(len(names))]


TRACES = Path(__file__).parents[1] / "traces"
RECORDED = (TRACES / "compiled", TRACES / "compiled_2_15")
"""Real recordings on the CPU with torch 2.13 and 2.15; the lines are those of `tests/traces/compiled.py`."""


def source_lines_of(*beginnings: str) -> str:
    """The numbers of the lines that begin so."""
    text = (TRACES / "compiled.py").read_text().splitlines()
    return ", ".join(str(at) for at, line in enumerate(text, 1) if line.strip().startswith(beginnings))


@pytest.mark.parametrize("run", RECORDED, ids=lambda run: run.name)
def test_each_fused_kernel_of_a_real_recording_leads_to_its_lines(run: Path) -> None:
    answer = compiled_kernels(read(run), group_by="place")
    fused = answer.frame.filter(pl.col("origin") == "fused")
    assert fused["calls"].sum() == 39  # 13 places in two graphs, three steps
    assert set(fused["basis"]) == {"stack traces"}
    assert "39 of 39 calls of fused kernels have the lines that they were made from." in answer.notes
    line = {name: source_lines_of(name) for name in ("hidden =", "return x +", "return torch.log_softmax")}
    first = fused.filter(pl.col("kernel").str.ends_with("cpp_fused_native_layer_norm_0"))
    assert first.select("source", "module", "graph").rows() == [
        (f"compiled.py:{line['hidden =']}", "blocks.0.norm", "0/0 forward")
    ]
    residual = fused.filter(pl.col("kernel").str.ends_with("cpp_fused_add_mul_native_layer_norm_tanh_2"))
    assert residual["source"].to_list() == [f"compiled.py:{line['hidden =']}, {line['return x +']}"]
    softmax = fused.filter(pl.col("operators").str.contains("log_softmax"))
    assert set(softmax["source"]) == {f"compiled.py:{line['return torch.log_softmax']}"}
    assert set(softmax["graph"]) == {"0/0 forward", "0/0 backward"}


@pytest.mark.parametrize("run", RECORDED, ids=lambda run: run.name)
def test_products_of_a_real_recording_lead_to_their_modules(run: Path) -> None:
    frame = compiled_kernels(read(run), group_by="place").frame
    products = frame.filter((pl.col("kernel") == "aten::addmm") & (pl.col("graph") == "0/0 forward"))
    assert sorted(products["module"]) == ["blocks.0.down", "blocks.0.up", "blocks.1.down", "blocks.1.up", "head"]
    assert products["source"].null_count() == 0
    # Outside the compiled model are the loss and the optimizer.
    eager = frame.filter(pl.col("origin") == "eager")["kernel"].to_list()
    assert {"aten::add_", "aten::nll_loss_nd"} <= set(eager)
    assert "aten::addmm" not in eager
