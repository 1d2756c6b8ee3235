"""`kinetoscope advise PATH`: what to change, ranked by the time that it would bring, and where to look.

`kinetoscope advise --explain CODE` says what a rule checks, why it matters and what to do; `--explain all` lists them.
"""

from __future__ import annotations

import dataclasses
from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kinetoscope.advisor.finding import SEVERITIES
from kinetoscope.cli.shared.open_job import opened, selection
from kinetoscope.cli.shared.options import PATHS, Parser, add_output, add_question
from kinetoscope.errors import UsageError
from kinetoscope.readers.job.discovery import common_name

if TYPE_CHECKING:
    from kinetoscope.views.terminal.lines import Line


def run(arguments: list[str]) -> int:
    """Ask all rules and draw the screen, write the table, or explain a rule."""
    args = _parser().parse_args(arguments)
    args.where = args.sort = args.columns = ""
    if args.explain is not None:
        from kinetoscope.cli.shared.output import write_lines

        write_lines(_explained(args.explain), args.output)
        return 0
    if not args.path:
        raise UsageError("advise takes a PATH: a trace, a folder of them, a quoted glob, or a URL")
    if args.plan:
        return _plan(args)
    with opened(args) as (job, _):
        from kinetoscope.advisor.advice import advise

        advice = advise(job, **selection(args))
    wanted = SEVERITIES[SEVERITIES.index(args.min_severity) :]
    advice = dataclasses.replace(advice, findings=advice.of(*wanted), path=common_name(args.path))
    from kinetoscope.cli.shared.output import budget_of, deliver, form_of, width_of, write_lines, write_text
    from kinetoscope.pages.findings import of_advice
    from kinetoscope.screens.terminal import lines

    form = form_of(args)
    if form == "markdown":
        write_text(of_advice(advice, limit=0).to_markdown(budget_of(args)), args.output)
    elif form == "table":
        seen = lines(of_advice(advice, limit=args.limit), width=width_of(args.output))
        write_lines(seen, args.output)
    else:
        deliver(advice.result, args)
    return 0


def _plan(args: Namespace) -> int:
    """Draw the plan, or write it as a table."""
    with opened(args) as (job, _):
        from kinetoscope.advisor.plan import plan

        planned = plan(job, **selection(args))
    from kinetoscope.cli.shared.output import budget_of, deliver, form_of, width_of, write_lines, write_text
    from kinetoscope.pages.answers.plan import of_plan
    from kinetoscope.screens.terminal import lines

    form = form_of(args)
    if form == "markdown":
        write_text(of_plan(planned).to_markdown(budget_of(args)), args.output)
    elif form == "table":
        write_lines(lines(of_plan(planned, limit=args.limit), width=width_of(args.output)), args.output)
    else:
        deliver(planned.result, args)
    return 0


def _parser() -> Parser:
    parser = Parser(prog="kinetoscope advise", usage="kinetoscope advise PATH... [options]", description=__doc__)
    parser.add_argument("path", metavar="PATH", nargs="*", help=PATHS)
    group = parser.add_argument_group("findings")
    group.add_argument("--min-severity", choices=SEVERITIES, default="note", help="only findings that matter so much")
    group.add_argument("--plan", action="store_true", help="in which order, and what each saves after those before it")
    group.add_argument("--explain", metavar="CODE", help="what the rule of this code checks, and why; all lists them")
    add_question(parser)
    add_output(parser)
    return parser


def _explained(code: str) -> Iterator[Line]:
    """The documentation of one rule; of `all`, the list of them."""
    from kinetoscope.advisor.rule import HEADINGS
    from kinetoscope.advisor.rules import families, rules
    from kinetoscope.cli.shared.output import width
    from kinetoscope.errors import nearest
    from kinetoscope.views.terminal.lines import plain
    from kinetoscope.views.text import wrapped

    known = {rule.code: rule for rule in rules()}
    if code.lower() == "all":
        for family, members in families().items():
            yield plain(family, "dim")
            for rule in members:
                yield ((f"  {rule.code:<14}", "bold"), (rule.title, ""))
        return
    chosen = known.get(code.upper())
    if chosen is None:
        raise UsageError(
            f"there is no rule {code!r}{nearest(code, map(str.lower, known))};"
            " `kinetoscope advise --explain all` lists them"
        )
    room = min(width(), 100)
    yield ((chosen.code, "bold"), (f"  {chosen.title}", "bold"))
    for paragraph in chosen.doc.split("\n\n"):
        yield plain()
        text = " ".join(paragraph.split())
        heading = next((each for each in HEADINGS if text.startswith(f"{each}.")), "")
        first, *rest = wrapped(text, room)
        yield ((first[: len(heading)], "bold"), (first[len(heading) :], ""))
        yield from map(plain, rest)
