"""The part in torchrun's agent: before it ends the ranks that are left, these write where they are.

The agent ends all ranks as soon as one has failed, and when it is ended itself. The others then wait in a collective
for the one that failed, which is what one wants to see; and nobody but the agent knows how that one ended.
"""

from __future__ import annotations

import contextlib
import functools
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from kinetoscope.record.always_on import mailbox
from kinetoscope.record.hangs import evidence
from kinetoscope.record.output.guards import harmless
from kinetoscope.record.session.child_config import RecordPlan
from kinetoscope.record.session.options import rank_identity

REQUEST: Final = "hang"
"""The note with which all ranks are asked to write now."""

JOB_ENDS: Final = "the job is ended"
"""Why the agent asks; whoever hangs has written already what is to be seen."""

PATIENCE_S: Final = 5.0
"""Seconds that the agent waits for its ranks to write; one that holds the GIL in C never does."""

_MODULE: Final = "torch.distributed.elastic.multiprocessing.api"


class AgentWatch:
    """Waits until this process has torchrun's agent, and stands before the end of its ranks then."""

    def __init__(self, plan: RecordPlan) -> None:
        self._plan, self._control = plan, Path(plan.control)
        self._attached = False
        self._closed: set[int] = set()

    def look(self) -> None:
        """Attach if the agent is there."""
        context: Any = getattr(sys.modules.get(_MODULE), "PContext", None)
        if self._attached or context is None or not hasattr(context, "close"):
            return
        self._attached, watch, close = True, self, context.close

        @functools.wraps(close)
        def close_(self: Any, *args: Any, **kwargs: Any) -> Any:
            watch.before_close(self)
            return close(self, *args, **kwargs)

        context.close = close_

    @harmless(None)
    def before_close(self, context: Any) -> None:
        """Leave a note of how each rank ended that has, and have the others write, unless all went well."""
        if id(context) in self._closed:  # what ends from here on was ended by the agent
            return
        self._closed.add(id(context))
        codes = _exit_codes(context)
        running = [pid for pid, code in codes.values() if code is None]
        if not any(code for _, code in codes.values()) and not running:
            return
        for local_rank, (pid, code) in codes.items():
            if code is not None:
                environment = context.envs.get(local_rank, {})
                leave_exit(self._plan.dir, environment.get("RANK", ""), environment, pid, code)
        if running:
            number = mailbox.new_number()
            mailbox.leave(self._control / REQUEST, {"id": number, "why": JOB_ENDS})
            self._wait(context, self._control / number)

    def _wait(self, context: Any, answers: Path) -> None:
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            answered = {name.rpartition(".")[2] for name in mailbox.read_all(answers, "done.")}
            if all(code is not None or str(pid) in answered for pid, code in _exit_codes(context).values()):
                return
            time.sleep(0.05)


def _exit_codes(context: Any) -> dict[int, tuple[int, int | None]]:
    """The process and the exit code of each local rank; None while it runs."""
    handlers: Any = getattr(context, "subprocess_handlers", None)
    if handlers:
        return {rank: (handler.proc.pid, handler.proc.poll()) for rank, handler in handlers.items()}
    processes: Any = getattr(getattr(context, "_pc", None), "processes", ())
    return {rank: (each.pid, each.exitcode) for rank, each in enumerate(processes)}


def leave_exit(run: str, rank: str | int, environment: Mapping[str, str], pid: int, code: int) -> None:
    """Leave a note of how the process of a rank ended, as whoever started it saw it."""
    text = str(rank)
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        return
    folder = evidence.folder_of(run, evidence.restarts(environment))
    note = {"rank": int(text), "pid": pid, "host": rank_identity().host, "code": code, "when": time.time_ns()}
    if code < 0:
        with contextlib.suppress(ValueError):
            note["signal"] = signal.Signals(-code).name
    mailbox.leave(folder / evidence.EXIT.format(int(text)), note)
