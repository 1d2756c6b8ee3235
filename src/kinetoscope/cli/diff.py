"""`kinetoscope diff BASE NEW`: why a step of one run takes longer than a step of another, without residue.

Each instant of a step belongs to one call, so the changes of all calls sum to the change of the step. Calls are
matched between the runs by their name, the calls around them and the shapes of their inputs. Of two memory snapshots
(and of any runs with --table memory) it says what takes more or less memory, by stack and use.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from kinetoscope.cli.shared.open_job import opened_at, selection
from kinetoscope.cli.shared.options import Parser, add_question, add_table, typed
from kinetoscope.model.steps.grammar import steps

if TYPE_CHECKING:
    from kinetoscope.model.steps.selection import Selection
    from kinetoscope.schema import Result

_TABLES = ("rows", "waterfall", "means", "promises", "hardware", "memory")


def run(arguments: list[str]) -> int:
    """Read both runs, one after the other, and write what changed."""
    args = _parser().parse_args(arguments)
    from kinetoscope.advisor.advice import advise
    from kinetoscope.cli.shared.output import budget_of, deliver, form_of, is_screen, width, write_lines, write_text
    from kinetoscope.compare.delivery import delivery_of_advice, run_facts
    from kinetoscope.compare.diff.diff import between
    from kinetoscope.compare.diff.run_profile import run_profile
    from kinetoscope.errors import UsageError
    from kinetoscope.model.steps.selection import ALL
    from kinetoscope.pages.answers.diff import of_diff

    select = selection(args).get("select", ALL)
    of_base = select if args.base_steps is None else replace(select, steps=args.base_steps)
    if args.table in (None, "memory") and (of_memory := _memory(args, of_base, select)) is not None:
        deliver(of_memory, args, title=of_memory.sentence)
        return 0
    screen = is_screen(args)
    promised = args.table == "promises" or (screen and args.promises)
    profiles, advice, facts = [], [], []
    for path, part in ((args.base, of_base), (args.new, select)):
        with opened_at(args, path) as (job, _):
            profiles.append(run_profile(job, part))
            advice += [advise(job, select=part)] if promised else []
            facts += [run_facts(job, advice[-1], select=part)] if promised else []
    difference = between(*profiles)
    kept = delivery_of_advice([args.base, args.new], advice, facts) if promised else None
    if screen:
        from kinetoscope.screens.terminal import lines

        page = of_diff(difference, None if kept is None else kept.frame, limit=args.limit)
        write_lines(lines(page, width=width()), args.output)
        return 0
    if form_of(args) == "markdown" and args.table is None:
        write_text(of_diff(difference, limit=args.limit).to_markdown(budget_of(args)), args.output)
        return 0
    tables = {
        "waterfall": difference.waterfall,
        "means": difference.means,
        "promises": kept,
        "hardware": difference.hardware,
    }
    result = tables.get(args.table, difference.rows)
    if result is None:
        raise UsageError("both runs are on alike devices, or on devices whose peaks are unknown (--peak gives them)")
    deliver(replace(result, sentence=str(difference.sentence)), args)
    return 0


def _memory(args: argparse.Namespace, of_base: Selection, select: Selection) -> Result | None:
    """The difference of the memory of both runs, if it is asked for, or both are snapshots alone."""
    from kinetoscope.compare.diff.memory import memory_diff

    with opened_at(args, args.base) as (base, _), opened_at(args, args.new) as (new, _):
        alone = all(source.reader == "snapshot" for job in (base, new) for source in job.sources)
        if args.table is None and not alone:
            return None
        return memory_diff(base, new, select=select, base_select=of_base, at=args.at)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="kinetoscope diff", description=__doc__)
    parser.add_argument("base", metavar="BASE", help="a run: a trace, a folder of them, a quoted glob, or a URL")
    parser.add_argument("new", metavar="NEW", help="the run to compare with it")
    parser.add_argument(
        "--table",
        choices=_TABLES,
        help="a table: of the calls; of the parts that sum to the change; of how long each call takes; of promises "
        "and what came of them; of what the peaks of different devices explain; of memory",
    )
    parser.add_argument(
        "--at",
        choices=("peak", "end"),
        default="peak",
        help="of memory: compare the peaks, or what is in use at the end (default: peak)",
    )
    parser.add_argument(
        "--promises",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="what findings of the first run that are gone in the second had promised",
    )
    add_question(parser)
    add_table(parser)
    parser.add_argument(
        "--base-steps", type=typed(steps), metavar="LIST", help="steps of BASE, where they are others than those of NEW"
    )
    parser.epilog = "All steps but those of the warm-up are compared; --steps chooses others."
    return parser
