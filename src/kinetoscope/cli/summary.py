"""`kinetoscope summary PATH`: where the time of a step goes, the largest loss, and the next command, on one screen."""

from __future__ import annotations

from kinetoscope.cli.shared.open_job import chosen, opened
from kinetoscope.cli.shared.options import Parser, add_document, add_engine, add_reading, add_selection


def run(arguments: list[str]) -> int:
    """Ask the analyses and draw the screen."""
    parser = Parser(prog="kinetoscope summary", description=__doc__)
    add_reading(parser)
    add_engine(parser)
    add_selection(parser)
    add_document(parser)
    args = parser.parse_args(arguments)
    with opened(args) as (job, _):
        from kinetoscope.outputs.summary import summary

        page = summary(job, select=chosen(args))

    from kinetoscope.cli.shared.output import budget_of, form_of, width_of, write_lines, write_text
    from kinetoscope.screens.terminal import lines

    if form_of(args) == "table":
        write_lines(lines(page, width=width_of(args.output)), args.output)
    else:
        write_text(page.to_markdown(budget_of(args)), args.output)
    return 0
