"""Recordings on demand: all ranks of a run begin at the same step, without a word between them while they train.

A thread of each process checks a few times a second for a request. Each process that reads one notes its own step; the
leader (rank 0) takes the furthest of these, adds the steps that will have passed until everyone has read its answer,
and notes that as the step to begin at. Ranks that reach this step before they read of it report that and record none.
The thread that trains looks at one number a step; it reads no file and waits for nobody.
"""

from __future__ import annotations

import contextlib
import math
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kinetoscope.record.always_on import mailbox

Clock = Callable[[], tuple[int, float]]
"""The number of steps that have ended, and how long one takes, in seconds."""

_POLL_S: Final = 0.25
_FAST_POLL_S: Final = 0.02
_PATIENCE_S: Final = 20.0
"""Seconds after which the leader no longer waits for ranks that have not read a request."""

_MARGIN_S: Final = 0.5
"""Seconds between the leader's answer and the step to begin at, at least."""

_MAX_STEPS: Final = 1000


@dataclass(frozen=True)
class RankProcess:
    """A process of a run. Several may have the same rank, where one command starts several programs."""

    rank: int
    world: int
    pid: int
    host: str

    @property
    def name(self) -> str:
        """As in the names of notes."""
        return f"{self.rank}.{self.pid}"


@dataclass(frozen=True)
class AgreedWindow:
    """A recording that is to begin at a step.

    Attributes:
        number: of the request.
        step: the number of steps that have ended when it begins; None for the next boundary.
        active, warmup: how many steps.
        options: fields of `RecordOptions` that differ from the job's.
        reason: the source of the request.
        cause: what `--every` opens it for; "" of what somebody asked for.
        took: the step that was the reason, s.
    """

    number: str
    step: int | None
    active: int
    warmup: int
    options: Mapping[str, Any] = field(default_factory=dict)
    reason: str = "trigger"
    took: float = 0.0
    cause: str = ""


def agreed_window(note: Mapping[str, Any], step: int | None) -> AgreedWindow:
    """The window of a request; values that make no sense are corrected."""
    options = {
        name: True
        for name in ("with_stack", "profile_memory", "record_shapes", "memory_snapshot")
        if note.get(name) is True
    }
    took = note.get("took")
    return AgreedWindow(
        str(note.get("id", "")),
        step,
        _count(note.get("steps"), 3, 1),
        _count(note.get("warmup"), 1, 0),
        options,
        str(note.get("reason", "trigger")),
        took if isinstance(took, float) else 0.0,
        str(note.get("cause", "")),
    )


def _count(value: object, otherwise: int, least: int) -> int:
    fits = isinstance(value, int) and not isinstance(value, bool)
    return min(max(int(value), least), _MAX_STEPS) if fits else otherwise  # type: ignore[call-overload]


class RequestWatch:
    """Looks for requests, and agrees with the other ranks on the step to begin at.

    Attributes:
        agreed: what the thread that trains is to begin; that thread takes it away. Reading it is all that a step costs.
    """

    def __init__(self, process: RankProcess, *, run: str, control: Path, clock: Clock) -> None:
        self.agreed: AgreedWindow | None = None
        self._process, self._control, self._clock = process, control, clock
        self._touch = None if "://" in run else Path(run) / mailbox.TOUCH
        self._asked: dict[str, Any] | None = None
        self._wanted: dict[str, Any] | None = None
        self._own = ""  # the last request that was ours
        self._known = ""
        self._since = 0.0
        self._signalled = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kinetoscope-watch", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()

    def signal(self) -> None:
        """Someone sent a signal; called by its handler, so it only sets a flag."""
        self._signalled = True

    def ask(self, request: Mapping[str, Any]) -> None:
        """Ask all ranks for a recording, as `kinetoscope trigger` does, unless one is asked for already."""
        if self._wanted is None and self._asked is None and self.agreed is None:
            self._wanted = dict(request)

    def done(self, number: str, note: Mapping[str, Any]) -> None:
        """Leave the outcome of a request for whoever asked."""
        if number:
            with contextlib.suppress(OSError):
                mailbox.leave(
                    self._control / number / f"done.{self._process.name}", {"rank": self._process.rank, **note}
                )

    def _run(self) -> None:
        process = self._process
        with contextlib.suppress(OSError):
            me = {"rank": process.rank, "world": process.world, "pid": process.pid, "host": process.host}
            mailbox.leave(self._control / "ranks" / process.name, me)
        while not self._stop.wait(_FAST_POLL_S if self._asked else _POLL_S):
            with contextlib.suppress(OSError):  # a folder that is away for a moment
                self._look()

    def _look(self) -> None:
        self._pass_on()
        if self._asked is None:
            note = mailbox.read(self._control / "request")
            if note is None or not isinstance(note.get("id"), str) or note["id"] == self._known:
                return
            self._take(note)
        self._agree()

    def _pass_on(self) -> None:
        """Make a request of what this process wants, of a signal and of a touched file."""
        if self._wanted is not None:
            wanted, self._wanted = self._wanted, None
            if self._own:
                shutil.rmtree(self._control / self._own, ignore_errors=True)
            self._own = mailbox.ask(self._control, wanted)
        touched = self._touch is not None and self._process.rank == 0 and self._touch.exists()
        if touched or self._signalled:
            self._signalled = False
            request = (touched and self._touch and mailbox.read(self._touch)) or {}
            if touched and self._touch:
                self._touch.unlink(missing_ok=True)
            mailbox.ask(self._control, request)

    def _take(self, note: dict[str, Any]) -> None:
        self._known = note["id"]
        if Path(self._known).name != self._known:  # a path of another folder
            return
        folder = self._control / self._known
        if (folder / "start").exists() or mailbox.read_all(folder, "done."):  # of before this process began
            return
        if self._process.world <= 1:
            self.agreed = agreed_window(note, None)
            return
        self._asked, self._since = note, time.monotonic()
        step, seconds = self._clock()
        seen = {"rank": self._process.rank, "step": step, "seconds": seconds}
        mailbox.leave(self._control / self._known / f"seen.{self._process.name}", seen)

    def _agree(self) -> None:
        if self._asked is None:
            return
        folder = self._control / self._known
        if self._process.rank == 0 and not (folder / "start").exists():
            self._decide(folder)
        answer = mailbox.read(folder / "start")
        if answer is None:
            if time.monotonic() - self._since > 3 * _PATIENCE_S:
                self._asked = None
                self.done(self._known, {"problem": "rank 0 did not say at which step to begin"})
            return
        step = answer.get("step")
        self.agreed, self._asked = agreed_window(self._asked, step if isinstance(step, int) else 0), None

    def _decide(self, folder: Path) -> None:
        seen = [note for note in mailbox.read_all(folder, "seen.").values() if isinstance(note.get("step"), int)]
        waited = time.monotonic() - self._since
        if len(seen) < self._process.world and waited < _PATIENCE_S:
            return
        step, seconds = self._clock()
        longest = max([seconds, *(float(note.get("seconds") or 0.0) for note in seen)])
        if not longest and waited < _PATIENCE_S:
            return  # after the first step nobody knows yet how long one takes
        margin = max(_MARGIN_S, 2 * min(waited, _PATIENCE_S))
        asked = (self._asked or {}).get("at")
        begin = max([step, *(note["step"] for note in seen)]) + 2 + math.ceil(margin / max(longest, 1e-4))
        if isinstance(asked, int):
            begin = max(begin, min(asked, begin + _MAX_STEPS))
        mailbox.leave(folder / "start", {"step": begin, "ranks": sorted({int(note.get("rank", -1)) for note in seen})})
