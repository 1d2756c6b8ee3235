"""`kinetoscope demo`: the summary of a real trace that comes with the package."""

from __future__ import annotations

from importlib.resources import as_file, files

from kinetoscope.cli.options import Parser
from kinetoscope.cli.summary import run as summarize

TRACE = "training.pt.trace.json.gz"


def run(arguments: list[str]) -> int:
    """Summarize the bundled trace."""
    Parser(prog="kinetoscope demo", description=__doc__).parse_args(arguments)
    with as_file(files("kinetoscope") / "demo" / TRACE) as path:
        return summarize([str(path)])
