"""Options that several verbs share, and the words they take: ranges, times, sizes. Imports nothing heavy."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from kinetoscope.engines import ENGINES
from kinetoscope.errors import UsageError
from kinetoscope.model.steps.grammar import numbers, size, steps, time_range
from kinetoscope.readers.companions import COMPANIONS, NO_FILES

DEFAULT_ENGINE = next(iter(ENGINES))
PATHS = "a trace, a folder of traces, a glob, or a URL; several paths are one job"
FORMATS = ("table", "json", "csv", "parquet", "markdown", "xlsx", "folded")
"""Endings of files that are not the name of their format."""

_NO_LIMIT = 1 << 62


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, as an exception: only the outermost layer prints and exits."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **kwargs)

    def error(self, message: str) -> Any:
        """Raise what argparse would print."""
        raise UsageError(f"{message}; `{self.prog} --help` lists the options")


def add_path(parser: argparse.ArgumentParser) -> None:
    """What to read; of several paths, as an unquoted glob gives them, the traces are one job."""
    parser.add_argument("path", metavar="PATH", nargs="+", help=PATHS)


def add_reading(parser: argparse.ArgumentParser, *, path: bool = True) -> None:
    """PATH, and how it is read."""
    if path:
        add_path(parser)
    parser.set_defaults(engine=DEFAULT_ENGINE, address=None)  # for verbs that read in this process only
    group = parser.add_argument_group("reading")
    group.add_argument("--ranks", type=typed(numbers), metavar="LIST", help="only these ranks: 0,8-15")
    group.add_argument("--jobs", type=typed(positive), metavar="N", help="how many traces to read at the same time")
    group.add_argument(
        "--max-size", type=typed(limit), metavar="SIZE", help="largest trace to read, uncompressed (64GB); 0: no limit"
    )
    group.add_argument(
        "--max-event", type=typed(limit), metavar="SIZE", help="largest event to read (256MB); 0: no limit"
    )
    group.add_argument("--cache", metavar="DIR", help="folder for copies of remote files; off: keep none")
    group.add_argument(
        "--cache-size", type=typed(size), metavar="SIZE", help="size of that folder at most (10GB); 0: keep none"
    )
    group.add_argument(
        "--peak",
        action="append",
        metavar="NAME=VALUE",
        help="a peak of the devices: bf16=800TFLOP/s, memory=3.2TB/s; attainable: as `kinetoscope calibrate` measured",
    )
    for each in COMPANIONS:
        option = f"--{each.name.replace('_', '-')}"
        group.add_argument(option, action="append", metavar="PATH", help=f"{each.help}; {NO_FILES}: none")


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Where the work is done."""
    group = parser.add_argument_group("engine")
    group.add_argument(
        "--engine",
        choices=[*ENGINES],
        default=DEFAULT_ENGINE,
        help="threads of this process (default), or workers of a cluster",
    )
    group.add_argument(
        "--address", metavar="ADDRESS", help="address of the cluster: tcp://host:8786; by default a local cluster"
    )


def add_selection(parser: argparse.ArgumentParser) -> None:
    """What part of the traces is asked about."""
    group = parser.add_argument_group("selection")
    group.add_argument(
        "--steps",
        type=typed(steps),
        metavar="LIST",
        help="only these steps: 2-4, 2- (step 2 and later), steady (without warm-up), all",
    )
    group.add_argument(
        "--time-range",
        type=typed(time_range),
        metavar="FROM..TO",
        help="only this part, counted from the start of the trace: 10ms..20ms",
    )
    add_chosen(group)


def add_question(parser: argparse.ArgumentParser) -> None:
    """How what is named is read, where the work is done, and what part is asked about."""
    add_reading(parser, path=False)
    add_engine(parser)
    add_selection(parser)


def add_chosen(group: argparse._ArgumentGroup) -> None:
    """What is asked about beside steps and time: devices, threads, calls."""
    group.add_argument("--device", type=typed(numbers), metavar="LIST", help="only these devices")
    group.add_argument("--stream", type=typed(numbers), metavar="LIST", help="only these streams")
    group.add_argument("--thread", type=typed(numbers), metavar="LIST", help="only these host threads")
    group.add_argument("--annotation", metavar="TEXT", help="only what runs inside annotations of this name")
    group.add_argument(
        "--name",
        dest="event_name",
        metavar="PATTERN",
        help="only calls and kernels of this name (aten::mm|nccl*), and what they launched",
    )
    group.add_argument(
        "--under", metavar="PATTERN", help="only calls of this name, what is inside them, what it launched"
    )
    group.add_argument("--before", metavar="PATTERN", help="only what is before the first such call of a step")
    group.add_argument("--after", metavar="PATTERN", help="only what is after the last such call of a step")
    group.add_argument("--steps-by", metavar="NAME", help="use annotations of this name as steps")


def add_output(parser: argparse.ArgumentParser) -> None:
    """How a table is written."""
    _add_writing(parser.add_argument_group("table"))


def add_table(parser: argparse.ArgumentParser) -> None:
    """How a table is arranged and written."""
    group = parser.add_argument_group("table")
    group.add_argument("--where", default="", metavar="SQL", help='only rows that fulfil this condition: "calls > 10"')
    group.add_argument(
        "--sort", default="", metavar="COL[:asc]", help="sort by this column, largest first; several: a,b"
    )
    group.add_argument(
        "--columns", default="", metavar="A,B", help="only these columns, in this order, however narrow the terminal is"
    )
    _add_writing(group)


def add_document(parser: argparse.ArgumentParser) -> None:
    """How a screen is written that is no table."""
    group = parser.add_argument_group("output")
    _add_format(group, ("table", "markdown"), "by default the screen (table)")


def add_page(parser: argparse.ArgumentParser, forms: Sequence[str]) -> None:
    """How a page is written: a screen with tables in it."""
    group = parser.add_argument_group("output")
    group.add_argument("--limit", type=typed(count), metavar="N", help="show at most N rows of each table; 0: all")
    _add_format(group, forms, "by default the screen (table)")


def _add_writing(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--limit", type=typed(count), metavar="N", help="show at most N rows; 0: all")
    _add_format(group, FORMATS, "by default table")


def _add_format(group: argparse._ArgumentGroup, forms: Sequence[str], default: str) -> None:
    group.add_argument("--format", choices=forms, help=f"{default}, or what the ending of -o FILE says")
    group.add_argument("-o", "--output", metavar="FILE", help="write to this file")
    add_budget(group)


def add_budget(group: argparse._ActionsContainer) -> None:
    """How long an answer may be."""
    group.add_argument(
        "--budget",
        type=typed(positive),
        metavar="TOKENS",
        help="bound json or markdown for a language model: what does not fit is left out, and a note says so",
    )


def limit(text: str) -> int:
    """The same; 0 is no limit."""
    return size(text) or _NO_LIMIT


def count(text: str) -> int:
    """A whole number from 0."""
    if not text.isdecimal():
        raise ValueError(f"{text!r} is no number from 0")
    return int(text)


def positive(text: str) -> int:
    """A whole number from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{text!r} is no number from 1")
    return int(text)


def typed(convert: Callable[[str], Any]) -> Callable[[str], Any]:
    """`convert` as argparse wants it: with its own words about what is wrong."""

    def converted(text: str) -> Any:
        try:
            return convert(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return converted


def parted(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Our own arguments, and the command behind `--`."""
    if "--" not in arguments:
        return list(arguments), []
    at = arguments.index("--")
    return list(arguments[:at]), list(arguments[at + 1 :])
