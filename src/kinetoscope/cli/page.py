"""`kinetoscope page NAME PATH`: a view of the page on the terminal, as Markdown, HTML or JSON.

Without a name it lists the views. What a view lets its reader choose stands in it, and is set by --set NAME=VALUE.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kinetoscope.cli.shared.open_job import chosen, opened
from kinetoscope.cli.shared.options import PATHS, Parser, add_page, add_question
from kinetoscope.errors import UsageError
from kinetoscope.views.terminal.lines import Line, plain

FORMATS: Final = ("table", "markdown", "json", "html")


def run(arguments: list[str]) -> int:
    """List the views, or compose one and draw it."""
    args = _parser().parse_args(arguments)
    from kinetoscope.cli.shared.output import budget_of, write_lines, write_page

    if not args.name:
        write_lines(_list())
        return 0
    from kinetoscope.outputs.page import ROWS, page, view_named

    view_named(args.name)
    if not args.path:
        raise UsageError(f"page {args.name} takes a PATH: a trace, a folder of them, a quoted glob, or a URL")
    budget_of(args)  # what is wrong with it is said at once
    with opened(args) as (job, _):
        made = page(
            job,
            args.name,
            select=chosen(args),
            base=args.base[-1] if args.base else None,
            runs=args.base,
            limit=ROWS if args.limit is None else args.limit,
            params=_params(args.set),
        )
    write_page(made, args)
    return 0


def _parser() -> Parser:
    parser = Parser(prog="kinetoscope page", usage="kinetoscope page NAME PATH... [options]", description=__doc__)
    parser.add_argument("name", metavar="NAME", nargs="?", help="a view; without it all are listed")
    parser.add_argument("path", metavar="PATH", nargs="*", help=PATHS)
    group = parser.add_argument_group("page")
    group.add_argument(
        "--base",
        metavar="RUN",
        action="append",
        default=[],
        help="the run to compare with; of `ledger` each run before",
    )
    group.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="what the view lets its reader choose: by=stack",
    )
    add_question(parser)
    add_page(parser, FORMATS)
    return parser


def _params(given: list[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in given]
    for name, equals, _ in pairs:
        if not equals:
            raise UsageError(f"--set {name!r} is no choice of a view: write NAME=VALUE, as the view has it")
    return {name: value for name, _, value in pairs}


def _list() -> Iterator[Line]:
    from kinetoscope.outputs.page import composed_views
    from kinetoscope.pages import PAGES, named

    names = composed_views()
    room = max(map(len, names))
    for name in names:
        about = (named(name).__doc__ or "").partition("\n")[0].partition(": ")[2] or PAGES[name].title
        yield ((f"  {name.replace('_', '-'):<{room}}  ", "bold"), (about, ""))
    yield plain()
    yield plain("kinetoscope page NAME PATH shows one; kinetoscope view PATH opens all in a browser.", "dim")
