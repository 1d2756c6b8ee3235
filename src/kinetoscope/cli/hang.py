"""`kinetoscope hang FOLDER`: why a job does not go on: which rank, which collective, which line, and what to do.

FOLDER holds what the ranks left: dumps of torch's Flight Recorder, and traces, stacks and logs beside them. The exit
code is 1 if something hangs, and 0 if nothing does: all is done, ranks still move, or one is only slow.
"""

from __future__ import annotations

from kinetoscope.cli.shared.open_job import opened, selection
from kinetoscope.cli.shared.options import Parser, add_output, add_path, add_question
from kinetoscope.errors import InputError

HANGS = 1


def run(arguments: list[str]) -> int:
    """Ask for the verdicts, and draw the page; or write them as rows."""
    parser = Parser(prog="kinetoscope hang", usage="kinetoscope hang FOLDER... [options]", description=__doc__)
    add_path(parser)
    add_question(parser)
    add_output(parser)
    args = parser.parse_args(arguments)
    args.where = args.sort = args.columns = ""
    from kinetoscope.analyses import named
    from kinetoscope.cli.shared.output import deliver, form_of, write_page
    from kinetoscope.model.hangs.remedies import HANGING
    from kinetoscope.outputs.page import ROWS, page

    with opened(args) as (job, _):
        verdicts = named("hang")(job, **selection(args))
        if not verdicts.frame.height:
            raise InputError(f"{job.path}: {' '.join(verdicts.notes)}")
        if form_of(args) in ("table", "markdown"):
            limit = ROWS if args.limit is None else args.limit
            write_page(page(job, "hang", **selection(args), limit=limit), args)
        else:
            deliver(verdicts, args)
    return HANGS if verdicts.frame.get_column("cause")[0] in HANGING else 0
