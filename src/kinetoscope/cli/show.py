"""`kinetoscope show NAME PATH`: one analysis as a table; without a name, the list of analyses."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from kinetoscope.cli.shared.open_job import opened, selection
from kinetoscope.cli.shared.options import Parser, add_path, add_question, add_table, typed
from kinetoscope.cli.shared.output import deliver, width, write_lines
from kinetoscope.cli.shared.resolve_analysis import resolve
from kinetoscope.errors import UsageError
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.steps.grammar import parameter_type, parameter_value
from kinetoscope.readers.companions import COMPANIONS
from kinetoscope.schema import Parameter
from kinetoscope.views.terminal.lines import Line, plain
from kinetoscope.views.text import wrapped


def run(arguments: list[str]) -> int:
    """List the analyses, or run one and write its table."""
    name = _name(arguments)
    if name is None and not {"-h", "--help"} & set(arguments):
        write_lines(_list())
        return 0
    if name is None:
        _parser(None).print_help()
        return 0
    analysis = resolve(name)
    args = _parser(analysis).parse_args(arguments)
    params = {each.name: getattr(args, f"param_{each.name}") for each in analysis.parameters}
    params = {key: value for key, value in params.items() if value is not None}
    if analysis.not_over_ranks and args.across_ranks:
        raise UsageError(analysis.not_over_ranks)
    with opened(args) as (job, _):
        result = analysis(job, **selection(args), **params)
    deliver(result, args, title=analysis.question)
    return 0


def _name(arguments: list[str]) -> str | None:
    """The first argument that is neither an option nor the value of one that all analyses have."""
    _, rest = _common(add_help=False).parse_known_args(arguments)
    return next((word for word in rest if not word.startswith("-")), None)


def _common(**kwargs: Any) -> Parser:
    parser = Parser(prog="kinetoscope show", **kwargs)
    add_question(parser)
    add_table(parser)
    return parser


def _parser(analysis: Analysis | None) -> Parser:
    if analysis is None:
        parser = Parser(prog="kinetoscope show", description=__doc__)
        parser.add_argument("name", metavar="NAME", help="an analysis, or a Python file that defines one: ./mine.py")
        add_path(parser)
        parser.epilog = (
            "`kinetoscope show` lists the analyses; `kinetoscope show NAME --help` lists the options of one."
        )
    else:
        spelled = analysis.name.replace("_", "-")
        parser = Parser(prog=f"kinetoscope show {spelled}", usage=f"kinetoscope show {spelled} PATH... [options]")
        parser.description = analysis.doc
        parser.epilog = "columns:\n" + "\n".join(_columns(analysis))
        parser.add_argument("name", help=argparse.SUPPRESS)
        add_path(parser)
        own = parser.add_argument_group("of this analysis") if analysis.parameters else parser
        for parameter in analysis.parameters:
            _add(own, parameter)
        if analysis.not_over_ranks:
            parser.add_argument("--across-ranks", help=argparse.SUPPRESS)
    add_question(parser)
    add_table(parser)
    return parser


_TAKEN: Final = frozenset(
    {
        "help",
        "ranks",
        "jobs",
        "max_size",
        "max_event",
        "cache",
        "cache_size",
        "peak",
        *(each.name for each in COMPANIONS),
        "engine",
        "address",
        "steps",
        "time_range",
        "device",
        "stream",
        "thread",
        "annotation",
        "name",
        "under",
        "before",
        "after",
        "steps_by",
    }
    | {"where", "sort", "columns", "limit", "format", "output", "engine", "address"}
)
"""Options that all analyses have."""


def _add(group: argparse._ArgumentGroup | argparse.ArgumentParser, parameter: Parameter) -> None:
    """One option from one parameter; None means that it was not given."""
    option, dest = "--" + parameter.name.replace("_", "-"), f"param_{parameter.name}"
    default = "" if parameter.default is None else f" (default: {parameter.default})"
    text = (parameter.doc + default).replace("%", "%%")
    if parameter.name in _TAKEN:
        raise UsageError(f"a parameter cannot be called {parameter.name}: every analysis has that option already")
    if parameter.type is bool:
        group.add_argument(option, dest=dest, action=argparse.BooleanOptionalAction, default=None, help=text)
        return
    choices = parameter.choices or None
    if (kind := parameter_type(parameter)) not in (int, float, str):
        raise UsageError(f"parameter {parameter.name} has the type {kind}, for which the command line has no option")
    convert = typed(partial(parameter_value, parameter))
    metavar = None if choices else parameter.unit.upper() or None
    group.add_argument(option, dest=dest, type=convert, choices=choices, metavar=metavar, help=text)


def _columns(analysis: Analysis) -> Iterator[str]:
    room = max(len(column.name) for column in analysis.schema)
    for column in analysis.schema:
        first, *rest = wrapped(column.doc + (f" ({column.unit})" if column.unit else ""), 96 - room)
        yield f"  {column.name:<{room}}  {first}"
        yield from (" " * (room + 4) + line for line in rest)


def _list() -> Iterator[Line]:
    from kinetoscope.analyses import groups, named, names

    room = max(map(len, names()))
    for heading, members in groups().items():
        yield plain(heading, "dim")
        for name in members:
            first, *rest = wrapped(named(name).question, max(width() - room - 6, 30))
            yield ((f"  {name.replace('_', '-'):<{room}}  ", "bold"), (first, ""))
            yield from (plain(" " * (room + 4) + line) for line in rest)
        yield plain()
    yield plain("kinetoscope show NAME PATH runs one; kinetoscope show NAME --help says what it has to offer.", "dim")
