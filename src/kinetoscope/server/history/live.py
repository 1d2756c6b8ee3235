"""The histories of runs that somebody looks at: read in the background, once a second, as long as somebody asks."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kinetoscope.errors import KinetoscopeError
from kinetoscope.model.history.growing import COLUMNS, GrowingRun
from kinetoscope.readers.history.files import Place, history_files
from kinetoscope.readers.history.history import HistoryFollower

_EVERY_SECONDS: Final = 1.0
_PAUSE_RATIO: Final = 5
"""So many times as long as a look took nothing is looked at."""

_FIRST_SECONDS: Final = 0.5
"""For which the whole run is waited for before a part of it is shown."""

_IDLE_SECONDS: Final = 30.0
"""Seconds after which nobody asks any more."""

_MOST_RUNS: Final = 2
"""Runs that are held: a thousand ranks of a hundred thousand steps take half a gigabyte."""


class LiveHistory:
    """A run that is read while it goes on.

    Attributes:
        run: what is read so far.
        files: how many there are; read: how many of these have been looked at.
        error: why the last look ended early.
    """

    def __init__(self, place: Place | Sequence[Place]) -> None:
        self.run = GrowingRun()
        self.files = self.read = 0
        self.error = ""
        self._follower = HistoryFollower(place)
        self._place = place
        self._asked = 0.0
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._first = threading.Event()

    def ask(self) -> GrowingRun:
        """The run, which is read on from now on; the first of it is waited for."""
        with self._lock:
            self._asked = time.monotonic()
            if self._thread is None:
                self._thread = threading.Thread(target=self._follow, name="kinetoscope-history", daemon=True)
                self._thread.start()
        self._first.wait()
        return self.run

    @property
    def reading(self) -> int:
        """Files that have not been looked at yet."""
        return max(self.files - self.read, 0)

    def _follow(self) -> None:
        while True:
            began = time.monotonic()
            try:
                self._look()
                self.error = ""
            except KinetoscopeError as error:
                self.error = str(error)
            except RuntimeError:  # the interpreter ends, and starts no threads any more
                return
            self._first.set()
            took = time.monotonic() - began
            time.sleep(max(_EVERY_SECONDS - took, _PAUSE_RATIO * took if took > _EVERY_SECONDS else 0, 0.05))
            with self._lock:
                if time.monotonic() - self._asked > _IDLE_SECONDS:
                    self._thread = None
                    return

    def _look(self) -> None:
        began = time.monotonic()
        if not self.read:
            self.files = len(history_files(self._place))
        for place, tables in enumerate(self._follower.by_file(COLUMNS), 1):
            self.run.add(tables.steps, tables.marks)
            self.read = max(self.read, place)
            if self.run.rows and time.monotonic() - began > _FIRST_SECONDS:
                self._first.set()
        self.files = self.read


class LiveHistories:
    """The histories that were asked for last, by the place where they are."""

    def __init__(self) -> None:
        self._of: OrderedDict[tuple[str, ...], LiveHistory] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, files: Sequence[str], opened: str) -> LiveHistory:
        """The history in these files; of a run that was opened by its folder, with those that come later."""
        is_file = Path(opened).is_file()
        place = tuple(files) if is_file else (str(Path(files[0]).parent),)
        with self._lock:
            live = self._of.pop(place, None) or LiveHistory(place if is_file else place[0])
            self._of[place] = live
            if len(self._of) > _MOST_RUNS:
                self._of.popitem(last=False)
            return live
