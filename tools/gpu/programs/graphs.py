# mypy: disable-error-code="import-not-found, no-untyped-call, misc, untyped-decorator, unused-ignore"
"""CUDA graphs: a whole step, callables, and annotations of kernels where torch has them (2.12 and newer)."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import pickle
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

import kinetoscope
from tools.gpu.programs.asked import Asked, asked

_REPLAYS = 5


def network(told: Asked) -> tuple[nn.Module, torch.Tensor]:
    """A model and a batch, with nothing random in it."""
    width = 64 if told.small else 512
    layers = [each for _ in range(6) for each in (nn.Linear(width, width), nn.GELU())]
    return nn.Sequential(*layers).to(told.device), torch.randn(64, width, device=told.device)


def training(model: nn.Module, batch: torch.Tensor) -> Callable[[], None]:
    """A step that can be captured, after three beside the stream: what is made once is made by then."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    return step


def whole_step(told: Asked) -> dict[str, Any]:
    """Captured while our recorder waits, which records the capture; beside it the same step without a graph."""
    step = training(*network(told))
    with kinetoscope.profile(told.out / "eager", wait=0, warmup=1, active=_REPLAYS) as prof:
        for _ in range(_REPLAYS + 1):
            step()
            prof.step()
    with kinetoscope.profile(told.out / "whole_step", wait=2, warmup=1, active=_REPLAYS) as prof:
        step()
        prof.step()  # before the first step ends, `profile` records for want of steps, and no capture becomes a file
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        for _ in range(_REPLAYS + 2):
            graph.replay()
            prof.step()
    return {}


def callables(told: Asked) -> dict[str, Any]:
    """Forward and backward pass of a module, each a graph."""
    model, batch = network(told)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with kinetoscope.profile(told.out / "callables", wait=2, warmup=1, active=_REPLAYS) as prof:
        prof.step()
        graphed: Any = torch.cuda.make_graphed_callables(model, (batch,))
        for _ in range(_REPLAYS + 2):
            optimizer.zero_grad()
            graphed(batch).square().mean().backward()
            optimizer.step()
            prof.step()
    return {}


def annotated(told: Asked) -> dict[str, Any]:
    """Kernels of two ranges, whose names torch keeps; recorded by torch alone, which writes them to its trace."""
    noted = _annotations_of_torch()
    mark_kernels = noted.mark_kernels
    model, batch = network(told)
    with torch.no_grad():
        model(batch)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, enable_annotations=True):
            with mark_kernels({"name": "first pass", "module_fqn": "model"}):
                once = model(batch)
            with mark_kernels({"name": "second pass", "module_fqn": "model", "layer": 2}):
                model(once)
    with torch.profiler.profile() as prof:
        for _ in range(_REPLAYS):
            graph.replay()
        torch.cuda.synchronize()
    folder = told.out / "annotated"
    folder.mkdir()
    annotations = dict(noted.get_kernel_annotations())
    target = folder / "rank0.pt.trace.json.gz"
    if "cuda_graph_annotations" in inspect.signature(prof.export_chrome_trace).parameters:
        prof.export_chrome_trace(str(target), cuda_graph_annotations=annotations)
    else:  # before 2.15 a script of torch adds them
        with tempfile.TemporaryDirectory() as scratch:
            plain, kept = Path(scratch, "plain.json"), Path(scratch, "annotations.pkl")
            prof.export_chrome_trace(str(plain))
            kept.write_bytes(pickle.dumps(annotations))
            script = [sys.executable, "-m", "torch.cuda._annotate_cuda_graph_trace", str(plain)]
            subprocess.run([*script, "-a", str(kept), "-o", str(target)], check=True)
    return {"annotations": len(annotations)}


def _annotations_of_torch() -> Any:
    """The module that marks kernels: 2.12 to 2.14 have it as a private one, older ones not at all."""
    try:
        return importlib.import_module("torch.cuda.graph_annotations")
    except ImportError:
        return importlib.import_module("torch.cuda._graph_annotations")


def main() -> None:
    """Each of them; why one could not be recorded goes to `measured.json`."""
    told = asked()
    measured: dict[str, Any] = {}
    for record in (whole_step, callables, annotated):
        try:
            measured[record.__name__] = record(told)
        except (
            ImportError,
            OSError,
            RuntimeError,
            TypeError,
            AttributeError,
            subprocess.SubprocessError,
        ) as error:  # of a torch that lacks it
            traceback.print_exc()
            measured[record.__name__] = {"problem": f"{type(error).__name__}: {error}"[:300]}
            with contextlib.suppress(RuntimeError):
                torch.cuda.synchronize()
        told.tell(**measured)


if __name__ == "__main__":
    main()
