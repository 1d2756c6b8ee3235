"""`kinetoscope daemon`: record unchanged jobs that were started with KINETO_USE_DAEMON=1.

    kinetoscope daemon -o runs/a                 wait for `kinetoscope trigger runs/a` (or a PID)
    kinetoscope daemon -o runs/a --now --steps 5 record each such job of this user once, then end

Traces made this way have no allocations, step marks or module marks; those of `kinetoscope record --idle` have them.
A job checks for requests every five seconds. Linux only.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from kinetoscope.cli.shared.options import Parser, count, positive, typed
from kinetoscope.errors import InputError
from kinetoscope.model.steps.grammar import duration
from kinetoscope.record.always_on import mailbox
from kinetoscope.record.daemon.daemon import Daemon, RecordingOrder, rank_of
from kinetoscope.record.session.child_config import control_of, daemon_note
from kinetoscope.views.text import printable

_FRESH_SECONDS = 16.0
"""Seconds since its last word after which a process counts as gone; it says one every five."""

_PAUSE = 0.25


def run(arguments: list[str]) -> int:
    """Answer until interrupted; with --now, until each job that asked has been recorded."""
    parser = Parser(prog="kinetoscope daemon", description=__doc__)
    parser.add_argument(
        "-o", "--output", metavar="DIR", default="runs/daemon", help="folder for the traces (runs/daemon)"
    )
    parser.add_argument("--now", action="store_true", help="record the jobs that call in within --patience, then end")
    parser.add_argument(
        "--patience",
        type=typed(duration),
        default=duration("15s"),
        metavar="TIME",
        help="how long to wait for jobs (15s)",
    )
    parser.add_argument("--count", type=typed(positive), metavar="N", help="end --now when N jobs are recorded")
    parser.add_argument("--steps", type=typed(count), default=3, metavar="N", help="steps to record with --now (3)")
    parser.add_argument(
        "--roundup", type=typed(positive), default=1, metavar="N", help="begin at a multiple of N steps on every rank"
    )
    parser.add_argument(
        "--time", type=typed(duration), metavar="TIME", help="record this long instead of --steps: 500ms"
    )
    parser.add_argument("--with-stack", action="store_true", help="record Python calls too; the most expensive option")
    parser.add_argument(
        "--timeout", type=typed(positive), default=600, metavar="S", help="end --now after S seconds (600)"
    )
    args = parser.parse_args(arguments)
    order = RecordingOrder(
        steps=0 if args.time else args.steps,
        milliseconds=max((args.time or 0) // 1_000_000, 1),
        roundup=args.roundup,
        with_stack=args.with_stack,
    )
    folder = Path(args.output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror or error}; -o DIR names another place for traces") from error
    daemon = Daemon(folder)
    with daemon.listening():
        if args.now:
            return _now(daemon, order, args.patience / 1e9, args.timeout, args.count or sys.maxsize)
        with _noted(folder) as control:
            _say(f"answering; `kinetoscope trigger {folder}` asks for recordings, Ctrl-C ends this")
            _serve(daemon, control, order)
    return 0


def _now(daemon: Daemon, order: RecordingOrder, patience: float, timeout: float, count: int) -> int:
    """Record each process that asks within `patience`, and wait for the traces."""
    began = time.monotonic()
    ordered: set[int] = set()
    written, lost = 0, 0
    while time.monotonic() - began < (timeout if daemon.busy else patience):
        daemon.serve(_PAUSE)
        if time.monotonic() - began < patience:
            for process in sorted(daemon.seen.keys() - ordered)[: count - len(ordered)]:
                ordered.add(process)
                daemon.order(process, order)
        for path in daemon.arrived():
            written += 1
            sys.stdout.write(f"{printable(str(path))}\n")
            sys.stdout.flush()
        for process in daemon.gone():
            lost += 1
            _say(f"process {process} ended before its trace was there")
        if not daemon.busy and (written >= count or (ordered and time.monotonic() - began >= patience)):
            break
    if not ordered:
        _say(f"no job asked within {patience:g} s; start it with KINETO_USE_DAEMON=1")
    elif daemon.busy:
        _say(f"a trace has not come within {timeout:.0f} s")
    return 0 if written and not lost and not daemon.busy else 1


@contextlib.contextmanager
def _noted(folder: Path) -> Iterator[Path]:
    """A folder for requests, and a note of where it is."""
    control = control_of(str(folder))
    shutil.rmtree(control, ignore_errors=True)
    try:
        mailbox.leave(control / "daemon", {"pid": os.getpid()})
        mailbox.leave(daemon_note(), {"control": str(control)})
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror or error}; -o DIR names another place for traces") from error
    try:
        yield control
    finally:
        daemon_note().unlink(missing_ok=True)
        shutil.rmtree(control, ignore_errors=True)


def _serve(daemon: Daemon, control: Path, order: RecordingOrder) -> None:
    """Pass requests on to the jobs, and their traces back to who asked."""
    known, announced = "", set[int]()
    while True:
        daemon.serve(_PAUSE)
        now = time.time()
        for process in daemon.seen.keys() - announced:
            announced.add(process)
            mailbox.leave(control / "ranks" / _name(process), _about(process))
            _say(f"process {process} can be recorded")
        note = mailbox.read(control / "request")
        if note is not None and note.get("id") != known and isinstance(note.get("id"), str):
            known = note["id"]
            fresh = {process for process, last in daemon.seen.items() if now - last < _FRESH_SECONDS}
            for process in fresh & {note["pid"]} if note.get("pid") in fresh else fresh:
                daemon.order(process, _ordered(note, order))
        for path in daemon.arrived():
            _say(f"{path}")
            process = int(path.name.rpartition(".rank")[0].rpartition("_")[2])
            mailbox.leave(control / known / f"done.{_name(process)}", {**_about(process), "path": str(path)})
        for process in daemon.gone():
            about = {**_about(process), "problem": "it ended before its trace was there"}
            mailbox.leave(control / known / f"done.{_name(process)}", about)


def _name(process: int) -> str:
    return f"{rank_of(process)[0]}.{process}"


def _about(process: int) -> dict[str, Any]:
    rank, world = rank_of(process)
    return {"rank": rank, "world": world, "pid": process, "host": socket.gethostname()}


def _ordered(note: mailbox.MailboxNote, order: RecordingOrder) -> RecordingOrder:
    """What `kinetoscope trigger` asks for, and the rest from the options of the daemon."""
    steps = note.get("steps")
    return replace(
        order, steps=steps if isinstance(steps, int) and steps > 0 else 3, with_stack=note.get("with_stack") is True
    )


def _say(text: str) -> None:
    sys.stderr.write(f"kinetoscope: {printable(text)}\n")
