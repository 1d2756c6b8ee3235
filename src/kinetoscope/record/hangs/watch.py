"""The watch of a rank: a thread that writes what there is once a step takes much longer than those before.

A step hangs when it has taken ten times as long as the longest before it (the first is not counted) or half as long as
its process groups wait, and at least as long as `--hang-after`. Before the first step has ended, and where nothing
counts steps, it is five times that. What is written is written again each time that the wait has doubled; should the
step end after all, it is moved to `late`.

The thread that trains sets two numbers a step. Where it holds the GIL in C, this thread stands still as well: for
that case it keeps putting off a traceback of `faulthandler`, whose thread needs no GIL.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final

from kinetoscope.record.always_on import mailbox
from kinetoscope.record.hangs import evidence
from kinetoscope.record.hangs.agent import JOB_ENDS, REQUEST, AgentWatch
from kinetoscope.record.hangs.frozen import FROZEN, FrozenStacks
from kinetoscope.record.output.guards import harmless
from kinetoscope.record.session.child_config import RecordPlan
from kinetoscope.record.session.options import rank_identity

TIMES: Final = 10.0
"""A step that takes so many times the longest before it hangs."""

TIMES_BEFORE_FIRST_STEP: Final = 5.0
"""Before the first step has ended, so many times `--hang-after` may go by."""

WATCHED: Final = "watched"
"""The folder, among the notes of a run, of the processes that are watched: RANK.PID."""

_OWNER: Final = "KINETOSCOPE_RANK_PID"
"""Says which process the rank of the environment belongs to: its helpers inherit both."""

_POLL_S: Final = 0.25
_NO_PATH: Path | None = None


class StepClock:
    """The times of the steps of a process, as far as the watch asks for them.

    Attributes:
        count: steps that have ended.
        last: when the last one did, or when this was made; monotonic.
        longest: the longest but the first, in seconds.
    """

    def __init__(self) -> None:
        self.count, self.last, self.longest = 0, time.monotonic(), 0.0

    def tick(self) -> None:
        """A step has ended."""
        now = time.monotonic()
        if self.count and now - self.last > self.longest:
            self.longest = now - self.last
        self.last = now
        self.count += 1

    def limit(self, least: float, timeout: float = math.inf) -> float:
        """The seconds after which the step hangs that is under way; `timeout`: of the process groups."""
        usual = TIMES * self.longest if self.count > 1 else TIMES_BEFORE_FIRST_STEP * least
        return max(least, min(usual, timeout / 2))


class HangWatch:
    """Watches this process, from when it is a rank.

    Attributes:
        clock: of its steps.
    """

    def __init__(self, plan: RecordPlan) -> None:
        self.clock = StepClock()
        self._plan, self._control = plan, Path(plan.control)
        self._folder = evidence.folder_of(plan.dir, evidence.restarts())
        self._groups: evidence.Groups = []
        self._announced = ""
        self._next = 0.0
        self._hung: tuple[int, float] | None = None
        self._note: dict[str, Any] = {}
        self._known = str((mailbox.read(self._control / REQUEST) or {}).get("id", ""))
        self._agent = AgentWatch(plan)
        self._frozen = FrozenStacks(self._control)
        self._over = False
        self._lock = threading.RLock()
        self._thread = threading.Thread(target=self._run, name="kinetoscope-hang", daemon=True)

    def start(self) -> None:
        """Start the thread, and write at the end of the program what its end needs."""
        if "RANK" in os.environ:
            os.environ.setdefault(_OWNER, str(os.getpid()))
        atexit.register(self._at_exit, os.getpid())
        self._thread.start()

    def _is_rank(self) -> bool:
        """True if this process computes, and is no helper of one that does."""
        if self.clock.count or self._groups or evidence.initialized() is not None:
            return True
        return "RANK" in os.environ and os.environ.get(_OWNER) == str(os.getpid())

    def _run(self) -> None:
        while not self._over:
            time.sleep(_POLL_S)
            with contextlib.suppress(OSError, RuntimeError):  # a folder that is away, a dictionary that just changed
                if self._is_rank():
                    self._look()
                else:
                    self._agent.look()

    def forked(self) -> None:
        """In a child process: nothing of the parent's watch is this process's."""
        self._frozen.forked()

    def _look(self) -> None:
        self._groups = evidence.groups_now(self._groups)
        here = rank_identity()
        name = f"{here.rank}.{here.pid}"
        if self._announced != name:
            self._announced = name
            note = evidence.note_of(here, "", [], {})
            mailbox.leave(self._control / WATCHED / name, note)
            self._frozen.write_on_signal()
        if stacks := self._frozen.taken():
            self._hung = (self.clock.count, self.clock.last)
            self.write(FROZEN, stacks=stacks)
        self._frozen.put_off(self._limit)
        self._answer(name)
        self._judge()

    def _answer(self, name: str) -> None:
        request = mailbox.read(self._control / REQUEST)
        number = str((request or {}).get("id", ""))
        if request is None or number == self._known or Path(number).name != number:
            return
        self._known = number
        why = str(request.get("why", "trigger"))
        with self._lock:
            if self._over or (why == JOB_ENDS and self._hangs):
                path: Path | None = self._folder / evidence.NOTE.format(rank_identity().rank)
            else:
                path = self.write(why)
        answer = {"rank": rank_identity().rank, "path": str(path or ""), "problem": "" if path else "nothing written"}
        mailbox.leave(self._control / number / f"done.{name}", answer)

    @property
    def _hangs(self) -> bool:
        """True if the step under way hangs, and has been written."""
        return self._hung is not None and self._hung[0] == self.clock.count

    @property
    def _limit(self) -> float:
        timeouts = [each["timeout"] for each in self._groups if each["timeout"]]
        return self.clock.limit(self._plan.hang_after, min(timeouts, default=math.inf))

    def _judge(self) -> None:
        """Write if the step under way hangs; if one that did has ended, say so."""
        with self._lock:
            if self._over:
                return
            count, last = self.clock.count, self.clock.last
            self._went_on(last)
            if self._hung is None:
                self._next = self._limit
            waited = time.monotonic() - last
            if waited > self._next:
                self._hung, self._next = (count, last), 2 * waited
                self.write("step" if count else "before the first step")

    def _went_on(self, last: float, *, is_over: bool = False) -> None:
        """If a step that hung has ended, at that time, what was written of it moves to `late`."""
        if self._hung is not None and (is_over or self._hung[0] != self.clock.count):
            self._note["went_on_after"] = round(last - self._hung[1], 3)
            self._hung = None
            evidence.leave_note(self._folder, self._note)
            evidence.put_to(evidence.LATE_FOLDER, self._folder, int(self._note["rank"]))

    @harmless(_NO_PATH)
    def write(self, why: str, error: BaseException | None = None, stacks: str = "") -> Path | None:
        """Write stacks, note and dumps; the path of the note.

        The stacks are those of now, unless an exception has ended the program, or they are given.
        """
        with self._lock:
            rank = rank_identity().rank
            evidence.write_stacks(self._folder / evidence.STACKS.format(rank), stacks or evidence.stack_of(error))
            path = self._write_note(why, error)
            evidence.write_dumps(self._folder, rank, self._groups)
            return path

    def _write_note(self, why: str, error: BaseException | None) -> Path:
        clock = self.clock
        more: dict[str, Any] = {
            "step": clock.count,
            "since_step": round(time.monotonic() - clock.last, 3),
            "longest_step": round(clock.longest, 3),
            "limit": round(self._limit, 3),
            "code": evidence.code_of(error),
        }
        if error is not None:
            more |= evidence.failure(error)
        self._note = evidence.note_of(rank_identity(), why, self._groups, more)
        return evidence.leave_note(self._folder, self._note)

    def _at_exit(self, pid: int) -> None:
        if os.getpid() == pid and self._is_rank():
            self._over = True
            self._end(getattr(sys, "last_value", None))
            self._frozen.end()

    @harmless(None)
    def _end(self, error: BaseException | None) -> None:
        """The program ends: by an exception that nobody caught, or by itself, which may be what others wait for.

        What was written while the step hung stays: once a collective has failed, its entry looks as if it were done.
        """
        self._groups = evidence.groups_now(self._groups)
        if error is None:
            with self._lock:
                self._went_on(time.monotonic(), is_over=True)
            if self._note.get("why") == "trigger":
                evidence.put_to(evidence.ASKED_FOLDER, self._folder, int(self._note["rank"]))
            if self._groups:
                self.write("end")
        elif self._hangs:
            self._note |= {"ended": time.time_ns(), **evidence.failure(error)}
            evidence.leave_note(self._folder, self._note)
        else:
            with self._lock:
                self._went_on(self.clock.last)
                self.write("exception", error)
