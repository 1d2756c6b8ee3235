"""`kinetoscope report PATH -o run.html`: the page as one HTML file that opens without a server or a network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kinetoscope.cli.shared.open_job import reading
from kinetoscope.cli.shared.options import Parser, add_path, add_reading, typed
from kinetoscope.cli.shared.output import write_file
from kinetoscope.errors import InputError, UsageError
from kinetoscope.model.steps.grammar import numbers, time_range, time_range_text
from kinetoscope.readers.files.stream import is_url
from kinetoscope.views.text import nearest

if TYPE_CHECKING:
    from kinetoscope.server.app import Server

_LEFT_OUT_PAGES: Final = ("compare", "ledger", "analyses", "sql")
"""Views that a file without a server has no use for."""


def run(arguments: list[str]) -> int:
    """Ask everything that the page would ask, and write the file."""
    args = _parser().parse_args(arguments)
    sections = _sections(args.sections)
    if not is_url(args.output) and not Path(args.output).parent.is_dir():
        raise InputError(f"{Path(args.output).parent} is no folder; make it first, or write elsewhere")
    from kinetoscope.server.app import Server
    from kinetoscope.server.report import report
    from kinetoscope.server.runs.run import ReadKeywords
    from kinetoscope.server.runs.workspace import Workspace
    from kinetoscope.server.source_code import Sources

    workspace = Workspace(tuple(args.path), ReadKeywords(**reading(args)))
    server = Server(workspace, Sources.of(args.source, args.map))
    select = {"rank": args.rank or "", "steps": args.steps or "", "time": args.time_range or ""}
    page = report(server, _run(server, args.path), sections, select)
    write_file(page, args.output)
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="kinetoscope report", usage="kinetoscope report PATH... -o FILE [options]", description=__doc__
    )
    add_path(parser)
    add_reading(parser, path=False)
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="the HTML file to write")
    parser.add_argument("--sections", metavar="LIST", help="views to include: overview,kernels; by default all")
    parser.add_argument("--rank", type=typed(_one), metavar="N", help="rank to report on; by default the whole job")
    parser.add_argument("--steps", metavar="LIST", help="only these steps: 2-4, all; by default without the warm-up")
    help_ = "only this time, from the beginning: 10ms..20ms"
    parser.add_argument("--time-range", "--time", type=typed(_time_range), metavar="FROM..TO", help=help_)
    parser.add_argument(
        "--source", action="append", default=[], metavar="DIR", help="include source files below this folder"
    )
    parser.set_defaults(map=[])
    return parser


def _one(text: str) -> str:
    (rank,) = numbers(text)
    return str(rank)


def _time_range(text: str) -> str:
    return time_range_text(*time_range(text))


def _sections(text: str | None) -> tuple[str, ...]:
    from kinetoscope.pages import PAGES

    there = [name for name in PAGES if name not in _LEFT_OUT_PAGES]
    if text is None:
        return tuple(there)
    wanted = [word.strip().replace("-", "_") for word in text.split(",") if word.strip()]
    for word in wanted:
        if word not in there:
            raise UsageError(f"there is no section {word!r}{nearest(word, there)}; sections: {', '.join(there)}")
    return tuple(dict.fromkeys(wanted))


def _run(server: Server, paths: Sequence[str]) -> str:
    """The run at the paths; of several the newest would be a guess, so they are named."""
    listed = server.workspace.runs()
    if not listed.runs:
        raise InputError(listed.wrong[0] if listed.wrong else f"{paths[0]}: no trace there")
    if len(listed.runs) > 1:
        names = ", ".join(run.files.name for run in listed.runs[:5])
        raise UsageError(f"{', '.join(paths[:5])}: {len(listed.runs)} runs; name one of them: {names}")
    return listed.runs[0].id
