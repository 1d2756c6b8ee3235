"""The screen while `kinetoscope try` runs: how far it is, what is gained so far, and the trials that are done.

On a terminal it is a small screen on standard error that is drawn anew and disappears again; elsewhere, a line for each
trial that is done. On standard output, what would be tried, and what came of it.
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
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from kinetoscope.cli.shared.output import width, write_lines
from kinetoscope.compare.trials.tried import TrialRow, Tried, names_of
from kinetoscope.pages.answers.trial_table import table
from kinetoscope.pages.answers.trial_words import duration, signed_percent
from kinetoscope.pages.answers.trials import of_list, of_tried
from kinetoscope.screens.terminal import MAX_PROSE_CELLS, grid_lines, lines
from kinetoscope.trying.progress import TrialProgress, Watch
from kinetoscope.views import numbers
from kinetoscope.views.terminal import lines as styled
from kinetoscope.views.terminal.bars import bar
from kinetoscope.views.terminal.lines import Line, plain
from kinetoscope.views.text import cells, middle, padded, printable

if TYPE_CHECKING:
    from kinetoscope.trying.session import TrySession

_REFRESH: Final = 0.5
_BAR_CELLS: Final = 40
_OTHER_LINES: Final = 8
"""Lines of a screen that are none of the table's rows, with one for the command that was typed."""


@contextmanager
def shown(stream: TextIO | None = None) -> Iterator[Watch]:
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


def write(tried: Tried, folder: Path) -> None:
    """Draw what came of it; its folder is for what to type next."""
    write_lines(lines(of_tried(tried, str(folder)), width=width()))


def markdown(tried: Tried) -> str:
    """The same as a document."""
    return of_tried(tried).to_markdown()


def write_list(session: TrySession) -> None:
    """Draw what would be tried in a program that was surveyed, in order, and why not the rest."""
    rows = [_wanted(session, changes) for changes in session.candidates.order]
    write_lines(lines(of_list(rows, session.candidates.rows), width=width()))


def _wanted(session: TrySession, changes: Sequence[str]) -> TrialRow:
    """A candidate with what the findings promise that it answers."""
    named = {(each.code, each.key): each for name in changes for each in session.candidates.promised.get(name, ())}
    titles = [session.trials[name].title for name in changes if name in session.trials]
    return TrialRow(
        trial=names_of(changes),
        title=" and ".join(titles),
        outcome="no time",
        codes=tuple(dict.fromkeys(code for code, _ in named)),
        promised_low=round(sum(each.stake.low for each in named.values())) if named else None,
        promised_high=round(sum(each.stake.high for each in named.values())) if named else None,
    )


class _Lines:
    """A line for each trial that is done."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._written = 0

    def watch(self, progress: TrialProgress) -> None:
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
    before, now = (numbers.shown(each, "ns") for each in (row.base_step, row.step))
    return f"{row.trial}: {row.outcome}, {before} → {now} a step{change}"


class _Screen:
    """Lines that are drawn anew in their place a few times a second, as times go by while a program runs."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._progress: TrialProgress | None = None
        self._since = 0.0
        self._drawn = 0

    def watch(self, progress: TrialProgress) -> None:
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
        styled.write(drawn, self._stream)
        self._stream.flush()
        self._drawn = len(drawn)


def screen_lines(progress: TrialProgress, seconds: float, room: int, height: int) -> list[Line]:
    """The screen: so many seconds after that progress was known, in at most so many cells and lines."""
    prose = min(room, MAX_PROSE_CELLS)
    drawn = [plain(middle(printable(progress.doing), prose), "bold"), _bar(progress, seconds, prose)]
    if progress.step:
        drawn.append(plain(middle(printable(_so_far(progress)), prose), "dim"))
    rows = tuple(replace(row, why="", on_top_of=(), pays_after=None) for row in progress.rows)
    rows = rows[max(len(rows) - max(height - _OTHER_LINES, 1), 0) :]
    tables = [*table(Tried(command=(), trials=rows, step=round(progress.step)))]
    return [*drawn, *(line for block in tables for line in (plain(), *grid_lines(block, room)))]


def _bar(progress: TrialProgress, seconds: float, most: int) -> Line:
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


def _so_far(progress: TrialProgress) -> str:
    if not progress.accepted or not progress.step_now:
        return f"a step takes {numbers.shown(progress.step, 'ns')}; nothing is kept so far"
    change = signed_percent(progress.step_now / progress.step - 1)
    steps = f"{numbers.shown(progress.step, 'ns')} → {numbers.shown(progress.step_now, 'ns')}"
    return f"a step: {steps} ({change}) with {names_of(progress.accepted)}"
