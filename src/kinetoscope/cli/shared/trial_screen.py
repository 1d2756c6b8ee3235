"""What a person sees while `kinetoscope try` runs: how far it is, what is gained so far, and the trials that are done.

On a terminal it is a small screen on standard error that is drawn anew and disappears again; elsewhere, a line for each
trial that is done. Then the result, on standard output and in files.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Final, TextIO

from kinetoscope.cli.shared.output import width, write_lines, write_text
from kinetoscope.compare.trials.tried import TrialRow, Tried, names_of
from kinetoscope.pages.answers.trials import duration, of_tried, signed_percent, table
from kinetoscope.screens.terminal import MAX_PROSE_CELLS, grid_lines, lines
from kinetoscope.trying.progress import Progress, Watch
from kinetoscope.views.numbers import shown
from kinetoscope.views.terminal.bars import bar
from kinetoscope.views.terminal.lines import Line, plain, write
from kinetoscope.views.text import cells, middle, padded, printable

_REFRESH: Final = 0.5
_BAR_CELLS: Final = 40
_LINES_BESIDE: Final = 8
"""Lines of a screen that are none of the table's rows, with one for the command that was typed."""


@contextmanager
def trial_screen(stream: TextIO | None = None) -> Iterator[Watch]:
    """While it is open, what it yields shows the progress that it is called with."""
    stream = sys.stderr if stream is None else stream
    if stream.isatty() and os.environ.get("TERM", "").lower() not in ("dumb", "unknown"):
        screen = _Screen(stream)
        over = threading.Event()
        thread = threading.Thread(target=screen.keep, args=(over,), name="kinetoscope-trials", daemon=True)
        thread.start()
        try:
            yield screen.watch
        finally:
            over.set()
            thread.join()
    else:
        yield _Lines(stream).watch


def show(tried: Tried, *, export_json: str | None = None, export_markdown: str | None = None) -> None:
    """Draw the result, and write it to the files that are named.

    Raises:
        InputError: a file cannot be written.
    """
    page = of_tried(tried)
    write_lines(lines(page, width=width()))
    if export_json:
        write_text(tried.to_json() + "\n", export_json)
    if export_markdown:
        write_text(page.to_markdown(), export_markdown)


class _Lines:
    """A line for each trial that is done."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._written = 0

    def watch(self, progress: Progress) -> None:
        for row in progress.rows[self._written :]:
            with suppress(OSError):  # nobody reads it
                self._stream.write(f"kinetoscope: {printable(said(row))}\n")
                self._stream.flush()
        self._written = len(progress.rows)


def said(row: TrialRow) -> str:
    """A trial in one line."""
    if row.step is None:
        return f"{row.trial}: {row.outcome}{f': {row.why}' if row.why else ''}"
    change = f" ({signed_percent(row.change)})" if row.change is not None else ""
    return f"{row.trial}: {row.outcome}, {shown(row.base_step, 'ns')} → {shown(row.step, 'ns')} a step{change}"


class _Screen:
    """Lines that are drawn anew in their place a few times a second, as times go by while a program runs."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._progress: Progress | None = None
        self._since = 0.0
        self._drawn = 0

    def watch(self, progress: Progress) -> None:
        with self._lock:
            self._progress, self._since = progress, time.monotonic()

    def keep(self, over: threading.Event) -> None:
        """Draw until it is over, then leave nothing."""
        with suppress(OSError):  # nobody reads it
            while not over.wait(_REFRESH):
                self._draw()
            self._replace([])

    def _draw(self) -> None:
        with self._lock:
            progress, since = self._progress, self._since
        if progress is not None:
            size = shutil.get_terminal_size()
            self._replace(screen_lines(progress, time.monotonic() - since, size.columns - 1, size.lines))

    def _replace(self, drawn: Sequence[Line]) -> None:
        self._stream.write(f"\x1b[{self._drawn}F\x1b[J" if self._drawn else "")
        write(drawn, self._stream)
        self._stream.flush()
        self._drawn = len(drawn)


def screen_lines(progress: Progress, seconds: float, room: int, height: int) -> list[Line]:
    """The screen: so many seconds after that progress was known, in at most so many cells and lines."""
    prose = min(room, MAX_PROSE_CELLS)
    drawn = [plain(middle(printable(progress.doing), prose), "bold"), _bar(progress, seconds, prose)]
    if progress.step:
        drawn.append(plain(middle(printable(_so_far(progress)), prose), "dim"))
    rows = tuple(replace(row, why="", on_top_of=(), pays_after=None) for row in progress.rows)
    rows = rows[max(len(rows) - max(height - _LINES_BESIDE, 1), 0) :]
    tables = [*table(Tried(command=(), trials=rows, step=round(progress.step)))]
    return [*drawn, *(line for block in tables for line in (plain(), *grid_lines(block, room)))]


def _bar(progress: Progress, seconds: float, most: int) -> Line:
    """How many runs have ended, how long it took, and takes."""
    times = [duration(progress.seconds + seconds)]
    if progress.seconds_left is not None:
        times.append(f"about {duration(max(progress.seconds_left - seconds, 0.0))} left")
    runs = f"{progress.runs} of {progress.planned} runs" if progress.planned else f"{progress.runs} runs"
    words = f"{runs} · {', '.join(times)}"
    room = min(most - cells(words) - 2, _BAR_CELLS)
    if not progress.planned or room < 8:
        return plain(middle(words, most))
    done = bar(min(progress.runs, progress.planned), progress.planned, room)
    return ((padded(done, room), "computation"), (f"  {words}", ""))


def _so_far(progress: Progress) -> str:
    if not progress.kept or not progress.step_now:
        return f"a step takes {shown(progress.step, 'ns')}; nothing is kept so far"
    change = signed_percent(progress.step_now / progress.step - 1)
    steps = f"{shown(progress.step, 'ns')} → {shown(progress.step_now, 'ns')}"
    return f"a step: {steps} ({change}) with {names_of(progress.kept)}"
