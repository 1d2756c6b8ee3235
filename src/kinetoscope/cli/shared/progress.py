"""What a person sees while they wait: bytes read, and that code is being compiled, which happens once.

A thread looks at the state a few times a second. Nothing is shown, and nothing imported, for what is done in an
instant. On a terminal it is a bar on standard error that disappears again; in a pipe only a long compilation is said.
"""

from __future__ import annotations

import itertools
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_INSTANT = 0.4  # seconds during which nothing is shown
_LONG_COMPILE_SECONDS = 1.0  # seconds of compiling after which a pipe is told
_REFRESH = 0.1
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_BAR_CELLS = 40

COMPILING = "compiling (first run only)"


class Meter:
    """What has been done so far; told by readers and by the compiler, from any thread.

    Attributes:
        total: bytes of all files, None where that is not known.
        read: bytes read.
        compiling: the function that is being compiled, "" where none is.
        count: functions compiled, that one included.
    """

    def __init__(self, total: int | None = None) -> None:
        self.total = total
        self.read = 0
        self.compiling = ""
        self.count = 0
        self._lock = threading.Lock()
        self._compiled = 0.0
        self._since: float | None = None

    def __call__(self, count: int) -> None:
        """`count` more bytes of the files have been read."""
        with self._lock:
            self.read += count

    def compiles(self, name: str, begins: bool) -> None:
        """A function begins, or ends, to be compiled."""
        now = time.perf_counter()
        with self._lock:
            if not begins and self._since is not None:
                self._compiled += now - self._since
            self._since = now if begins else None
            self.count += begins
            self.compiling = name if begins else ""

    @property
    def seconds_compiling(self) -> float:
        """So far, the running compilation included."""
        with self._lock:
            return self._compiled + (time.perf_counter() - self._since if self._since is not None else 0.0)


@contextmanager
def shown(meter: Meter) -> Iterator[None]:
    """While it is open, `meter` is shown on standard error."""
    from kinetoscope.algorithms.compile_events import on_compile

    over = threading.Event()
    show = _bar if sys.stderr.isatty() else _sentence

    def telling() -> None:
        with suppress(OSError):  # nobody reads it
            show(meter, over)

    thread = threading.Thread(target=telling, name="kinetoscope-progress", daemon=True)
    thread.start()
    try:
        with on_compile(meter.compiles):
            yield
    finally:
        over.set()
        thread.join()


def _sentence(meter: Meter, over: threading.Event) -> None:
    """One line, once, if compiling takes long."""
    while not over.wait(_REFRESH):
        if meter.seconds_compiling > _LONG_COMPILE_SECONDS:
            sys.stderr.write(f"kinetoscope: {COMPILING} …\n")
            sys.stderr.flush()
            return


def _bar(meter: Meter, over: threading.Event) -> None:
    """One line, which is drawn anew and disappears: what is going on, how much has been read, what is compiled."""
    if over.wait(_INSTANT):
        return
    from kinetoscope.views.numbers import scale
    from kinetoscope.views.terminal.bars import bar
    from kinetoscope.views.text import fitting

    spinner = itertools.cycle(_SPINNER)
    while not over.wait(_REFRESH):
        unit = scale([meter.total or meter.read], "bytes")
        words = [next(spinner), "analysing" if meter.read == meter.total else "reading"]
        if meter.total:
            words += [bar(meter.read, meter.total, _BAR_CELLS).ljust(_BAR_CELLS), f"{unit.text(meter.read)} of"]
        words += [unit.with_unit(meter.total or meter.read)]
        words += [f"{COMPILING}: {meter.compiling}"] if meter.compiling else []
        line = fitting(" ".join(words), shutil.get_terminal_size().columns - 1)
        sys.stderr.write(f"\r\x1b[K{line}")
        sys.stderr.flush()
    sys.stderr.write("\r\x1b[K")
    sys.stderr.flush()
