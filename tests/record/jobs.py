"""Small training jobs, each run in a process of its own, and what is to be said of the traces they leave."""

from __future__ import annotations

import gzip
import json
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kinetoscope.record.session.child_config import RecordPlan
from tests.record import processes

PREAMBLE = """
import os, sys, time, threading, signal, hashlib
import torch
from torch.profiler import ProfilerActivity, record_function
from kinetoscope.record.trace_handler import trace_handler
from kinetoscope.record.session.options import RecordOptions
from kinetoscope.record.profile import profile
from kinetoscope.record.ranges import range as span
from kinetoscope.record.session.recorder import Recorder
torch.set_num_threads(1)
CPU = [ProfilerActivity.CPU]
DIR = sys.argv[1]
schedule = torch.profiler.schedule
torch.manual_seed(7)
model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
def train():
    optimizer.zero_grad()
    model(torch.randn(8, 16)).square().sum().backward()
    optimizer.step()
def result():
    digest = hashlib.sha256()
    for each in model.parameters():
        digest.update(bytes(each.detach().flatten().view(torch.uint8).tolist()))
    print("result", digest.hexdigest(), flush=True)
"""


@dataclass(frozen=True)
class Done:
    """How a job ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> list[str]:
        """Our own lines."""
        return [
            line.removeprefix("kinetoscope: ") for line in self.err.splitlines() if line.startswith("kinetoscope: ")
        ]


def run(script: str, folder: Path, *arguments: str, seconds: float = 400) -> Done:
    """Run the preamble and the script, and wait."""
    return run_text(PREAMBLE + script, [str(folder), *arguments], seconds)


_BEGIN = "import sys\nfrom kinetoscope.record.always_on.running import begin\nbegin(sys.argv.pop(1))\n"


def recorded(program: str, folder: Path | None, *, seconds: float = 400, fresh: bool = False, **plan: Any) -> Done:
    """Run a program as `kinetoscope record` runs it, once torch is there; without a folder, as it is."""
    text, given = program, []
    if folder is not None:
        options = {"keep_free": 0, **plan.pop("options", {})}
        told = RecordPlan(dir=str(folder), control=str(folder / ".kinetoscope"), options=options, **plan)
        text, given = _BEGIN + program, [told.as_text()]
    return run_text(text, given, seconds, fresh=fresh)


def run_text(script: str, arguments: Sequence[str], seconds: float, *, fresh: bool = False) -> Done:
    with tempfile.TemporaryFile("w+", errors="replace") as out, tempfile.TemporaryFile("w+", errors="replace") as err:
        with processes.python(script, arguments, out.fileno(), err.fileno(), fresh=fresh) as job:
            code = job.wait(seconds)
        out.seek(0)
        err.seek(0)
        return Done(code, out.read(), err.read())


def traces(folder: Path) -> list[Path]:
    """Files with a final name."""
    return sorted(folder.glob("*.pt.trace.json*"))


def parts(folder: Path) -> list[Path]:
    """What is not finished."""
    return sorted(path for path in folder.glob("*") if ".part" in path.name)


def document(trace: Path) -> dict[str, Any]:
    """The trace, read strictly."""

    def refuse(name: str) -> None:
        raise ValueError(name)

    found = json.loads(gzip.decompress(trace.read_bytes()).decode("utf-8"), parse_constant=refuse)
    assert isinstance(found, dict)
    return found


def sidecar(trace: Path) -> dict[str, Any]:
    """What lies beside it."""
    path = Path(re.sub(r"\.pt\.trace\.json\.gz$", ".meta.json", str(trace)))
    found = json.loads(path.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def names(trace: Path) -> list[str]:
    """Names of all events with a duration."""
    return [each["name"] for each in document(trace)["traceEvents"] if each.get("ph") == "X"]
