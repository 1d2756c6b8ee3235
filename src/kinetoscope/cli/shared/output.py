"""Where a result goes: a table on the terminal, bytes in a pipe or a file."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kinetoscope.cli.shared.options import FORMATS
from kinetoscope.errors import UsageError
from kinetoscope.schema import Result
from kinetoscope.views.exports.formats import BUDGETED, ENDINGS
from kinetoscope.views.rows import Arrangement, arranged, column_names, order
from kinetoscope.views.terminal import screen
from kinetoscope.views.terminal.lines import Line, without_colour, write
from kinetoscope.views.text import printable

if TYPE_CHECKING:
    from kinetoscope.pages.blocks import Page

_WITH_NOTES = ("table", "xlsx", *BUDGETED)
"""Formats that hold the notes of a result where one sees them; of the others they go to standard error."""


def deliver(result: Result, args: argparse.Namespace, *, title: str = "") -> None:
    """Write `result` as the options of `options.add_table` say.

    Raises:
        UsageError: a column or expression that cannot be, binary data for a terminal, or a budget that holds nothing.
        InputError: the file cannot be written.
    """
    form, budget = form_of(args), budget_of(args)
    if form == "table":
        result = arranged(result, arrangement(args))
        view = screen.lines(
            result, width=width_of(args.output), limit=args.limit, title=title, all_columns=bool(args.columns)
        )
        write_lines(view, args.output)
        return
    if form in ("parquet", "xlsx") and not args.output and sys.stdout.isatty():
        raise UsageError(f"{form} is no text for a terminal: name a file with -o, or pipe it on")
    from kinetoscope.views.exports.files import to_bytes

    result = arranged(result, replace(arrangement(args), limit=args.limit or 0))
    _write_bytes(to_bytes(result, form, budget), args.output)
    if form not in _WITH_NOTES:
        sys.stdout.flush()
        with suppress(OSError):  # nobody reads it
            sys.stderr.writelines(f"kinetoscope: {printable(each)}\n" for each in result.sentences)


def arrangement(args: argparse.Namespace) -> Arrangement:
    """What the options say about rows and columns, but for the limit."""
    return Arrangement(args.where, sort=order(args.sort), columns=column_names(args.columns))


def write_lines(lines: Iterable[Line], output: str | None = None) -> None:
    """Print lines, coloured on a terminal; or write them as text to the file `output`."""
    if output:
        _write_bytes(without_colour(lines).encode(), output)
    else:
        write(lines, sys.stdout)


def write_text(text: str, output: str | None) -> None:
    """Print a document, or write it to a file of a name or a URL."""
    _write_bytes(text.encode(), output)


def write_page(page: Page, args: argparse.Namespace) -> None:
    """Write a page as the options of `options.add_page` say: lines, Markdown, HTML, or its blocks as JSON."""
    form = form_of(args)
    if form == "table":
        from kinetoscope.screens.terminal import lines

        write_lines(lines(page, width=width_of(args.output)), args.output)
    elif form == "markdown":
        write_text(page.to_markdown(budget_of(args)), args.output)
    elif form == "html":
        write_text(f"<!doctype html><meta charset=utf-8>{page._repr_html_()}\n", args.output)
    else:
        from kinetoscope.pages.blocks import to_plain

        write_text(json.dumps(to_plain(page), allow_nan=False) + "\n", args.output)


def width() -> int:
    """Cells in a line of standard output; a pipe has no end, unless COLUMNS says so."""
    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        return shutil.get_terminal_size().columns
    return screen.UNBOUNDED


def width_of(output: str | None) -> int:
    """Cells in a line of where it goes; a file has no end."""
    return screen.UNBOUNDED if output else width()


def form_of(args: argparse.Namespace) -> str:
    """The format that is asked for, by name or by the ending of the file."""
    if args.format:
        return str(args.format)
    ending = Path(args.output).suffix.lstrip(".") if args.output else ""
    ending = ENDINGS.get(ending, ending)
    return ending if ending in FORMATS else "table"


def budget_of(args: argparse.Namespace) -> int | None:
    """The tokens that an answer may have, of a format that can be bounded; None where nothing bounds it.

    Raises:
        UsageError: the format has no budget.
    """
    if args.budget is not None and form_of(args) not in BUDGETED:
        raise UsageError(f"--budget bounds --format {' and '.join(BUDGETED)}, not {form_of(args)}")
    return None if args.budget is None else int(args.budget)


def is_screen(args: argparse.Namespace) -> bool:
    """Of a command that has a picture: is it wanted, not a table to go on with?"""
    return form_of(args) == "table" and args.table is None and not (args.where or args.sort or args.columns)


def _write_bytes(data: bytes, output: str | None) -> None:
    if output:
        from kinetoscope.outputs.opening import write_file

        write_file(data, output)
    elif sys.stdout.isatty():
        sys.stdout.writelines(_safe(data))
    elif buffer := getattr(sys.stdout, "buffer", None):
        sys.stdout.flush()
        buffer.write(data)
    else:
        sys.stdout.write(data.decode())


def _safe(data: bytes) -> Iterator[str]:
    """Lines for a terminal: JSON and CSV keep what a trace says as it is, and that may hold escapes."""
    return (printable(line) + "\n" for line in data.decode().split("\n")[:-1])
