"""What torch.compile writes, drawn: generated files as Inductor lays them out, logs as TORCH_TRACE does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FILE = "/home/user/model.py"
ADD = "triton_poi_fused_add_relu_0"
NORM = "triton_red_fused_native_layer_norm_1"


def triton(*calls: str, graph: str = "0_forward", handles: bool = False, inputs: str = "primals_1, primals_2") -> str:
    """A generated file with two kernels and these calls, as torch 2.13 writes it for a GPU.

    Args:
        calls: `KERNEL|source nodes|arguments`; of an operator of a library its name as generated code calls it.
        graph: what the file says that it is.
        handles: whether provenance is tracked.
        inputs: of the graph.
    """
    lines = [f"# AOT ID: ['{graph}']", "import torch", "async_compile = AsyncCompile()", ""]
    for name, node, operators in ((ADD, "relu", "aten.add, aten.relu"), (NORM, "norm", "aten.native_layer_norm")):
        lines += [
            f"# kernel path: /tmp/torchinductor_user/ab/c{name[-1] * 51}.py",
            f"# Topologically Sorted Source Nodes: [{node}], Original ATen: [{operators}]",
            "# Source node to ATen node mapping:",
            f"#   {node} => {node}_1",
            "# Graph fragment:",
            f'#   %{node}_1 : Tensor "f32[8]" = call_function[target=torch.ops.aten.{node}.default](args = (%x,))',
            f"#   return %{node}_1",
            f"{name} = async_compile.triton('{name}', '''",
            "import triton",
            f"def {name}(in_ptr0, xnumel, XBLOCK):",
            "    aten.fake_call(in_ptr0)",
            "''', device_str='cuda')",
            "",
        ]
    lines += ["def call(args):", f"    {inputs} = args", "    args.clear()"]
    for number, call in enumerate(calls, 1):
        name, nodes, arguments = call.split("|")
        lines.append(f"    # Topologically Sorted Source Nodes: [{nodes}], Original ATen: [aten.{nodes}]")
        if handles:
            lines.append(f"    # [Provenance debug handles] {name}:{number}")
        run = ".run" if name in (ADD, NORM) else ""
        lines.append(f"    {name}{run}({arguments}, stream=stream0)")
    return "\n".join([*lines, "    return (buf0, )", ""])


def printed(*nodes: tuple[str, int], inputs: str = "x") -> str:
    """A graph as `print_readable` prints it: a node and its line each."""
    lines = ["class GraphModule(torch.nn.Module):", f"    def forward(self, {inputs}):"]
    for name, line in nodes:
        lines.append(f"        # File: {FILE}:{line} in forward, code: y = x + 1, or so")
        lines.append(f'        {name}: "f32[8][1]cuda:0" = torch.ops.aten.add.Tensor(x, 1);  x = None')
        lines.append("")
    return "\n".join(lines)


def record(kind: str | dict[str, Any], payload: str = "", *, frame: int = 0, compilation: int = 0) -> str:
    """A record of the log: of an artifact its name, else its key and value."""
    value = {"artifact": {"name": kind, "encoding": "json"}} if isinstance(kind, str) else kind
    ids = {"frame_id": frame, "frame_compile_id": compilation, "attempt": 0}
    head = f"V1122 22:17:44.542000 23127 torch/_inductor/graph.py:1] {json.dumps({**value, **ids})}\n"
    return head + "".join(f"\t{line}\n" for line in payload.splitlines())


def compiled(code: str, key: str = "", *, file: str = "", tables: dict[str, str] | None = None, **ids: int) -> str:
    """The records of one graph: its code, tables of provenance, and its key."""
    return "".join(
        (
            record({"inductor_output_code": {"filename": file}}, code, **ids),
            *(record(f"inductor_provenance_tracking_{name}", text, **ids) for name, text in (tables or {}).items()),
            record("fx_graph_cache_miss", json.dumps({"key": key, "components": []}), **ids) if key else "",
        )
    )


def log(folder: Path, *records: str) -> Path:
    """A file of TORCH_TRACE with these records."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "dedicated_log_torch_trace_rank_0_host_1.log"
    file.write_text("".join(records))
    return file


def traceback(*lines: int) -> str:
    """A stack trace as torch keeps it with a node: these lines of the model, the outermost first."""
    return "".join(f'  File "{FILE}", line {line}, in forward\n    y = self.inner(x)\n' for line in lines)
