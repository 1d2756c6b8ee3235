"""The command `kinetoscope`: one module a verb, each with `run(arguments) -> exit code`.

This is the outermost layer, the only one that turns an error into a line and an exit code: 0 done, 1 the user's input
is wrong, or a job hangs, 2 usage, 3 the gate failed. Importing it is cheap: a verb imports what it needs when it runs.
"""

from __future__ import annotations

import sys

_INTERRUPTED = 130  # 128 + SIGINT, as shells count

try:
    import contextlib
    import gc
    import importlib
    import os
    from collections.abc import Sequence

    import kinetoscope
    from kinetoscope.errors import KinetoscopeError, UsageError, nearest
    from kinetoscope.views.text import printable
except KeyboardInterrupt:  # `main` is not there yet
    sys.exit(_INTERRUPTED)

VERBS = {
    "summary": "where the time of a step goes, and the largest loss, on one screen",
    "advise": "what to change, ranked by the time it would save, with the evidence",
    "view": "the interactive page in a browser: overview, timeline, all tables",
    "report": "the same page as one HTML file that opens without a server",
    "page": "one view of that page on the terminal or as Markdown; without a name, the list of views",
    "show": "one analysis as a table, JSON, CSV or Parquet; without a name, the list of analyses",
    "doctor": "what is damaged, missing or unusual in the traces themselves",
    "sql": "an SQL query over the tables of a trace; without a query, the list of tables",
    "hang": "why a job does not go on: which rank, which collective, which line (exit code 1 if it hangs)",
    "history": "since when a whole run is slow, on which rank, and what was lost by which cause",
    "watch": "a run that goes on, on the terminal: step times, marks, ranks that lag, since when it is slow",
    "diff": "why the steps of one run take longer than those of another",
    "ledger": "a series of runs: step time, throughput, what was changed, and what that saved",
    "gate": "fail a CI job if a run is slower than a baseline, beyond noise (exit code 3)",
    "convert": "write a trace as JSON, as Parquet, or for Perfetto with counter tracks",
    "record": "record an unchanged program: kinetoscope record -- python train.py",
    "try": "run a program changed and unchanged in turns, and say what makes its steps shorter",
    "trigger": "ask a job started by `record --idle` for a recording now",
    "daemon": "record jobs started with KINETO_USE_DAEMON=1",
    "mcp": "answer AI assistants about the traces below a folder (Model Context Protocol)",
    "calibrate": "measure what matrix products and copies attain on this device, for --peak attainable",
    "selftest": "record small programs here, and say what this machine can record and read",
    "demo": "record a small slow program on this machine, and show its summary",
    "warm": "compile everything now, so that no later run waits for the compiler",
}

_MODULES = {"try": "trying"}
"""Modules of verbs that are words of Python."""

_OBJECTS_BETWEEN_COLLECTIONS = 200_000
"""Of what is imported nothing is garbage: looking for it as often as Python does takes 5 % of a short run."""

_PIPE_CLOSED = 141  # 128 + SIGPIPE
_STANDARD_ERROR = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with the arguments `argv` (those of the process where None), and return its exit code."""
    if argv is not None:
        return _main(argv)
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    code = _main(sys.argv[1:])
    gc.freeze()  # the system takes back all at once: to look for garbage first would take 10 % of a short run
    return code


def _main(arguments: Sequence[str]) -> int:
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):  # a stream that someone put in its place
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        code = _run(list(arguments))
        sys.stdout.flush()
    except KinetoscopeError as error:
        _say(printable(str(error)))
        return error.exit_code
    except ModuleNotFoundError as error:
        if not _needed(error.name):
            raise
        _say(f"{error.name} is not installed for this Python; without what it needs Kinetoscope can only record")
        return 1
    except MemoryError:
        _say("out of memory; --jobs 1 (one trace at a time) or fewer --ranks need less")
        return 1
    except BrokenPipeError:  # whoever read has enough
        _silence()
        return _PIPE_CLOSED
    except OSError as error:
        if error.filename is not None:
            raise
        _silence()
        _say(f"standard output cannot be written: {error.strerror or error}")
        return 1
    except KeyboardInterrupt:
        return _INTERRUPTED
    return code


def _open_streams() -> None:
    """Put streams in the place of those that were closed: one that refuses the answer, and one that drops messages.

    Python has None there. Nor is a number left free: the next file that is opened would get it, and with it what
    libraries print.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= _STANDARD_ERROR:
        pass
    os.close(number)
    for name, flags in ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, flags), "w", encoding="utf-8"))


def _say(message: str) -> None:
    """One line on standard error, if there is anybody to read it."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"kinetoscope: {message}\n")
        sys.stderr.flush()


def _needed(module: str | None) -> bool:
    """Whether a module comes with what an installation brings, unless it was told to bring nothing (`--no-deps`)."""
    from importlib.metadata import requires

    needs = [need for need in requires("kinetoscope") or () if "extra ==" not in need]
    return module is not None and any(need.startswith(module.partition(".")[0]) for need in needs)


def _silence() -> None:
    """Let what is not written yet go nowhere: the interpreter would complain when it flushes at exit."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(arguments: list[str]) -> int:
    while arguments and arguments[0].partition("=")[0] == "--extend":
        option, *arguments = arguments
        name = option.partition("=")[2] or (arguments.pop(0) if arguments else "")
        if not name:
            raise UsageError("--extend takes a Python file or the name of a module: --extend ./mine.py")
        kinetoscope.extend(name)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        sys.stdout.write(_help())
        return 0 if arguments else 2
    verb, *rest = arguments
    if verb in ("-V", "--version"):
        sys.stdout.write(f"kinetoscope {kinetoscope.__version__}\n")
        return 0
    if verb not in VERBS:
        raise UsageError(f"unknown verb {verb!r}{nearest(verb, VERBS)}; the verbs are {', '.join(VERBS)}")
    try:
        code: int = importlib.import_module(f"kinetoscope.cli.{_MODULES.get(verb, verb)}").run(rest)
    except SystemExit:  # argparse, after it printed the help
        return 0
    return code


def _help() -> str:
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {verb:<{width}}  {sentence}" for verb, sentence in VERBS.items())
    return f"""\
usage: kinetoscope [--extend FILE] VERB ...

Tells why a PyTorch job is slow, from the traces that torch.profiler writes.

{verbs}

Start with   kinetoscope summary PATH   (a trace, a folder of traces, a glob, or a URL)
Options:     kinetoscope VERB --help
Your own analyses and rules, on every face:   kinetoscope --extend ./mine.py VERB ...
"""
