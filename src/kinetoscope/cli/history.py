"""`kinetoscope history RUN`: since when a whole run is slow, on which rank, and what was lost by which cause.

RUN is the folder that `kinetoscope record --history` or `--every` wrote to, while the job runs or after it. `--table`
is what --format json, csv and parquet write: changes, spikes, returns (ranks that are slow again and again), lost,
steps, ranks, marks.
"""

from __future__ import annotations

from kinetoscope.cli.shared.open_job import opened
from kinetoscope.cli.shared.options import Parser, add_output, add_path, add_reading
from kinetoscope.errors import InputError

_TABLES = ("changes", "spikes", "returns", "lost", "steps", "ranks", "marks")


def run(arguments: list[str]) -> int:
    """Ask about the history, and draw its page; or write a table of it as rows."""
    parser = Parser(prog="kinetoscope history", usage="kinetoscope history RUN [options]", description=__doc__)
    add_path(parser)
    add_reading(parser, path=False)
    parser.add_argument("--table", choices=_TABLES, default="changes", help="the table that is written as rows")
    parser.add_argument("--steps", metavar="FIRST-LAST", default="", help="a stretch of steps to say more about")
    add_output(parser)
    args = parser.parse_args(arguments)
    args.where = args.sort = args.columns = ""
    from kinetoscope.analyses import named
    from kinetoscope.cli.shared.output import deliver, form_of, write_page
    from kinetoscope.model.history.of_trace import NO_HISTORY
    from kinetoscope.outputs.page import ROWS, page

    with opened(args) as (job, _):
        if not any(source.files("history") for source in job.sources):
            raise InputError(f"{job.path}: {NO_HISTORY}")
        if form_of(args) in ("table", "markdown"):
            first, _, last = args.steps.partition("-")
            params = {"from": first, "to": last or first} if args.steps else {}
            limit = ROWS if args.limit is None else args.limit
            write_page(page(job, "history", limit=limit, params=params), args)
        else:
            deliver(named(f"history_{args.table}")(job), args)
    return 0
