"""Measure and record one program, both ways: `python -m tests.faults.programs manual_attention FOLDER`."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path

from tests.faults.programs.running import together


def main() -> None:
    """What was measured goes to the standard output, the traces to FOLDER/faulty and FOLDER/fixed."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("name")
    asked.add_argument("folder", type=Path)
    asked.add_argument("--rounds", type=int, default=7)
    asked.add_argument("--steps", type=int, default=0, help="of each round; 0: as the program says")
    options = asked.parse_args()
    module = importlib.import_module(f"tests.faults.programs.{options.name}")
    if hasattr(module, "measure"):  # several processes
        measured = module.measure(options.folder, options.rounds, options.steps)
    else:
        measured = together(module, options.folder, options.rounds, options.steps)
    json.dump(measured, sys.stdout)


if __name__ == "__main__":
    main()
