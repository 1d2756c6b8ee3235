"""Torch's structured log of torch.compile, drawn: records as torch writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PRINT = "Failed to trace builtin operator"


def record(kind: str, metadata: dict[str, Any], payload: str = "", *, compile_id: str = "0/0", **more: Any) -> str:
    """One record, with the compile id of a frame and the lines of its payload."""
    frame, _, compilation = compile_id.partition("/")
    facts = {kind: metadata, "frame_id": int(frame), "frame_compile_id": int(compilation), "attempt": 0, **more}
    lines = "".join(f"\t{line}\n" for line in payload.split("\n")) if payload else ""
    return f"V1122 22:17:44.772000 23127 torch/_dynamo/utils.py:2350] {json.dumps(facts)}\n{lines}"


def metrics(compile_id: str, function: str, line: int, start_us: int, *took_us: int, **more: Any) -> str:
    """The metrics of a compilation; `took_us` are torch's cumulative times, each a part of the one before."""
    names = ("dynamo", "aot_autograd", "inductor", "inductor_code_gen")
    times = {f"{name}_cumulative_compile_time_us": each for name, each in zip(names, took_us, strict=False)}
    place = {"co_name": function, "co_filename": "/home/me/model.py", "co_firstlineno": line}
    facts = {"compile_id": compile_id, **place, "start_time_us": start_us, **times, **more}
    return record("compilation_metrics", facts, compile_id=compile_id)


def backward(compile_id: str, start_us: int, whole_us: int, inductor_us: int, **more: Any) -> str:
    """The metrics of the compilation of a backward pass."""
    times = {"backward_cumulative_compile_time_us": whole_us, "inductor_cumulative_compile_time_us": inductor_us}
    return record("bwd_compilation_metrics", {"start_time_us": start_us, **times, **more}, compile_id=compile_id)


def artifact(name: str, payload: str, compile_id: str = "0/0", **more: Any) -> str:
    """An artifact, such as the reasons of a recompilation."""
    return record("artifact", {"name": name, "encoding": "string"}, payload, compile_id=compile_id, **more)


def graph_break(line: int, compile_id: str, *, words: str = "Graph Break Reason", lead: str = "", **more: Any) -> str:
    """A graph break at a line of `model.py`, in the words of this torch."""
    reason = f"{lead}{PRINT}\n  Explanation: Dynamo does not know `print`.\n  Hint: Avoid calling it.\n  Hint: Or not."
    stack = f'  File "/home/me/model.py", line {line}, in forward\n    print("norm")  # planted\n    ^^^^^\n'
    head = f"Graph break in user code at /home/me/model.py:{line}\n{words}: {reason}\n\nUser code traceback:\n{stack}"
    raised = (
        'Traceback (most recent call last):\n  File "/torch/_dynamo/exc.py", line 727, in unimplemented\n    raise\n'
    )
    payload = f"{head}\n{raised}torch._dynamo.exc.Unsupported: {PRINT}\n"
    return artifact("dynamo_graph_break_reason", payload, compile_id, **more)


def written_log(folder: Path, *records: str, name: str = "dedicated_log_torch_trace_x.log") -> Path:
    """The folder of a run, with its log in `compile`."""
    (folder / "compile").mkdir(exist_ok=True)
    (folder / "compile" / name).write_text("".join(records))
    return folder
