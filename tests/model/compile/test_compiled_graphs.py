"""Generated code and provenance: what each call in it is made of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kinetoscope import read
from kinetoscope.model.compile.generated_code import CallSite, generated_code
from kinetoscope.model.compile.graphs import CompiledGraph, compiled_graphs
from kinetoscope.model.compile.provenance import printed_graph, source_text, stack_of
from kinetoscope.model.trace.trace import Trace
from tests.drawn import op, written
from tests.model.compile.drawn_files import ADD, FILE, NORM, compiled, log, printed, record, traceback, triton

CALLS = (f"{ADD}|relu|primals_1, buf0", "extern_kernels.mm|mm|buf0, reinterpret_tensor(primals_2, (8, 8), (1, 8), 0)")


def trace_with(folder: Path, file: Path | None) -> Trace:
    job = read(written(folder / "trace.json", op("aten::mm", 0, 5)), compile=file)
    return job.engine.trace(job.sources[0])


def graphs(folder: Path, *records: str) -> tuple[CompiledGraph, ...]:
    return compiled_graphs(trace_with(folder, log(folder / "logs", *records)))


def test_calls_in_generated_code_have_nodes_operators_and_inputs() -> None:
    code = generated_code(triton(*CALLS, handles=True), "code.py")
    assert (code.graph, code.inputs) == ("0_forward", ("primals_1", "primals_2"))
    kernel = code.kernels[ADD]
    assert (kernel.language, kernel.nodes, kernel.operators) == ("triton", ("relu_1",), ("aten.add", "aten.relu"))
    assert kernel.file == f"/tmp/torchinductor_user/ab/c{'0' * 51}.py"
    add, product = code.sites
    assert add == CallSite(ADD, add.line, f"{ADD}:1", ("relu",), ("aten.relu",), ("primals_1",))
    assert (product.callee, product.inputs) == ("aten::mm", ("primals_2",))


@pytest.mark.parametrize(
    ("line", "callee"),
    [
        (
            "    buf1 = torch.ops.aten._scaled_dot_product_flash_attention.default(a, b)",
            "aten::_scaled_dot_product_flash_attention",
        ),
        ("    buf2 = torch.ops.mkldnn._linear_pointwise.default(a)", "mkldnn::_linear_pointwise"),
        ("        extern_kernels.addmm(a, b, out=buf3)", "aten::addmm"),
    ],
)
def test_operators_of_libraries_are_named_as_in_a_trace(line: str, callee: str) -> None:
    assert [site.callee for site in generated_code(f"def call(args):\n{line}\n", "").sites] == [callee]


def test_text_of_kernels_and_other_calls_are_no_calls() -> None:
    text = (
        triton(CALLS[0]) + "\n    assert_size_stride(primals_1, (8,), (1,), 'torch.ops.aten.mm(x)')\n    print(aten)\n"
    )
    assert [site.callee for site in generated_code(text, "").sites] == [ADD]
    assert not generated_code("def call(\n'''\n\x00 = args", "").sites


def test_stack_traces_are_surer_than_mappings_and_those_than_names_of_nodes(tmp_path: Path) -> None:
    stacks = {f"{ADD}:1": [traceback(3, 9), traceback(3, 12), traceback(3, 9)]}
    mappings = {"cppCodeToPost": {f"{NORM}:2": ["norm_1"]}, "postToPre": {"norm_1": ["norm"]}, "version": 2.0}
    code = triton(f"{ADD}|relu|buf0", f"{NORM}|other|buf0", f"{ADD}|relu|buf1", handles=True)
    tables = {"node_mappings": json.dumps(mappings), "kernel_stack_traces": json.dumps(stacks)}
    (graph,) = graphs(
        tmp_path,
        record({"dynamo_output_graph": {"sizes": {}}}, printed(("norm", 20), ("relu", 30))),
        compiled(code, "fkey", tables=tables),
    )
    assert graph.key == "fkey"
    assert [(site.lines.basis, source_text(site.lines.places)) for site in graph.sites] == [
        ("stack traces", "model.py:9, 12"),
        ("node mappings", "model.py:20"),
        ("graph", "model.py:30"),
    ]
    assert graph.sites[0].lines.stacks[0] == f"{FILE}(3): forward;{FILE}(9): forward"


def test_what_is_said_about_one_compilation_is_not_said_about_another(tmp_path: Path) -> None:
    first = record("inductor_post_grad_graph", printed(("relu", 10)))
    second = record("inductor_post_grad_graph", printed(("relu", 11)), compilation=1)
    code = triton(f"{ADD}|relu|buf0")
    found = graphs(
        tmp_path,
        first,
        second,
        compiled(code, "fone", file="/tmp/a.py"),
        compiled(code, "ftwo", file="/tmp/b.py", compilation=1),
    )
    lines = {(graph.key, graph.compile_id): source_text(graph.sites[0].lines.places) for graph in found}
    assert lines == {("fone", "0/0"): "model.py:10", ("ftwo", "0/1"): "model.py:11"}


def test_a_kernel_works_for_the_module_whose_parameters_it_reads(tmp_path: Path) -> None:
    inputs = ", ".join(
        f'L_self_modules_{name}_: "f32[8][1]cuda:0"'
        for name in ("layers_modules_0_modules_fc_out_parameters_weight", "layers_modules_0_modules_ln_parameters_bias")
    )
    code = triton(f"{ADD}|relu|primals_1, primals_2", f"{NORM}|norm|primals_1", f"{ADD}|relu|buf0")
    backward = triton(f"{NORM}|norm|primals_2, tangents_1", graph="0_backward", inputs="primals_2, tangents_1")
    forward, back = graphs(
        tmp_path,
        record({"dynamo_output_graph": {"sizes": {}}}, printed(("relu", 10), inputs=inputs)),
        compiled(code, "ffwd", file="/tmp/fwd.py"),
        compiled(backward, "fbwd", file="/tmp/bwd.py"),
    )
    assert [site.module for site in forward.sites] == ["layers.0", "layers.0.fc_out", ""]
    assert [site.module for site in back.sites] == ["layers.0.ln"]


def test_graphs_that_differ_in_their_inputs_have_no_modules(tmp_path: Path) -> None:
    dynamo = record({"dynamo_output_graph": {}}, printed(("relu", 1), inputs="L_self_modules_a_parameters_w_"))
    (graph,) = graphs(tmp_path, dynamo, compiled(triton(f"{ADD}|relu|primals_1"), "f"))
    assert graph.sites[0].module == ""


def test_a_recorders_copy_of_a_file_adds_its_lines_and_no_second_graph(tmp_path: Path) -> None:
    name = f"c{'a' * 51}.py"
    code = triton(f"{ADD}|unknown|buf0").replace("%relu_1", "%unknown_1")
    folder = tmp_path / "compile" / "rank0"
    folder.mkdir(parents=True)
    (folder / name).write_text(code)
    line = generated_code(code, "").sites[0].line
    table = {name: [[line - 3, traceback(5, 6)], [line + 1, traceback(7)]]}
    (folder / "linemaps.json").write_text(json.dumps(table))
    log(tmp_path / "compile", compiled(code, "fkey", file=f"/tmp/torchinductor_user/aa/{name}"))
    (graph,) = compiled_graphs(trace_with(tmp_path, None))
    assert (graph.key, source_text(graph.sites[0].lines.places)) == ("fkey", "model.py:6")
    assert graph.sites[0].lines.basis == "line map"


def test_a_folder_of_torch_compile_debug_is_read_by_its_tables(tmp_path: Path) -> None:
    folder = tmp_path / "torch_compile_debug" / "run_1" / "torchinductor" / "model__0_inference_0.0"
    folder.mkdir(parents=True)
    (folder / "output_code.py").write_text(triton(f"{ADD}|relu|arg0_1", graph="0_inference", handles=True))
    mappings = {"cppCodeToPost": {f"{ADD}:1": ["relu_1"]}, "postToPre": {}, "version": 2.0}
    (folder / "inductor_provenance_tracking_node_mappings.json").write_text(json.dumps(mappings))
    (folder / "fx_graph_transformed.py").write_text(printed(("relu_1", 77)))
    (graph,) = compiled_graphs(trace_with(tmp_path, None))
    assert (graph.code.graph, source_text(graph.sites[0].lines.places)) == ("0_inference", "model.py:77")


def test_code_in_a_cache_of_vllm_has_the_lines_of_the_graph_nearest_to_it(tmp_path: Path) -> None:
    for rank, line in ((0, 50), (1, 60)):
        folder = tmp_path / "torch_compile_cache" / "1c65801a3d" / f"rank_{rank}_0"
        (folder / "backbone").mkdir(parents=True)
        pieces = printed(("relu", line)).replace("class GraphModule", "    class submod_0")
        (folder / "backbone" / "computation_graph.py").write_text(f"from __future__ import annotations\n{pieces}")
        (folder / "inductor_cache" / "xy").mkdir(parents=True)
        code = triton(f"{ADD}|relu|arg0_1", graph=f"{rank}_inference")
        (folder / "inductor_cache" / "xy" / f"c{'ab'[rank] * 51}.py").write_text(code)
    found = compiled_graphs(trace_with(tmp_path, tmp_path / "torch_compile_cache"))
    lines = {graph.code.graph: source_text(graph.sites[0].lines.places) for graph in found}
    assert lines == {"0_inference": "model.py:50", "1_inference": "model.py:60"}


@pytest.mark.parametrize("payload", ["", "[1]", "{", '{"cppCodeToPost": 3, "postToPre": {"a": 1}}', "[" * 100_000])
def test_a_table_of_another_form_tells_nothing(tmp_path: Path, payload: str) -> None:
    tables = {"node_mappings": payload, "kernel_stack_traces": payload}
    (graph,) = graphs(tmp_path, compiled(triton(f"{ADD}|x|buf0", handles=True), "f", tables=tables))
    assert graph.sites[0].lines.basis == ""


def test_a_printed_graph_has_the_line_of_each_node() -> None:
    text = printed(("a", 3), ("b", 4)) + "\n        # No stacktrace found for following nodes\n        c = aten.x(b)\n"
    assert printed_graph(text).lines == {"a": f"{FILE}(3): forward", "b": f"{FILE}(4): forward"}
    assert stack_of("no frame here") == ""


def test_names_of_two_graphs_are_not_mixed_up(tmp_path: Path) -> None:
    # `add` is one node for Dynamo and another one in the graph that Inductor compiled.
    dynamo = record({"dynamo_output_graph": {}}, printed(("add", 10), ("norm", 20)))
    inductor = record("inductor_post_grad_graph", printed(("add", 99), ("relu_1", 30), ("norm_1", 40)))
    twice = triton(f"{ADD}|add|b", f"{ADD}|norm|b", f"{NORM}|add|b")
    backward = triton(f"{ADD}|add|b", f"{ADD}|norm|b", graph="0_backward")
    forward, back = graphs(
        tmp_path,
        dynamo,
        inductor,
        compiled(twice, "f", file="/tmp/f.py"),
        inductor,
        compiled(backward, "b", file="/tmp/b.py"),
    )
    # A kernel that is called once has the nodes of its definition; else the call names nodes of Dynamo's.
    assert [source_text(site.lines.places) for site in forward.sites] == ["model.py:10", "model.py:20", "model.py:40"]
    # In a backward graph a node without a forward one has its own name.
    assert [source_text(site.lines.places) for site in back.sites] == ["model.py:99", "model.py:20"]


@pytest.mark.parametrize(
    "comments",
    [
        "# Source Nodes: [hidden, variance], Original ATen: [aten.mean, aten.mul]\n# hidden => mul_80",  # torch 2.1
        "# Topologically Sorted Source Nodes: [, hidden, variance], Original ATen: [aten.mean, aten.mul]",  # torch 2.8
        "# Unsorted Source Nodes: [hidden, variance], Original ATen: [aten.mean, aten.mul]",  # torch 2.6
    ],
)
def test_comments_of_any_version(comments: str) -> None:
    kernel = f"{ADD} = async_compile.triton('triton_', '''\n''', device_str='cuda')\n"
    indented = comments.replace("\n", "\n            ")
    code = f"{comments}\n{kernel}def call(args):\n        with torch.cuda._DeviceGuard(0):\n            {indented}\n"
    (site,) = generated_code(code + f"            {ADD}.run(arg0_1, buf0, 48, stream=stream0)\n", "").sites
    assert (site.nodes, site.operators, site.inputs) == (("hidden", "variance"), ("aten.mean", "aten.mul"), ("arg0_1",))


@pytest.mark.parametrize(
    "line",
    [
        " " * 100_000,
        "a" * 100_000 + "!",
        "    " + "a, " * 40_000,
        "# File: " + "1:1 in " * 20_000 + ", x",
        "# Source Nodes: [" + "], Original ATen: " * 5_000,
        "def forward(self, " + "a" * 100_000 + "!" + ")" * 50_000,
        "x" * (1 << 18),
    ],
)
def test_a_hostile_line_is_read_like_any_other(line: str) -> None:
    # A search whose time grows with the square of the line would not end while anybody waits.
    assert not generated_code(f"def call(args):\n{line}\n", "").sites
    assert not printed_graph(line).lines
