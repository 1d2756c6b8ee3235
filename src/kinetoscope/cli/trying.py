"""`kinetoscope try -- COMMAND`: run a program changed and unchanged in turns, and say what makes its steps shorter.

    kinetoscope try -- python train.py                        what the findings of one recording ask for
    kinetoscope try --list -- python train.py                 what would be tried, and why not the rest
    kinetoscope try --only workers,threads -- python train.py
    kinetoscope try --variant "bs64: python train.py --batch-size 64" -- python train.py
    kinetoscope try -P workers 0 8 -D 4 -- python train.py --workers {workers}
    kinetoscope try --set OMP_NUM_THREADS=1,2,4 -- python train.py
    kinetoscope try -- torchrun --nproc-per-node 8 train.py   the slowest rank's steps count

The program is run some dozens of times, for some dozens of steps, and is ended after them. It writes no checkpoints
then; what else it writes, it writes each time. KINETOSCOPE_TRIAL in its environment says that it is a trial. Exit code
0: something was measured, whether it helps or not; 1: nothing could be.
"""

from __future__ import annotations

import argparse
import math
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kinetoscope.cli.shared.options import Parser, count, parted, positive, typed
from kinetoscope.errors import InputError, UsageError

if TYPE_CHECKING:
    from kinetoscope.trying.options import UserVariant
    from kinetoscope.trying.session import TrySession

_MOST_VARIANTS = 50


def run(arguments: list[str]) -> int:
    """Survey the program, say what will be run, run it, and write what came of it."""
    own, command = parted(arguments)
    args = _parser().parse_args(own)
    command = command or args.command
    from kinetoscope.cli.shared import trial_screen
    from kinetoscope.record.session.launching import runnable
    from kinetoscope.trying.options import TryOptions
    from kinetoscope.trying.session import TrySession, default_folder

    command, variants = _scanned(runnable(command), args)
    options = TryOptions(
        command=tuple(command),
        folder=args.resume or args.output or default_folder(command),
        only=_names(args.only),
        skip=_names(args.skip),
        allow=_names(args.allow),
        variants=variants,
        everything=args.all,
        steps=args.steps,
        rounds=args.rounds,
        budget=args.budget,
        timeout=args.timeout,
        seed=None if args.no_seed else args.seed,
        load=tuple(shlex.split(args.load)),
        steps_by=args.steps_by,
        extensions=_extensions(),
        remember=args.remember,
        resume=bool(args.resume),
    )
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupted)
    with trial_screen.shown() as watch:
        session = TrySession(options, watch)
        session.survey()
    if args.list:
        trial_screen.write_list(session)
        return 0
    if not session.candidates.order:
        return _end(session, args)
    if not _agreed(session, args):
        return 1
    with trial_screen.shown() as watch:
        session.watch = watch
        session.measure_noise()
        session.run()
    return _end(session, args)


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def _end(session: TrySession, args: argparse.Namespace) -> int:
    """Write what came of it; the exit code says whether anything was measured."""
    from kinetoscope.cli.shared import trial_screen

    tried = session.result()
    trial_screen.write(tried, session.folder)
    if args.export_json:
        _export(args.export_json, tried.to_json() + "\n")
    if args.export_markdown:
        _export(args.export_markdown, trial_screen.markdown(tried))
    return 0 if tried.was_measured or not session.candidates.order else 1


def _export(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, "utf-8")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error


def _agreed(session: TrySession, args: argparse.Namespace) -> bool:
    """Say how many runs of how long there will be, and ask whoever sits there."""
    runs, seconds = session.planned - 1, session.seconds_a_run
    line = (
        f"{len(session.candidates.order)} trials, about {runs} more runs of {seconds:.1f} s: "
        f"{runs * seconds / 60:.0f} min, at most {args.budget / 60:.0f}"
    )
    sys.stderr.write(f"kinetoscope: {line}\n")
    if args.yes or not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    sys.stderr.write("Go on? [Y/n] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("", "y", "yes")


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (each.strip() for each in text.split(","))))


def _extensions() -> tuple[str, ...]:
    from kinetoscope.extensions import modules

    return tuple(str(Path(file).absolute()) for each in modules() if (file := each.__file__))


def _scanned(command: Sequence[str], args: argparse.Namespace) -> tuple[list[str], tuple[UserVariant, ...]]:
    """The command as it is, and the variants that the user wants: of options scanned, the first value is as it is."""
    from kinetoscope.record.session.launching import runnable
    from kinetoscope.trying.options import UserVariant

    variants = []
    for text in args.variant:
        name, colon, words = text.partition(":")
        if not colon or not words.strip():
            raise UsageError(f'{text!r} is no variant; write "name: command"')
        variants.append(UserVariant(name=name.strip(), command=tuple(runnable(shlex.split(words)))))
    first = dict[str, str]()
    for name, least, most in args.parameter_scan or ():
        values = [*_values(least, most, args.parameter_step)]
        if not any(f"{{{name}}}" in word for word in command):
            raise UsageError(f"the command has no {{{name}}} for -P {name}")
        first[name] = values[0]
        scans = [(name, value) for value in values[1:]]
        variants += [
            UserVariant(
                name=f"{key}={value}", command=tuple(_filled(command, {**first, key: value})), group=f"-P {key}"
            )
            for key, value in scans
        ]
    for text in args.set:
        name, equals, values = text.partition("=")
        if not equals or not name:
            raise UsageError(f"{text!r} sets no variable; write VAR=a,b")
        variants += [
            UserVariant(name=f"{name}={value}", environment={name: value}, group=f"--set {name}")
            for value in values.split(",")
        ]
    if len(variants) > _MOST_VARIANTS:
        raise UsageError(f"{len(variants)} variants are more than the {_MOST_VARIANTS} that are tried at once")
    if len({each.name for each in variants}) < len(variants):
        raise UsageError("two variants have one name")
    return _filled(command, first), tuple(variants)


def _values(least: str, most: str, step: float) -> Iterator[str]:
    try:
        low, high = float(least), float(most)
    except ValueError as error:
        raise UsageError(f"-P NAME MIN MAX takes two numbers, not {least!r} and {most!r}") from error
    if not (low <= high and step > 0 and math.isfinite(high - low) and (high - low) / step <= _MOST_VARIANTS):
        raise UsageError(f"from {least} to {most} by {step:g} there are no 1 to {_MOST_VARIANTS} values")
    for number in range(int((high - low) / step + 1e-9) + 1):
        yield f"{low + number * step:g}"


def _filled(command: Sequence[str], values: dict[str, str]) -> list[str]:
    words = list(command)
    for name, value in values.items():
        words = [word.replace(f"{{{name}}}", value) for word in words]
    return words


_UNITS = {"h": 3600.0, "min": 60.0, "m": 60.0, "s": 1.0}


def _seconds(text: str) -> float:
    """`10m` → 600.0; a bare number is seconds."""
    unit = next((each for each in _UNITS if text.endswith(each)), "")
    try:
        seconds = float(text.removesuffix(unit)) * _UNITS.get(unit, 1.0)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ValueError(f"{text!r} is no time, such as 90s, 10m or 1h")
    return seconds


def _parser() -> Parser:
    parser = Parser(prog="kinetoscope try", description=__doc__, usage="kinetoscope try [options] -- COMMAND ...")
    parser.add_argument("-o", "--output", metavar="DIR", help="folder for results, traces and logs (tries/NAME-TIME)")
    parser.add_argument("--resume", metavar="DIR", help="go on with the try in this folder")
    what = parser.add_argument_group("what")
    what.add_argument("--list", action="store_true", help="run the program once, and say what would be tried")
    what.add_argument("--only", default="", metavar="NAMES", help="try these alone, whether a finding asks or not")
    what.add_argument("--skip", default="", metavar="NAMES", help="do not try these")
    what.add_argument("--all", action="store_true", help="try all that applies, whether a finding asks for it or not")
    what.add_argument(
        "--allow",
        default="",
        metavar="WORDS",
        help="what is not done unasked: batch-size (changes the training), writes (of checkpoints), noise",
    )
    own = parser.add_argument_group("your own")
    own.add_argument("--variant", action="append", default=[], metavar='"NAME: COMMAND"', help="another command")
    own.add_argument(
        "-P",
        "--parameter-scan",
        action="append",
        nargs=3,
        metavar=("NAME", "MIN", "MAX"),
        help="put each value in the place of {NAME} in the command; the first is the program as it is",
    )
    own.add_argument("-D", "--parameter-step", type=float, default=1.0, metavar="STEP", help="between values (1)")
    own.add_argument("--set", action="append", default=[], metavar="VAR=A,B", help="values of a variable")
    how = parser.add_argument_group("how")
    how.add_argument(
        "--steps", type=typed(count), default=0, metavar="N", help="timed steps (of a second; 38 at least)"
    )
    how.add_argument("--rounds", type=typed(positive), default=5, metavar="N", help="rounds of what may help (5)")
    how.add_argument("--budget", type=typed(_seconds), default=600.0, metavar="TIME", help="that all may take (10m)")
    how.add_argument("--timeout", type=typed(_seconds), default=600.0, metavar="TIME", help="of the first run (10m)")
    how.add_argument("--seed", type=int, default=0, metavar="N", help="that torch, random and NumPy get (0)")
    how.add_argument("--no-seed", action="store_true", help="set no seed")
    how.add_argument("--load", default="", metavar="COMMAND", help="runs beside the program, such as requests")
    how.add_argument("--steps-by", default="", metavar="NAME", help="the range or class of modules that is a step")
    how.add_argument(
        "--no-remember", dest="remember", action="store_false", help="do not keep what was promised and what came"
    )
    how.add_argument("-y", "--yes", action="store_true", help="do not ask before the runs begin")
    result = parser.add_argument_group("result")
    result.add_argument("--export-json", metavar="FILE", help="write all of it as JSON")
    result.add_argument("--export-markdown", metavar="FILE", help="write the screen as Markdown")
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser
