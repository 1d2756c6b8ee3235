"""What Inductor generates lies beside the traces, and each fused kernel leads to its lines in the source."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from kinetoscope import compiled_kernels, read
from kinetoscope.record.output.generated_files import keep_generated_files
from tests.record import jobs

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(shutil.which("g++") is None, reason="no g++: Inductor generates C++ for the CPU"),
]

PROGRAM = """
import torch
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def forward(x):
    y = model(x)
    return torch.tanh(y).square().sum()
compiled = torch.compile(forward)
for _ in range(7):
    optimizer.zero_grad()
    compiled(torch.randn(8, 16)).backward()
    optimizer.step()
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording with provenance, with caches of its own."""
    folder = tmp_path_factory.mktemp("compiled")
    script = folder / "train.py"
    script.write_text(PROGRAM)  # torch keeps lines of files alone
    settings = f"""
import os, runpy
from kinetoscope.record.output.generated_files import track_provenance
os.environ["TORCHINDUCTOR_CACHE_DIR"] = {str(folder / "cache")!r}
track_provenance()
runpy.run_path({str(script)!r})
"""
    jobs.recorded(settings, folder / "run")
    return folder / "run"


def test_generated_files_lie_beside_the_trace_with_their_lines(run: Path) -> None:
    folder = run / "compile" / "rank0"
    files = sorted(folder.glob("c*.py"))
    assert len(files) == 2  # forward and backward
    assert all("async_compile" in file.read_text() for file in files)
    table = json.loads((folder / "linemaps.json").read_text())
    assert set(table) == {file.name for file in files}
    assert any("in forward" in text for rows in table.values() for _, text in rows)
    assert not list(run.rglob("*.part"))
    assert set(read(run).sources[0].files("compile")) >= {str(file) for file in files}


def test_calls_of_kernels_on_the_host_are_recorded_and_joined_with_their_code(run: Path) -> None:
    frame = compiled_kernels(read(run)).frame
    fused = frame.filter(pl.col("origin") == "fused")
    assert fused["calls"].sum() >= 9
    assert set(fused["graph"]) == {"0/0 forward", "0/0 backward"}
    assert set(fused["basis"]) == {"stack traces"}
    assert all(source.startswith("train.py:") for source in fused["source"])
    library = frame.filter(pl.col("origin") == "library")
    assert "aten::addmm" in library["kernel"].to_list()
    assert frame.filter((pl.col("kernel") == "aten::add_") & (pl.col("origin") == "eager")).height == 1


def test_without_compiled_code_or_at_a_store_nothing_is_kept(tmp_path: Path) -> None:
    keep_generated_files(str(tmp_path), 0)
    keep_generated_files("memory://run", 0)
    assert not list(tmp_path.iterdir())
