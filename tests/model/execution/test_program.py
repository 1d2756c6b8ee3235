"""What kind of program a trace is of, what it uses, and which options its recording had."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinetoscope.model.execution.program import optimizations_used, program_kind
from kinetoscope.model.trace.recording import recorded_options
from kinetoscope.reading import read
from tests.catalog.samples import required
from tests.drawn import Event, annotation, job, kernel, launch, memory, op, python


@pytest.mark.parametrize(
    ("events", "kind"),
    [
        ([op("autograd::engine::evaluate_function: AddmmBackward0", 0, 9)], "training"),
        ([op("aten::mm", 0, 9), annotation("Optimizer.step#AdamW.step", 10, 9)], "training"),
        ([launch(0, 5, 1, name="cudaGraphLaunch"), kernel("softmax_warp_backward<float>", 9, 9, 1)], "training"),
        ([op("aten::mm", 0, 9), annotation("execute_32_context_0(sq0sk0)_generation_32(sq32)", 0, 9)], "serving"),
        ([op("aten::mm", 0, 9), annotation("execute_context_2(14721)_generation_0(0)", 0, 9)], "serving"),
        ([op("aten::mm", 0, 9), annotation("step[DECODE bs=32]", 0, 9)], "serving"),
        ([op("aten::mm", 0, 9), python("sglang/srt/managers/scheduler.py(9): run_batch", 0, 9)], "serving"),
        ([op("aten::mm", 0, 9), annotation("execute_plan", 0, 9)], "inference"),
        ([op("aten::mm", 0, 9)], "inference"),
        ([kernel("gemm", 0, 9, 1)], "unknown"),
    ],
)
def test_what_a_program_does(events: list[Event], kind: str, tmp_path: Path) -> None:
    assert program_kind(job(tmp_path, *events).trace()) == kind


def test_what_it_uses_already(tmp_path: Path) -> None:
    assert optimizations_used(job(tmp_path, op("aten::mm", 0, 9)).trace()) == frozenset()
    events = [op("Torch-Compiled Region: 0/0", 0, 9), launch(2, 5, 1, name="hipGraphLaunch"), kernel("k", 9, 9, 1)]
    assert optimizations_used(job(tmp_path, *events).trace()) == {"compiled", "graphs"}


def test_which_options_left_something_behind(tmp_path: Path) -> None:
    bare = job(tmp_path, op("aten::mm", 0, 9)).trace()
    assert recorded_options(bare) == frozenset()
    shaped = op("aten::mm", 0, 9)
    shaped["args"] |= {"Input Dims": [[2, 2], [2, 2]], "Call stack": "train.py(3): f"}
    full = job(tmp_path, shaped, memory(3, 512)).trace()
    assert recorded_options(full) == {"record_shapes", "profile_memory", "with_stack"}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("traces/owlv2_h100", "inference"),
        ("traces/dlrm_ddp_v100_8rank/worker0_step_12.1694128201545.pt.trace.json.gz", "training"),
        ("traces/queue_length/rank0.json.gz", "training"),
        ("samples/serving/sglang_prefilldecode", "serving"),
        ("samples/serving/vllm_decode_full", "serving"),
    ],
)
def test_real_programs(name: str, kind: str, shared_traces: Path) -> None:
    path = shared_traces.parent / name
    required(path)
    assert program_kind(read(str(path), jobs=1).trace()) == kind
