"""Builds the reports that the documentation links to, each one HTML file that opens without a server.

    python docs/live.py FOLDER

`demo.html` is of the recording that comes with the package; `simulated-gpu.html` is of a job that `slow_training`
draws, because no recording of a GPU is ours to give away. `make docs` calls this.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from kinetoscope.cli import main as kinetoscope
from tests.faults.case import drawing
from tests.faults.cases.mixes import looked_at
from tests.faults.healthy import transformer
from tests.faults.network import Network
from tests.faults.program import Program

DEMO = Path(__file__).resolve().parents[1] / "src" / "kinetoscope" / "demo" / "training.pt.trace.json.gz"


def slow_training(folder: Path) -> None:
    """The trace of a simulated H100 that trains a small language model: one slow worker loads, losses are fetched."""

    def step(p: Program, _: int) -> None:
        net = Network(p, "bf16", 1.0)
        p.loader(28_000, workers=1)
        p.to_device(4e6, pinned=False, blocking=True)
        transformer(net, layers=12, batch=4)
        net.backward()
        looked_at(3, 600)(p)
        net.optimizer(1e8, 100)

    drawing(step, steps=8, stacks=True)(folder)


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as drawn:
        (simulated := Path(drawn) / "simulated H100").mkdir()
        slow_training(simulated)
        for name, run in (("demo", DEMO), ("simulated-gpu", simulated)):
            if code := kinetoscope(["report", str(run), "-o", str(folder / f"{name}.html")]):
                sys.exit(code)


if __name__ == "__main__":
    main()
