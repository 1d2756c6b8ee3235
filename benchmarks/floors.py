"""Holds floors against hardware: operators run on this machine's device, else on its host, and none may beat its floor.

    python -m benchmarks.floors              on the first device that torch sees, else on the host
    python -m benchmarks.floors --small      with small tensors: a test that it runs; caches make the numbers moot

First `kinetoscope calibrate` measures what products and copies attain. Then each operator is recorded alone; its floor
follows from the recorded arguments and these peaks, its time from the kernels, on the host from the operators. The exit
code is 1 if an operator ran faster than its floor allows. Nothing else should run on the machine.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.floor_cases import recorded
from kinetoscope import read
from kinetoscope.model.device.own_peaks import ATTAINABLE, FILE_VARIABLE
from kinetoscope.model.roofline.charged_work import has_host_floors
from kinetoscope.model.roofline.floors import floors
from kinetoscope.record.selftest import first_device

TOLERANCE = 1.1
"""Times that a floor may be longer than the time: what attainable peaks vary by from run to run."""


@dataclass(frozen=True, slots=True)
class Attained:
    """An operator's time and floor of all calls, ns, and the share of its time that has a floor."""

    name: str
    time: float
    floor: float
    covered: float

    @property
    def share(self) -> float:
        """Floor / time: 1 is as fast as can be."""
        return self.floor / max(self.time, 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="small tensors: tests that it runs")
    parser.add_argument("--filter", default="", metavar="TEXT", help="only operators with this in their name")
    args = parser.parse_args()
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    import torch

    device = first_device(torch)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[FILE_VARIABLE] = str(Path(folder) / "peaks.toml")
        seconds = "0.02" if args.small else "0.5"
        command = [sys.executable, "-m", "kinetoscope", "calibrate", "--device", device, "--seconds", seconds]
        subprocess.run(command, check=True)
        beaten = []
        sys.stdout.write(f"\n  {'operator':<28}{'time':>12}{'floor':>12}{'attained':>10}{'covered':>10}\n")
        for name, file in recorded(torch, device, Path(folder), small=args.small, having=args.filter):
            each = attained(name, file)
            row = f"{each.time / 1e6:>9.3f} ms{each.floor / 1e6:>9.3f} ms{each.share:>10.0%}"
            sys.stdout.write(f"  {name:<28}{row}{each.covered:>10.0%}\n")
            beaten += [name] if each.share > TOLERANCE else []
    if beaten:
        sys.stdout.write(f"Faster than their floors: {', '.join(beaten)}\n")
    sys.exit(bool(beaten) and not args.small)


def attained(name: str, file: Path) -> Attained:
    """Read an operator's time and floor from its trace; the peaks are those of the user's file."""
    trace = read(file, peak=ATTAINABLE).trace()
    limits = floors(trace, on_host=has_host_floors(trace))
    covered = float(limits.time[limits.is_covered].sum())
    return Attained(name, covered, float(np.nansum(limits.floor)), covered / max(float(limits.time.sum()), 1.0))


if __name__ == "__main__":
    main()
