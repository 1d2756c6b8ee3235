"""Training programs that tests run in processes of their own, and how to run them."""

from __future__ import annotations

import gzip
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TRAIN = """
import sys, time
import torch
torch.manual_seed(0)
torch.set_num_threads(1)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 8
pause = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters())
for step in range(steps):
    optimizer.zero_grad()
    loss = net(torch.randn(4, 8)).square().mean()
    loss.backward()
    optimizer.step()
    time.sleep(pause)
print("loss", loss.item().hex())
"""
"""A tiny model; arguments: steps, and seconds to sleep in each."""


def kinetoscope(*arguments: str | Path) -> list[str]:
    """The command line, run by this Python."""
    return [sys.executable, "-m", "kinetoscope", *map(str, arguments)]


def python(program: str, *arguments: str) -> list[str]:
    """A program by its text; warnings are its own matter."""
    return [sys.executable, "-W", "ignore", "-c", program, *arguments]


def traces(folder: Path) -> list[dict[str, Any]]:
    """All traces of a folder, each complete and valid, by rank."""
    files = sorted(folder.glob("*.pt.trace.json.gz"), key=lambda file: (file.name.partition(".rank")[2], file.name))
    return [json.loads(gzip.decompress(file.read_bytes())) for file in files]


def sidecars(folder: Path) -> list[dict[str, Any]]:
    """What is told beside the traces, by rank and step."""
    found = [json.loads(file.read_text()) for file in folder.glob("*.meta.json")]
    return sorted(found, key=lambda each: (each["rank"], each["first_step"]))


def names(trace: dict[str, Any]) -> list[str]:
    """The names of its complete events."""
    return [event["name"] for event in trace["traceEvents"] if event.get("ph") == "X"]


def steps(trace: dict[str, Any]) -> list[str]:
    """The marks of its steps."""
    return sorted({name for name in names(trace) if name.startswith("ProfilerStep#")})


def until(true: Callable[[], Any], seconds: float = 300) -> Any:
    """Wait for it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := true():
            return found
        time.sleep(0.05)
    raise AssertionError("it did not come true in time")
