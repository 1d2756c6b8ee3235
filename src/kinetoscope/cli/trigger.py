"""`kinetoscope trigger PID|DIR`: ask a job that runs under `kinetoscope record` for a recording now.

Name the job by the folder of its run or by one of its processes, for example that of torchrun or of `kinetoscope
record`. All ranks begin at the same step. The paths of the traces are printed, one per line, when they are complete.
Touching the file DIR/trigger or sending SIGUSR2 to a rank does the same without waiting.

    kinetoscope trigger --hang DIR     each rank of `kinetoscope record --hang` writes now where it is
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kinetoscope.cli.shared.options import Parser, count, positive, typed
from kinetoscope.errors import InputError, NotFoundError
from kinetoscope.record.always_on import mailbox
from kinetoscope.record.daemon.daemon import descendants, environment_of
from kinetoscope.record.hangs.agent import REQUEST
from kinetoscope.record.hangs.watch import WATCHED
from kinetoscope.record.output.leftovers import is_alive
from kinetoscope.record.session.child_config import ENVIRONMENT, RecordPlan, control_of, daemon_note
from kinetoscope.views.text import printable

_PAUSE = 0.1


def run(arguments: list[str]) -> int:
    """Ask, wait, and print where the traces are."""
    parser = Parser(prog="kinetoscope trigger", description=__doc__)
    parser.add_argument("job", metavar="PID|DIR", help="a process of the job, or the folder (or URL) of its run")
    parser.add_argument("--steps", type=typed(positive), default=3, metavar="N", help="steps to record (3)")
    parser.add_argument(
        "--warmup", type=typed(count), default=1, metavar="N", help="warm-up steps before them, not recorded (1)"
    )
    parser.add_argument("--with-stack", action="store_true", help="record Python calls too; the most expensive option")
    parser.add_argument(
        "--memory", action="store_true", help="a snapshot of CUDA's memory, too; its history begins now if it has not"
    )
    parser.add_argument(
        "--hang", action="store_true", help="no traces: stacks and torch's Flight Recorder of each rank"
    )
    parser.add_argument(
        "--timeout", type=typed(positive), metavar="S", help="seconds to wait for the traces (600), with --hang (30)"
    )
    parser.add_argument("--no-wait", action="store_true", help="do not wait for the traces")
    args = parser.parse_args(arguments)
    control = _control(args.job)
    if args.hang:
        return _of_hang(control, args)
    wish = {"steps": args.steps, "warmup": args.warmup, "with_stack": args.with_stack, "memory_snapshot": args.memory}
    if args.job.isdecimal():
        wish["pid"] = int(args.job)
    try:
        number = mailbox.ask(control, wish)
    except OSError as error:
        raise InputError(f"{control}: {error.strerror or error}; the job's user has to ask") from error
    if args.no_wait:
        return 0
    return _wait(control, number, args.timeout or 600, warmup=args.warmup)


def _of_hang(control: Path, args: argparse.Namespace) -> int:
    """Have each rank write where it is, and print the paths of their notes."""
    if not mailbox.read_all(control / WATCHED):
        raise NotFoundError(f"{args.job}: no rank of `kinetoscope record --hang` is there (yet)")
    number = mailbox.new_number()
    mailbox.leave(control / REQUEST, {"id": number, "why": "trigger"})
    if args.no_wait:
        return 0
    timeout = args.timeout or 30
    until = time.monotonic() + timeout
    while True:
        done, ranks = mailbox.read_all(control / number, "done."), mailbox.read_all(control / WATCHED)
        awaited = _awaited(ranks, None, done)
        if not awaited or time.monotonic() > until:
            break
        time.sleep(_PAUSE)
    who = ", ".join(sorted(awaited))
    problem = f"no answer from {who} within {timeout:.0f} s; a thread may hold the interpreter in C" if awaited else ""
    return _report(done, problem, "hang")


def _control(job: str) -> Path:
    """The folder in which the job's processes look for requests."""
    if not job.isdecimal() or Path(job).is_dir():
        control = control_of(job)
        if not control.is_dir():
            raise NotFoundError(f"{job}: no job that `kinetoscope record` runs puts its traces there")
        return control
    if not Path("/proc").is_dir():
        raise InputError(f"{job}: processes can be looked into on Linux only; name the folder of the run instead")
    for process in descendants(int(job)):
        given = environment_of(process)
        if ENVIRONMENT in given:
            return Path(RecordPlan.from_text(given[ENVIRONMENT]).control)
        if "KINETO_USE_DAEMON" in given and (note := mailbox.read(daemon_note())) is not None:
            return Path(str(note.get("control")))
    if not is_alive(int(job)):
        raise NotFoundError(f"there is no process {job}")
    raise InputError(
        f"process {job} was not started by `kinetoscope record` (or is another user's); "
        "`kinetoscope record --idle -- COMMAND` starts it so that it can be asked"
    )


def _wait(control: Path, number: str, timeout: float, *, warmup: int) -> int:
    """Until every rank has said what came of it."""
    until = time.monotonic() + timeout
    announced = False
    while True:
        done = mailbox.read_all(control / number, "done.")
        start = mailbox.read(control / number / "start")
        ranks = mailbox.read_all(control / "ranks")
        if start is not None and not announced and start.get("step") is not None:
            announced = True
            agreed, first = len(start.get("ranks", ())), start["step"] + warmup
            _say(f"{agreed} rank{'s record' if agreed != 1 else ' records'} from step {first} on")
        awaited = _awaited(ranks, start, done)
        if done and not awaited:
            return _report(done)
        if ranks and not any(_lives(note) for note in ranks.values()):
            return _report(done, "the job has ended")
        if time.monotonic() > until:
            waiting = ", ".join(sorted(awaited)) or "any process"
            return _report(done, f"no answer from {waiting} within {timeout:.0f} s; is it taking steps?")
        time.sleep(_PAUSE)


def _awaited(
    ranks: Mapping[str, mailbox.MailboxNote], start: mailbox.MailboxNote | None, done: Mapping[str, Any]
) -> set[str]:
    """Which processes have not answered: of those that agreed on a step, else of all."""
    answered = {name.partition(".")[2] for name in done}
    chosen = set(start.get("ranks", ())) if start is not None else None
    return {
        f"rank {note.get('rank')} (process {note.get('pid')})"
        for name, note in ranks.items()
        if name not in answered and _lives(note) and (chosen is None or note.get("rank") in chosen)
    }


def _lives(note: Mapping[str, Any]) -> bool:
    """Of processes on other machines we do not know."""
    process = note.get("pid")
    return note.get("host") != socket.gethostname() or not isinstance(process, int) or is_alive(process)


def _report(done: Mapping[str, mailbox.MailboxNote], problem: str = "", verb: str = "summary") -> int:
    for line in _lines(done):
        sys.stdout.write(printable(line) + "\n")
    sys.stdout.flush()
    said = [f"rank {note.get('rank')}: {note['problem']}" for note in _by_rank(done) if note.get("problem")]
    for line in [*said, *([problem] if problem else [])]:
        _say(line)
    folders = {os.path.dirname(line) for line in _lines(done)}  # noqa: PTH120 - may be a URL
    if len(folders) == 1:
        says = "where the time goes" if verb == "summary" else "what the ranks wait for"
        _say(f"`kinetoscope {verb} {folders.pop()}` says {says}")
    return 0 if done and not said and not problem else 1


def _lines(done: Mapping[str, mailbox.MailboxNote]) -> Iterator[str]:
    return (str(note["path"]) for note in _by_rank(done) if note.get("path"))


def _by_rank(done: Mapping[str, mailbox.MailboxNote]) -> list[mailbox.MailboxNote]:
    return sorted(done.values(), key=lambda note: (str(note.get("rank")).zfill(9), str(note.get("path"))))


def _say(text: str) -> None:
    sys.stderr.write(f"kinetoscope: {printable(text)}\n")
