"""`kinetoscope record -- COMMAND`: record an unchanged program of torch.

    kinetoscope record -o runs/a -- python train.py --lr 0.1     three steps, after two others
    kinetoscope record -m package.train --lr 0.1                 a module
    kinetoscope record -- torchrun --nproc-per-node 8 train.py   every rank records
    kinetoscope record --idle -- python train.py                 when `kinetoscope trigger DIR` asks for it
    kinetoscope record --every 500 --budget 1% -- python train.py
    kinetoscope record --history -- torchrun train.py            the times of all steps, and no window
    kinetoscope record -- python serve.py                        no optimizer: each call of the model is a step
    kinetoscope record --steps-by request -- python serve.py     each range or module of this name is
    kinetoscope record --for 5s -- python serve.py               five seconds
    kinetoscope record --server http://localhost:8000 -o DIR     a vLLM or SGLang that runs: its own profiler

A step is the time between two calls of an optimizer's step(). In a program that makes no optimizer of torch, it is the
time from one outermost call of the largest module to the next. Output, signals and exit code of the program stay its
own.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kinetoscope.cli.shared.options import Parser, count, parted, positive, typed
from kinetoscope.errors import InputError, NotFoundError, UsageError
from kinetoscope.integrations.metrics.destinations import DESTINATIONS, destination
from kinetoscope.model.steps.grammar import duration, size
from kinetoscope.record.always_on import mailbox
from kinetoscope.record.always_on.always import cost_of
from kinetoscope.record.hangs import collection
from kinetoscope.record.history.jobs import note_job
from kinetoscope.record.history.layout import ENDING as HISTORY_ENDING
from kinetoscope.record.history.layout import FOLDER as HISTORY_FOLDER
from kinetoscope.record.output import leftovers
from kinetoscope.record.output.delivery import lacks_room
from kinetoscope.record.output.device_log import DeviceLogger
from kinetoscope.record.output.dropped_windows import DroppedWindows
from kinetoscope.record.output.finishing_process import refused
from kinetoscope.record.output.memory_snapshots import ENDING
from kinetoscope.record.output.memory_snapshots import FOLDER as SNAPSHOT_FOLDER
from kinetoscope.record.output.writing import MAX_WAITING_TRACES, Writer
from kinetoscope.record.serving.interruption import InterruptedBySignal
from kinetoscope.record.serving.recording import ServerPlan, record_server
from kinetoscope.record.session.child_config import RecordPlan, control_of
from kinetoscope.record.session.graph_captures import CAPTURE_FOLDER
from kinetoscope.record.session.launching import environment_of, program_name, runnable
from kinetoscope.record.session.options import DEFAULTS, RecordOptions, rank_identity
from kinetoscope.views.exports.target import spare_half_url
from kinetoscope.views.text import printable

if TYPE_CHECKING:
    from kinetoscope.integrations.metrics.follow import Following

_FORWARDED = ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGCONT")
_SETTLING = 30.0
"""Seconds that may go by until what a killed program left is finished."""

_OF_TRACE = re.compile(r"_(\d+)\.rank\d+of\d+\.step(\d+)\.")
"""The process and the first step in the name of a trace; the note of an open window is RANK.PROCESS.STEP."""

_ANSWERED = 600.0
"""Seconds that notes outlast a job that was asked for something."""


def run(arguments: list[str]) -> int:
    """Run the command, and say where its traces are."""
    own, command = parted(arguments)
    parser = _parser()
    args = parser.parse_args(own)
    command = _command(command, args)
    if args.server:
        return _of_server(args, command)
    if not command:
        raise UsageError("what is to be recorded? `kinetoscope record -- python train.py` runs and records it")
    plan = _plan(args, command)
    _prepare(plan)
    for line in _salvaged(plan):
        sys.stderr.write(f"kinetoscope: of an earlier run, {line}\n")
    before, snapshots, histories = _traces(plan), _snapshots(plan), _histories(plan)
    if plan.hang:
        collection.put_aside(plan.dir)
    if plan.history:
        note_job(plan.dir)
    log = DeviceLogger(Path(plan.dir), rank_identity().host) if args.device_log else None
    sending = _sending(plan.dir, args.to) if args.to else None
    dropped = DroppedWindows(plan) if plan.every and plan.history else None
    with log or contextlib.nullcontext(), dropped or contextlib.nullcontext():
        pid, code = _run(command, environment_of(plan))
        ended = time.monotonic()
    lines = [*_salvaged(plan), *([] if log is None else [_logged(log)])]
    if sending is not None:
        lines += [f"numbers were not sent to {where}: {why}" for where, why in sending.end().items()]
    left = collection.collected(plan, pid, code) if plan.hang else None
    code = 128 - code if code < 0 else code
    if snapshots := _snapshots(plan) - snapshots:
        lines.append(f"{_many(len(snapshots), 'snapshot')} of memory in {plan.dir}/{SNAPSHOT_FOLDER}")
    outcome = _outcome(plan, before, ended, code)
    if (histories := _histories(plan) - histories) and not plan.every:
        count = f"{len(histories)} process{'es' * (len(histories) != 1)}"
        lines.append(f"the times of all steps of {count} in {plan.dir}/{HISTORY_FOLDER}")
        outcome = outcome if _traces(plan) - before else ""  # no window was asked for
    for line in filter(None, (*lines, "" if plan.hang and not plan.every else outcome)):
        sys.stderr.write(f"kinetoscope: {line}\n")
    if plan.hang:
        _say(collection.said(left))
        _explain(left)
    return code


def _sending(folder: str, places: Sequence[str]) -> Following:
    """A thread that sends the new rows of the history, of this run alone, while it goes on."""
    from kinetoscope.integrations.metrics.follow import Following, Rows
    from kinetoscope.model.history.series import MARKS, STEPS
    from kinetoscope.readers.history.history import HistoryFollower

    follower = HistoryFollower(folder)

    def new() -> Rows:
        try:
            tables = follower.new()
        except NotFoundError:  # no step has ended yet
            return STEPS.frame([]), MARKS.frame([])
        return tables.steps, tables.marks

    new()
    return Following(new, [destination(each) for each in places])


def _logged(log: DeviceLogger) -> str:
    """The place of the log of devices, or why there is none."""
    if not log.path.exists():
        return f"no log of devices: {log.problem}"
    early = f", incomplete: {log.problem}" if log.problem else ""
    return f"power and clocks of the devices are in {log.path}{early}"


def _explain(left: collection.LeftByHang | None) -> None:
    """Say at once what the ranks wait for."""
    if left is not None:
        sys.stderr.flush()
        with contextlib.suppress(OSError):
            subprocess.run(
                [sys.executable, "-m", "kinetoscope", "hang", str(left.folder)], stdout=sys.stderr, check=False
            )


def _parser() -> Parser:
    parser = Parser(prog="kinetoscope record", description=__doc__, usage="kinetoscope record [options] -- COMMAND ...")
    parser.add_argument("-o", "--output", metavar="DIR", help="folder or URL for the traces (runs/NAME-TIME)")
    parser.add_argument("--run", metavar="NAME", default="", help="name of the run, kept with its traces")
    when = parser.add_argument_group("when")
    when.add_argument("--wait", type=typed(positive), default=1, metavar="N", help="steps before each window (1)")
    when.add_argument(
        "--warmup", type=typed(count), default=1, metavar="N", help="warm-up steps of each window, not recorded (1)"
    )
    when.add_argument(
        "--active", type=typed(positive), default=3, metavar="N", help="recorded steps of each window (3)"
    )
    when.add_argument(
        "--repeat", type=typed(count), default=1, metavar="N", help="number of windows (1); 0: until the program ends"
    )
    when.add_argument(
        "--steps-by",
        default="",
        metavar="NAME",
        help="what is a step: a range (record_function) or a class of modules of this name",
    )
    when.add_argument(
        "--for",
        dest="seconds",
        type=typed(_seconds),
        default=0.0,
        metavar="TIME",
        help="record for so long, such as 5s, from the first call of a module on the main thread",
    )
    when.add_argument(
        "--idle", action="store_true", help="record only on request: `kinetoscope trigger`, a file or SIGUSR2"
    )
    when.add_argument(
        "--every",
        type=typed(positive),
        default=0,
        metavar="N",
        help="one window every N steps, as long as the program runs",
    )
    when.add_argument(
        "--budget", type=typed(_share), default=0.01, metavar="P%", help="overhead allowed to --every (1%%)"
    )
    when.add_argument(
        "--keep",
        type=typed(count),
        default=5,
        metavar="M",
        help="with --every, keep the newest, the slowest and those of changes, M each (5)",
    )
    when.add_argument(
        "--history",
        action=argparse.BooleanOptionalAction,
        help="write the times of all steps of all ranks into DIR/history; --every does, alone it opens no window",
    )
    when.add_argument(
        "--to",
        metavar="WHERE",
        action="append",
        default=[],
        help=f"with --history or --every, send the numbers of each step there while it runs: {DESTINATIONS}",
    )
    hang = parser.add_argument_group("hangs")
    hang.add_argument(
        "--hang",
        action="store_true",
        help="watch each rank: of one that hangs or fails, write stacks and torch's Flight Recorder into DIR/hang",
    )
    hang.add_argument(
        "--hang-after",
        type=typed(_seconds),
        default=60.0,
        metavar="TIME",
        help="a step hangs that takes longer, and ten times the longest before it (60s)",
    )
    server = parser.add_argument_group("a server that runs")
    server.add_argument(
        "--server", metavar="URL", default="", help="let vLLM or SGLang at this address record itself, into -o DIR"
    )
    server.add_argument(
        "--steps", type=typed(positive), default=5, metavar="N", help="number of steps (5); or --for TIME"
    )
    server.add_argument("--by-stage", action="store_true", help="prefill and decode apart (SGLang)")
    server.add_argument(
        "--timeout", type=typed(_seconds), default=300.0, metavar="TIME", help="how long to wait for the steps (300s)"
    )
    what = parser.add_argument_group("what")
    what.add_argument("--with-stack", action="store_true", help="record Python calls too; the most expensive option")
    what.add_argument("--with-flops", action="store_true", help="let torch count floating point operations")
    what.add_argument(
        "--with-provenance",
        action="store_true",
        help="have torch.compile track the source lines of its kernels; what its caches hold is compiled anew, once",
    )
    what.add_argument("--no-shapes", dest="record_shapes", action="store_false", help="do not record input shapes")
    what.add_argument(
        "--memory",
        dest="memory_snapshot",
        action="store_true",
        help="write snapshots of CUDA's allocator, with stacks: with each window, and where memory runs out",
    )
    what.add_argument(
        "--memory-events",
        dest="max_memory_events",
        type=typed(positive),
        default=DEFAULTS.max_memory_events,
        metavar="N",
        help="events of the allocator that a snapshot has, the last ones (100000)",
    )
    what.add_argument(
        "--no-memory", dest="profile_memory", action="store_false", help="do not record memory allocations in the trace"
    )
    what.add_argument(
        "--all-threads", action="store_true", help="record threads started by Python too (then without memory)"
    )
    what.add_argument(
        "--device-log",
        action="store_true",
        help="log power, clocks and what limits them into DIR/device_log while the program runs: nvidia-smi or amd-smi",
    )
    what.add_argument(
        "--no-captures", dest="graph_captures", action="store_false", help="do not record captures of CUDA graphs"
    )
    what.add_argument(
        "--no-spans", dest="spans", action="store_false", help="do not mark forward, backward and modules"
    )
    far = parser.add_argument_group("limits: a window that reaches one ends early and is kept")
    memory, events, longest = DEFAULTS.max_memory, DEFAULTS.max_events, DEFAULTS.max_step
    far.add_argument(
        "--max-memory",
        type=typed(size),
        default=memory,
        metavar="SIZE",
        help="memory that torch takes to stop what was recorded (1GB)",
    )
    far.add_argument(
        "--max-events", type=typed(count), default=events, metavar="N", help="approximate number of events (10 million)"
    )
    far.add_argument(
        "--max-step",
        type=typed(count),
        default=longest,
        metavar="N",
        help="duration of a step, as a multiple of the longest one before (10)",
    )
    parser.add_argument("--no-signal", dest="signal", action="store_false", help="do not use SIGUSR2")
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER, help="run a module, like python -m")
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _of_server(args: argparse.Namespace, command: Sequence[str]) -> int:
    """Let a server that runs record itself."""
    if command:
        raise UsageError("--server records a server that runs; a command behind -- is run and recorded without it")
    plan = ServerPlan(
        url=args.server,
        folder=args.output or "",
        steps=0 if args.seconds else args.steps,
        seconds=args.seconds,
        timeout=args.timeout,
        with_stack=args.with_stack,
        shapes=args.record_shapes,
        by_stage=args.by_stage,
    )
    try:
        done = record_server(plan, _say)
    except InterruptedBySignal as error:
        _say(f"ended by {signal.Signals(error.number).name}")
        return 128 + error.number
    if done.traces:
        folder = Path(done.traces[0]).parent
        _say(f"{_many(len(done.traces), 'trace')} in {folder}; `kinetoscope summary {folder}` says where the time goes")
    return 0 if done.complete else 1


def _say(line: str) -> None:
    with contextlib.suppress(OSError):  # nobody reads it
        sys.stderr.write(f"kinetoscope: {printable(line)}\n")
        sys.stderr.flush()


def _share(text: str) -> float:
    """`1%` → 0.01; a bare number is a share."""
    number = text.removesuffix("%")
    try:
        value = float(number) / (100 if number != text else 1)
    except ValueError:
        value = -1.0
    if not 0 < value <= 1:
        raise ValueError(f"{text!r} is no share of the time, such as 1% or 0.01")
    return value


def _seconds(text: str) -> float:
    """`5s` → 5.0; a bare number is seconds."""
    nanoseconds = duration(text + "s" * text[-1:].isdecimal())
    if not nanoseconds:
        raise ValueError(f"{text!r} is no time to record")
    return nanoseconds / 1e9


def _command(behind: Sequence[str], args: argparse.Namespace) -> list[str]:
    """The command as it is run."""
    return runnable(behind or (["-m", *args.module] if args.module else args.command))


def _plan(args: argparse.Namespace, command: Sequence[str]) -> RecordPlan:
    """The plan and the options of recording: the arguments are named as the fields of both."""
    if args.idle and args.every:
        raise UsageError("--idle and --every exclude each other: one waits to be asked, the other does not")
    if args.seconds and (args.idle or args.every):
        raise UsageError("--for records once, by time; --idle and --every record by steps")
    if args.hang and (args.seconds or "://" in (args.output or "")):
        raise UsageError("--hang watches for as long as the program runs, and writes into a folder: no --for, no URL")
    if args.history and (args.seconds or "://" in (args.output or "")):
        raise UsageError("--history is of the whole run, and in a folder: no --for, no URL")
    folder = args.output or _folder(command)
    if args.device_log and "://" in folder:
        raise UsageError("--device-log writes into a folder: no URL")
    if folder.startswith("memory:"):
        raise UsageError(f"{folder} is the memory of one process, and ends with it: name a folder, or another store")
    if "://" not in folder:
        spare_half_url(folder)
        path = Path(folder)
        folder = str(path.resolve() if ".." in path.parts else path.absolute())
    when, how = ({field.name for field in dataclasses.fields(kind)} for kind in (RecordPlan, RecordOptions))
    given = {name: value for name, value in vars(args).items() if name in when}
    options = {name: value for name, value in vars(args).items() if name in how - when}
    if (args.hang or args.history) and not args.every:  # it opens no window then, unless somebody asks
        given["idle"] = True
    if args.to and not (args.history or (args.every and args.history is not False)):
        raise UsageError("--to sends the numbers of the history: give --history, or --every")
    given["history"] = args.history if args.history is not None else bool(args.every) and "://" not in folder
    return RecordPlan(dir=folder, control=str(control_of(folder)), options=options, **given)


def _folder(command: Sequence[str]) -> str:
    """`runs/train-20260102-030405` for `python train.py`."""
    return f"runs/{program_name(command)}-{time.strftime('%Y%m%d-%H%M%S')}"


def _prepare(plan: RecordPlan) -> None:
    """The folders are there, and hold no notes of another run."""
    control = Path(plan.control)
    try:
        if "://" not in plan.dir:
            Path(plan.dir).mkdir(parents=True, exist_ok=True)
        elif why := refused(plan.dir):
            raise OSError(why)
        if why := Writer(plan.dir).ready() or lacks_room(Writer(plan.dir).spool, DEFAULTS.keep_free):
            raise OSError(why)
        _clear(control)
        control.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{plan.dir}: {error.strerror or error}; -o DIR names another place for traces") from error


def _clear(control: Path) -> None:
    """Remove the notes of earlier runs; not those of ranks that this run has on other machines already."""
    for name, note in mailbox.read_all(control / "ranks").items():
        if note.get("host") == socket.gethostname():
            (control / "ranks" / name).unlink(missing_ok=True)
    for each in control.iterdir() if control.is_dir() else ():
        if each.is_dir() and each.name != "ranks":
            shutil.rmtree(each, ignore_errors=True)
        elif each.is_file():
            each.unlink(missing_ok=True)


def _run(command: Sequence[str], environment: dict[str, str]) -> tuple[int, int]:
    """Run the command as if it had been typed: what is sent to us goes to it; its process and its exit code."""
    try:
        process = subprocess.Popen(command, env=environment)
    except OSError as error:
        raise InputError(f"{command[0]}: {error.strerror or error}; the command behind -- is run as it is") from error
    with _forwarding(process):
        return process.pid, process.wait()


@contextlib.contextmanager
def _forwarding(process: subprocess.Popen[Any]) -> Iterator[None]:
    def forward(number: int, _: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)

    before: dict[int, Any] = {}
    try:
        for name in _FORWARDED:
            if (number := getattr(signal, name, None)) is not None:
                before[number] = signal.signal(number, forward)
        # Ctrl-C reaches all processes of a terminal; what a script sends to us alone, it does not.
        alone = sys.stdin is None or not sys.stdin.isatty()
        before[signal.SIGINT] = signal.signal(signal.SIGINT, forward if alone else signal.SIG_IGN)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _traces(plan: RecordPlan) -> set[str]:
    """Those that lie in the folder; at a URL nobody looks."""
    return set() if "://" in plan.dir else {str(path) for path in Path(plan.dir).glob("*.pt.trace.json.gz")}


def _snapshots(plan: RecordPlan) -> set[str]:
    """Names of the snapshots of memory in the folder."""
    return (
        {path.name for path in Path(plan.dir, SNAPSHOT_FOLDER).glob(f"*{ENDING}")} if "://" not in plan.dir else set()
    )


def _histories(plan: RecordPlan) -> set[str]:
    """Names of the histories in the folder."""
    return (
        {path.name for path in Path(plan.dir, HISTORY_FOLDER).glob(f"*{HISTORY_ENDING}")}
        if "://" not in plan.dir
        else set()
    )


def _swept(folder: str) -> tuple[int, int]:
    """Finish or remove what killed processes left in a folder: how many of each."""
    writer = Writer(folder, rank_identity().host)
    leftovers.settle(writer.spool, rank_identity().host, _SETTLING)
    counts = writer.salvage()
    writer.flush(_SETTLING)
    return counts


def _salvaged(plan: RecordPlan) -> list[str]:
    """Finish or remove what killed processes left without a final name: what to say of it."""
    lines = []
    finished, removed = _swept(plan.dir)
    removed += sum(_swept(f"{plan.dir}/{folder}")[1] for folder in (CAPTURE_FOLDER, SNAPSHOT_FOLDER))
    if finished:
        lines.append(f"{_many(finished, 'trace')} whose process ended before it was written {_was(finished)} finished")
    if removed:
        lines.append(f"{_many(removed, 'file')} of a process that ended while it wrote {_was(removed)} removed")
    return lines


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _was(count: int) -> str:
    return "was" if count == 1 else "were"


def _outcome(plan: RecordPlan, before: set[str], ended: float, code: int) -> str:
    """What came of it, in one line.

    Args:
        plan: of the run.
        before: the traces that were there already.
        ended: when the program had ended, by the monotonic clock.
        code: its exit code, as a shell has it.
    """
    control = Path(plan.control)
    cost = _cost(plan, ended)
    written = sorted(mailbox.read_all(control / "written").values(), key=lambda note: int(note.get("first_step", 0)))
    kept = {path for note in written if (path := str(note.get("path") or "")) and _is_there(path)}
    traces = (_traces(plan) - before) | kept
    problems = [str(note["problem"]).rstrip(".") for note in written if note.get("problem") and not note.get("path")]
    remarks = [str(note["problem"]).rstrip(".") for note in written if note.get("problem") and note.get("path")]
    missed = _missed(control)
    ranks, yielded = mailbox.read_all(control / "ranks"), mailbox.read_all(control / "yielded")
    failed = mailbox.read_all(control / "failed")
    opened, made = mailbox.read_all(control / "open"), mailbox.read_all(control / "optimizer")
    if not _someone_waits(mailbox.read(control / "request")):
        shutil.rmtree(control, ignore_errors=True)
    if traces:
        elsewhere = sorted(path for path in traces if not path.startswith(plan.dir))
        folder = str(Path(elsewhere[0]).parent) if elsewhere else plan.dir
        what = f"{_many(len(traces), 'trace')} in {folder}{cost}"
        also = f" (of {_many(len(problems), 'window')} more there is none: {problems[0]})" if problems else ""
        also += f" ({remarks[0]})" if remarks else ""
        if lost := _lost(opened, traces):
            also += f" ({_many(lost, 'window')} more {_was(lost)} lost, as the program ended in the midst)"
        if missed:
            busy = f"{MAX_WAITING_TRACES} traces were still being written"
            also += f" ({_many(missed, 'window')} {_was(missed)} skipped while {busy})"
        return f"{what}{also}; `kinetoscope summary {folder}` says where the time goes"
    if problems:
        return f"no trace was written: {problems[0]}"
    if not ranks and failed:
        return f"no trace was written: {next(iter(failed.values())).get('why')}"
    if not ranks:
        return f"nothing was recorded: {_why_nobody(plan, waits=bool(made))}{_bad_end(code)}"
    if opened:
        return "nothing was recorded: the program ended in the midst of a window, without a chance to write it"
    if yielded:
        return "nothing was recorded: a profiler of the program was at work whenever a window was due; it comes first"
    if plan.scheduled:
        steps = plan.wait + plan.warmup + plan.active
        why = f"the program took fewer than the {steps} steps that a window needs; see --active"
        return f"nothing was recorded: {why}{_bad_end(code)}"
    return (
        "nothing was recorded: nobody asked for it" if plan.idle else "nothing was recorded: fewer steps than --every"
    )


def _lost(opened: Iterable[str], traces: Iterable[str]) -> int:
    """Windows that were open of which there is no trace: a process that dies may have written without a word of it."""
    written = {(match[1], match[2]) for path in traces if (match := _OF_TRACE.search(Path(path).name))}
    return sum(tuple(name.split(".")[1:3]) not in written for name in opened)


def _cost(plan: RecordPlan, ended: float) -> str:
    """What --every cost the process that it cost most."""
    notes = mailbox.read_all(Path(plan.control) / "cost").values()
    dearest = max(filter(None, (cost_of(note, ended) for note in notes)), key=lambda cost: cost.share, default=None)
    return f", {dearest.said(plan.budget)}" if dearest is not None else ""


def _missed(control: Path) -> int:
    """Windows that were due while as many traces were being written as may be, of all processes."""
    most: dict[str, int] = {}
    for name, note in mailbox.read_all(control / "written").items():
        process = name.rpartition(".")[0]
        most[process] = max(most.get(process, 0), int(note.get("missed") or 0))
    return sum(most.values())


def _bad_end(code: int) -> str:
    """How the program ended, where that may be why nothing came of it."""
    names = {128 + each.value: f"by {each.name}" for each in signal.Signals}
    return f" (the program ended {names.get(code, f'with exit code {code}')})" if code else ""


def _why_nobody(plan: RecordPlan, *, waits: bool) -> str:
    """Why no process took a step."""
    if waits:
        return (
            "the program made an optimizer of torch, so its steps were waited for, and it took none; --steps-by NAME "
            "(a class of modules, or a range) says what else is a step"
        )
    if plan.steps_by:
        return f"no range and no module of a class {plan.steps_by!r} was seen, or Python ran with -I, -E or -S"
    return (
        "no process took a step: no optimizer of torch stepped, and no module was called three times (or Python ran "
        "with -I, -E or -S); --steps-by NAME says which range is a step, --for 5s records by time"
    )


def _is_there(path: str) -> bool:
    """Windows that were not kept have gone. What is at a URL is believed."""
    return "://" in path or Path(path).exists()


def _someone_waits(request: mailbox.MailboxNote | None) -> bool:
    """Whoever asked lately by `kinetoscope trigger` may still read what came of it."""
    asked = (request or {}).get("time")
    return isinstance(asked, float) and "reason" not in (request or {}) and time.time() - asked < _ANSWERED
