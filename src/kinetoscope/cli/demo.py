"""`kinetoscope demo`: record a small, deliberately slow program on this machine, and show its summary.

Without torch, or with --bundled, it shows the summary of a real trace that comes with the package.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.resources import as_file, files
from pathlib import Path

from kinetoscope.cli.record import run as record
from kinetoscope.cli.shared.options import Parser
from kinetoscope.cli.summary import run as summarize

TRACE = "training.pt.trace.json.gz"


def run(arguments: list[str]) -> int:
    """Record, or take the bundled trace; then summarize."""
    parser = Parser(prog="kinetoscope demo", description=__doc__)
    parser.add_argument("-o", "--output", metavar="DIR", default="runs/demo", help="folder for the trace (runs/demo)")
    parser.add_argument(
        "--bundled", action="store_true", help="record nothing; use the trace that comes with the package"
    )
    args = parser.parse_args(arguments)
    if not args.bundled and importlib.util.find_spec("torch") is None:
        sys.stderr.write("kinetoscope: torch is not installed here; this is a trace that comes with the package\n")
    elif not args.bundled:
        program = [sys.executable, "-W", "ignore", "-m", "kinetoscope.record.example"]
        folder = Path(args.output)
        before = _traces(folder)
        code = record(["-o", str(folder), "--run", "demo", "--", *program])
        if traces := sorted(_traces(folder) - before):
            return summarize([str(traces[-1])])
        sys.stderr.write(f"kinetoscope: nothing could be recorded here (exit code {code}); this is the bundled trace\n")
    with as_file(files("kinetoscope") / "demo" / TRACE) as path:
        return summarize([str(path)])


def _traces(folder: Path) -> set[Path]:
    return set(folder.glob("*.pt.trace.json.gz"))
