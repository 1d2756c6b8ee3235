"""`KINETOSCOPE_CUDA_PYTHON=… python -m tests.snapshots.real.record`: records the files of this folder anew.

Each has a program of `programs.py`, the size of the device, and settings of the allocator; its name ends in the version
of torch.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.snapshots.real import simulated

RECORDED: Final[dict[str, tuple[str, dict[str, object]]]] = {
    "training": ("training", {"size": 4 << 30}),
    "training_expandable": ("training", {"size": 4 << 30, "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),
    "leak": ("leak", {"size": 4 << 30}),
    "too_much": ("too_much", {"size": 2 << 30}),
    "fragmentation": ("fragmentation", {"size": 600 << 20, "outside": 100 << 20}),
    "graph_pools": ("graph_pools", {"size": 4 << 30}),
    "pending": ("pending", {"size": 4 << 30, "pending": 6}),
    "two_devices": ("two_devices", {"size": 4 << 30, "devices": 2}),
}
"""Program and circumstances of each file."""


def record(folder: Path) -> None:
    """Record all of them."""
    python = os.environ[simulated.VARIABLE]
    version = subprocess.run(
        [python, "-c", "import torch; print(torch.__version__.partition('+')[0])"],
        check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    for name, (program, around) in RECORDED.items():
        target = folder / f"{name}_{version}.pickle.gz"
        size = around["size"]
        assert isinstance(size, int)
        given = simulated.environment(size=size, **{key: each for key, each in around.items() if key != "size"})
        script = str(simulated.HERE / "programs.py")
        subprocess.run([python, "-W", "ignore", script, program, str(target)], env=given, check=True)
        sys.stdout.write(f"{target.name} {target.stat().st_size}\n")


if __name__ == "__main__":
    if why := simulated.missing():
        sys.exit(why)
    record(simulated.HERE)
