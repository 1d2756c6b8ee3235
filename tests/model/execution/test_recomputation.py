"""What torch's profiler records of a forward pass that the backward pass computes again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kinetoscope import read
from kinetoscope.model.execution import autograd

torch = pytest.importorskip("torch", reason="torch is not installed: `make test-recorder` installs it")
pytestmark = pytest.mark.torch

from torch.profiler import ProfilerActivity, profile  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402


@pytest.mark.parametrize(
    ("way", "again"),
    [
        ("plain", []),
        ("reentrant", ["aten::addmm"] * 2),
        ("not reentrant", ["aten::addmm"] * 2),
        ("gradients twice", []),
    ],
)
def test_of_what_torch_records_only_checkpointing_computes_again(tmp_path: Path, way: str, again: list[str]) -> None:
    """Gradients of gradients are computed with gradients on, too, and are no part of the forward pass."""
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8))
    image = torch.randn(4, 8, requires_grad=True)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        if way == "plain":
            model(image).sum().backward()
        elif way == "gradients twice":
            out = model(image).sum()
            (gradient,) = torch.autograd.grad(out, image, create_graph=True)
            (out + gradient.square().sum()).backward()
        else:
            checkpoint(model, image, use_reentrant=way == "reentrant").sum().backward()
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    trace = read(tmp_path / "trace.json").trace()
    rows = np.flatnonzero(autograd.recomputed_ops(trace)).tolist()
    assert [name for name in trace.strings.labels(trace.name[rows].tolist()) if name.endswith("mm")] == again
