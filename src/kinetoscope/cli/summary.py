"""`kinetoscope summary PATH`: where the time of a step goes, the largest loss, and the next command, on one screen."""

from __future__ import annotations

from kinetoscope.cli.shared.open_job import chosen, opened
from kinetoscope.cli.shared.options import Parser, add_engine, add_reading, add_selection


def run(arguments: list[str]) -> int:
    """Ask the analyses and draw the screen."""
    parser = Parser(prog="kinetoscope summary", description=__doc__)
    add_reading(parser)
    add_engine(parser)
    add_selection(parser)
    args = parser.parse_args(arguments)
    with opened(args) as (job, _):
        from kinetoscope.outputs.summary import summary

        digest = summary(job, select=chosen(args), jobs=args.jobs)
    from kinetoscope.cli.shared.output import width, write_lines
    from kinetoscope.screens.summary import lines

    write_lines(lines(digest, width=width()))
    return 0
