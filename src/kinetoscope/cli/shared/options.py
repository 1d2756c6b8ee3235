"""Options that several verbs share, and the words they take: ranges, times, sizes. Imports nothing heavy."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from typing import Any

from kinetoscope.engines import ENGINES
from kinetoscope.errors import UsageError

DEFAULT_ENGINE = next(iter(ENGINES))
PATHS = "a trace, a folder of traces, a glob, or a URL; several paths are one job"
FORMATS = ("table", "json", "csv", "parquet", "folded")

_TIME = {"": 1, "ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_SIZE = {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_NO_LIMIT = 1 << 62
_SPAN = re.compile(r"(-?\d+)(?:-(-?\d+))?")


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
    group.add_argument("--ranks", type=typed(integers), metavar="LIST", help="only these ranks: 0,8-15")
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
    group.add_argument("--device", type=typed(integers), metavar="LIST", help="only these devices")
    group.add_argument("--stream", type=typed(integers), metavar="LIST", help="only these streams")
    group.add_argument("--thread", type=typed(integers), metavar="LIST", help="only these host threads")
    group.add_argument("--annotation", metavar="TEXT", help="only what runs inside annotations of this name")
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
    _add_writing(group)


def _add_writing(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--limit", type=typed(count), metavar="N", help="show at most N rows; 0: all")
    group.add_argument("--format", choices=FORMATS, help="by default table, or what the ending of -o FILE says")
    group.add_argument("-o", "--output", metavar="FILE", help="write to this file")


def integers(text: str) -> tuple[int, ...]:
    """`0,8-15` → (0, 8, 9, …, 15); a number may be negative: `-1`, `-3--1`."""
    found: list[int] = []
    for part in text.split(","):
        match = _SPAN.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"{part!r} is neither a number nor a range such as 8-15")
        first, last = int(match[1]), int(match[2] if match[2] is not None else match[1])
        if last < first or last - first > 1_000_000:
            raise ValueError(f"{part!r} is no range: the first number is the smaller one")
        found.extend(range(first, last + 1))
    return tuple(found)


def steps(text: str) -> tuple[int, ...] | range | str:
    """`2-4` → (2, 3, 4); `2-` → all from 2 on; `all` → all from 0 on; `steady` as it is."""
    if text == "steady":
        return text
    if text == "all":
        return range(sys.maxsize)
    if match := re.fullmatch(r"(\d+)-", text):
        return range(int(match[1]), sys.maxsize)
    return integers(text)


def time_range(text: str) -> tuple[int, int]:
    """`10ms..20ms` → (10000000, 20000000): nanoseconds since the beginning of the trace."""
    first, dots, last = text.partition("..")
    if not dots:
        raise ValueError(f"{text!r} has no '..' between two times, as 10ms..20ms has")
    begin, end = time_of(first), time_of(last)
    if end <= begin:
        raise ValueError(f"{text!r} ends before it begins")
    return begin, end


def time_of(text: str) -> int:
    """`30us` → 30000: nanoseconds; a bare number is nanoseconds."""
    return _measure(text, _TIME, "a time")


def size(text: str) -> int:
    """`64GB` → 64000000000: bytes, in decimal units."""
    return _measure(text, _SIZE, "a size")


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


def _measure(text: str, units: dict[str, int], what: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-zµA-Z]*)", text.strip())
    if match is None or match[2] not in units:
        raise ValueError(f"{text!r} is not {what}: a number with one of {', '.join(filter(None, units))}")
    return round(float(match[1]) * units[match[2]]) if "." in match[1] else int(match[1]) * units[match[2]]


def typed(convert: Callable[[str], Any]) -> Callable[[str], Any]:
    """`convert` as argparse wants it: with its own words about what is wrong."""

    def converted(text: str) -> Any:
        try:
            return convert(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return converted
