"""`kinetoscope summary PATH`: where a step goes, the largest loss, and what to type next, on one screen."""

from __future__ import annotations

from kinetoscope.cli.opening import opened, selection
from kinetoscope.cli.options import Parser, add_engine, add_reading, add_selection


def run(arguments: list[str]) -> int:
    """Ask the analyses and draw the screen."""
    parser = Parser(prog="kinetoscope summary", description=__doc__)
    add_reading(parser)
    add_engine(parser)
    add_selection(parser)
    args = parser.parse_args(arguments)
    with opened(args) as (job, meter):
        from kinetoscope.cli.asking import ask
        from kinetoscope.pages.digest import ASKED, digest

        results = ask(job, ASKED, meter, jobs=args.jobs, **selection(args))
        found = digest(args.path[0], results)
    from kinetoscope.cli.output import width, write_lines
    from kinetoscope.cli.screen import lines

    write_lines(lines(found, width=width()))
    return 0
