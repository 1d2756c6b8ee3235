"""Measure and record one program, both ways: `python -m tests.faults.programs manual_attention FOLDER`."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path
from typing import Any

from tests.faults.programs import on_device
from tests.faults.programs.running import RECORDINGS, together


def main() -> None:
    """What was measured goes to the standard output, the traces to FOLDER/faulty and FOLDER/fixed."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("name")
    asked.add_argument("folder", type=Path)
    asked.add_argument("--rounds", type=int, default=7)
    asked.add_argument("--steps", type=int, default=0, help="of each round; 0: as the program says")
    asked.add_argument("--device", default="cpu", help="of torch")
    asked.add_argument(
        "--small", action="store_true", help="two rounds of few steps, one recording: a test that it runs"
    )
    options = asked.parse_args()
    module = program_of(options.name)
    rounds, steps = (2, 6) if options.small else (options.rounds, options.steps)
    if hasattr(module, "measure"):  # several processes
        measured = module.measure(options.folder, rounds, steps)
    else:
        recordings = 1 if options.small else RECORDINGS
        measured = together(module, options.folder, rounds, steps, device=options.device, recordings=recordings)
    json.dump(measured, sys.stdout)


def program_of(name: str) -> Any:
    """The module of a program, or its likeness among those of a device."""
    if name in on_device.NAMES:
        return on_device.PROGRAMS[name]
    return importlib.import_module(f"tests.faults.programs.{name}")


if __name__ == "__main__":
    main()
