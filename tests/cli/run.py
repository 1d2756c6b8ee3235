"""Runs the command as a user does: in a process of its own, or, where only the answer matters, in this one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TRACES = ROOT / "tests" / "traces"
MLP = TRACES / "mlp.pt.trace.json.gz"
RANKS = TRACES / "ddp2"

COMMAND = [sys.executable, "-c", "import sys; from kinetoscope.cli import main; sys.exit(main())"]


def environment(**more: str) -> dict[str, str]:
    """This process's environment, with the sources found and no width of its own."""
    kept = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    return kept | {"PYTHONPATH": str(ROOT / "src")} | more


def run(*arguments: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    """`kinetoscope ARGUMENTS`, its output and its exit code."""
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment(**more),
        check=False,
    )


def without_compiling(messages: str) -> str:
    """Messages of a command, but for the line that its first run says where nothing is compiled yet."""
    return messages.replace("kinetoscope: compiling (first run only) …\n", "")
