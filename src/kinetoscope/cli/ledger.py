"""`kinetoscope ledger RUN...`: runs in a row, what each of them changed, and what that brought.

Name the runs in the order in which you made them. What was changed is read from what `kinetoscope record` and
`kinetoscope.profile` write down beside the trace: command line, parameters, versions, commit. Of the folder of a
`kinetoscope try` alone it shows what came of the trials.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from kinetoscope.cli.shared.open_job import opened_at, selection
from kinetoscope.cli.shared.options import Parser, add_question, add_table, typed
from kinetoscope.readers.reader import TRIALS


def run(arguments: list[str]) -> int:
    """Read the runs, one after the other, and write a row for each."""
    args = _parser().parse_args(arguments)
    from kinetoscope.advisor.advice import advise
    from kinetoscope.cli.shared.output import deliver, is_screen, width, write_lines
    from kinetoscope.compare.delivery import delivery_of_advice, run_facts
    from kinetoscope.compare.ledger.ledger import ledger_entry, result_of_entries
    from kinetoscope.model.steps.selection import ALL

    select = selection(args).get("select", ALL)
    screen = is_screen(args)
    if len(args.runs) == 1 and (Path(args.runs[0]) / TRIALS).is_file():
        return _trials(args, screen=screen)
    promised = args.promises if args.promises is not None else screen
    entries, advice, facts = [], [], []
    for path in args.runs:
        with opened_at(args, path) as (job, _):
            entries.append(ledger_entry(job, select=select, samples_per_step=args.samples_per_step))
            advice += [advise(job, select=select)] if promised else []
            facts += [run_facts(job, advice[-1], select=select)] if promised else []
    result = result_of_entries(entries)
    kept = delivery_of_advice([each.path for each in entries], advice, facts) if promised else None
    if screen:
        from kinetoscope.pages.answers.ledger import of_ledger
        from kinetoscope.screens.terminal import lines

        write_lines(lines(of_ledger(result, None if kept is None else kept.frame), width=width()), args.output)
    else:
        deliver(result if kept is None else kept, args)
    return 0


def _trials(args: argparse.Namespace, *, screen: bool) -> int:
    """Write the result of the trials in a folder."""
    from kinetoscope.cli.shared.output import deliver, width_of, write_lines
    from kinetoscope.compare.trials.tried import load
    from kinetoscope.pages.answers.trials import of_tried
    from kinetoscope.screens.terminal import lines

    tried = load(Path(args.runs[0]))
    if screen:
        write_lines(lines(of_tried(tried), width=width_of(args.output)), args.output)
    else:
        deliver(tried.result, args)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="kinetoscope ledger", description=__doc__)
    parser.add_argument(
        "runs", metavar="RUN", nargs="+", help="a trace, a folder of them, a quoted glob, or a URL; in order"
    )
    parser.add_argument(
        "--samples-per-step",
        type=typed(_number),
        metavar="N",
        help="samples of all ranks together in a step, for runs that do not say",
    )
    parser.add_argument(
        "--promises",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="what findings that are gone had promised, and what came; with --format, the table of that",
    )
    add_question(parser)
    add_table(parser)
    parser.set_defaults(table=None)
    return parser


def _number(text: str) -> float:
    """A number above 0."""
    number = float(text)
    if not 0 < number < float("inf"):
        raise ValueError(f"{text!r} is no number above 0")
    return number
