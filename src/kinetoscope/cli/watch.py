"""`kinetoscope watch RUN`: a run as it goes on, on a terminal: for login nodes, where there is no browser and no port.

RUN is the folder that `kinetoscope record --history` or `--every` writes to, or the number of the job (Slurm, PBS,
LSF, Grid Engine). Its files are opened anew at each look, so that a shared folder shows what another machine has
written. It ends with the run, or with Ctrl-C. Where output is no terminal, or TERM is dumb, each look is a line.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kinetoscope.cli.shared.options import Parser, count, positive, typed
from kinetoscope.record.history.jobs import folder_of_job

if TYPE_CHECKING:
    from kinetoscope.screens.growing_run import Looked

_HOME, _REST, _CLEAR = "\x1b[H", "\x1b[J", "\x1b[2J"
_LINE_END = "\x1b[K\n"
_HIDE, _SHOW = "\x1b[?25l", "\x1b[?25h"
_MAX_CELLS = 120

_PAUSE_RATIO = 5
_SAID_RATIO = 20
"""So many times as long as it took to work out what is said of the run it is not worked out anew."""

_SAID_SECONDS = 10.0
_MOST_SAID_ROWS = 3_000_000
"""Steps of all ranks beyond which nothing is worked out besides what is drawn: `kinetoscope history` does."""

_SENTENCES = 4


def run(arguments: list[str]) -> int:
    """Look until the run ends."""
    parser = Parser(prog="kinetoscope watch", usage="kinetoscope watch RUN [options]", description=__doc__)
    parser.add_argument("path", metavar="RUN", help="folder of the run, or number of its job")
    parser.add_argument("--interval", type=typed(positive), default=2, metavar="SECONDS", help="between two looks (2)")
    parser.add_argument("--last", type=typed(count), default=0, metavar="N", help="draw the last N steps; 0: all")
    parser.add_argument("--once", action="store_true", help="look once")
    args = parser.parse_args(arguments)
    watch = _Watch(args.path if Path(args.path).exists() else folder_of_job(args.path) or args.path, args.last)
    drawn = _can_be_drawn_on(sys.stdout, os.environ)
    try:
        if drawn and not args.once:
            sys.stdout.write(_HIDE + _CLEAR)
        while True:
            began = time.monotonic()
            looked = watch.look(say=drawn or args.once)
            _show(looked, drawn=drawn, once=args.once)
            if args.once or looked.run.has_ended:
                return 0
            took = time.monotonic() - began
            time.sleep(max(args.interval, _PAUSE_RATIO * took))
    except KeyboardInterrupt:
        return 0
    finally:
        if drawn and not args.once:
            sys.stdout.write(_SHOW)


class _Watch:
    """A run that is followed."""

    def __init__(self, path: str, last: int) -> None:
        from kinetoscope.model.history.growing import GrowingRun
        from kinetoscope.model.history.series import STEPS
        from kinetoscope.readers.history.history import HistoryFollower

        self._path, self._last = path, last
        self._run, self._follower = GrowingRun(), HistoryFollower(path)
        self._recent = STEPS.empty()
        self._said: list[str] = []
        self._rows = 0
        self._next_said = 0.0

    def look(self, *, say: bool) -> Looked:
        """The run with what is new in it.

        Raises:
            NotFoundError: there is no such folder.
            BrokenTraceError: its files are something else.
        """
        import polars as pl

        from kinetoscope.errors import NotFoundError
        from kinetoscope.screens.growing_run import LAST_STEPS, Looked

        new = [self._recent]
        try:
            for tables in self._follower.by_file():
                self._run.add(tables.steps, tables.marks)
                new.append(tables.steps.tail(LAST_STEPS))
        except NotFoundError:
            if not Path(self._path).is_dir():
                raise
        self._recent = pl.concat(new).filter(pl.col("step") >= self._run.end - LAST_STEPS)
        if say:
            self._say()
        age = (time.time_ns() - self._run.newest) / 1e9 if self._run.newest else None
        return Looked(self._path, self._run, self._recent, age, self._said, self._last)

    def _say(self) -> None:
        """Work out what changed, now and then."""
        began = time.monotonic()
        is_new = self._rows != self._run.rows and self._run.rows <= _MOST_SAID_ROWS
        if not is_new or (began < self._next_said and not self._run.has_ended):
            return
        from kinetoscope.analyses import asked
        from kinetoscope.pages.history import sentences_of
        from kinetoscope.reading import read

        job = read(self._path)
        tables = ("lost", "changes", "spikes", "returns", "phases")
        self._said = [*map(str, sentences_of(job.ask({name: asked(f"history_{name}") for name in tables})))][
            :_SENTENCES
        ]
        self._rows = self._run.rows
        now = time.monotonic()
        self._next_said = now + max(_SAID_SECONDS, _SAID_RATIO * (now - began))


def _show(looked: Looked, *, drawn: bool, once: bool) -> None:
    from kinetoscope.screens import growing_run
    from kinetoscope.views.terminal.lines import write

    if not drawn and not once:
        sys.stdout.write(f"{growing_run.line(looked)}\n")
        sys.stdout.flush()
        return
    size = shutil.get_terminal_size()
    lines = list(growing_run.lines(looked, min(size.columns, _MAX_CELLS)))
    if once:
        write(lines, sys.stdout)
    else:
        sys.stdout.write(_HOME)
        write(lines[: size.lines - 1], _Ended(sys.stdout))  # type: ignore[arg-type]
        sys.stdout.write(_REST)
    sys.stdout.flush()


class _Ended:
    """A stream that clears the rest of each line: what was longer there before goes."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.isatty = stream.isatty

    def write(self, text: str) -> None:
        """Write the text."""
        self._stream.write(text.replace("\n", _LINE_END))


def _can_be_drawn_on(stream: Any, environ: Any) -> bool:
    return bool(stream.isatty()) and environ.get("TERM", "").lower() not in ("", "dumb", "unknown")
