"""`kinetoscope report PATH -o run.html`: the page as one HTML file that opens without a server or a network.

With -o run.md it is the summary as Markdown, for a pull request or a language model; with -o run.xlsx an Excel workbook
with the table of each analysis.
"""

from __future__ import annotations

from argparse import Namespace
from typing import cast

from kinetoscope.cli.shared.open_job import chosen, reading
from kinetoscope.cli.shared.options import Parser, add_budget, add_chosen, add_path, add_reading, typed
from kinetoscope.model.steps.grammar import numbers, time_range


def run(arguments: list[str]) -> int:
    """Ask everything that the page would ask, and write the file."""
    args = _parser().parse_args(arguments)
    from kinetoscope.outputs.report import report
    from kinetoscope.server.runs.run import ReadKeywords

    report(
        args.path if len(args.path) > 1 else args.path[0],
        args.output,
        sections=None if args.sections is None else args.sections.split(","),
        rank=args.rank,
        steps=args.steps,
        time=args.time_range,
        select=chosen(Namespace(**{**vars(args), "steps": None, "time_range": None})),
        source=args.source,
        budget=args.budget,
        reading=cast(ReadKeywords, reading(args)),
    )
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="kinetoscope report", usage="kinetoscope report PATH... -o FILE [options]", description=__doc__
    )
    add_path(parser)
    add_reading(parser, path=False)
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        required=True,
        help="file to write: .html, .md (Markdown), .xlsx (Excel)",
    )
    add_budget(parser)
    parser.add_argument("--sections", metavar="LIST", help="views to include: overview,kernels; by default all")
    parser.add_argument("--rank", type=typed(_one), metavar="N", help="rank to report on; by default the whole job")
    parser.add_argument("--steps", metavar="LIST", help="only these steps: 2-4, all; by default without the warm-up")
    help_ = "only this time, from the beginning: 10ms..20ms"
    parser.add_argument("--time-range", "--time", type=typed(time_range), metavar="FROM..TO", help=help_)
    add_chosen(parser.add_argument_group("selection of .md and .xlsx"))
    parser.add_argument(
        "--source", action="append", default=[], metavar="DIR", help="include source files below this folder"
    )
    return parser


def _one(text: str) -> int:
    (rank,) = numbers(text)
    return rank
