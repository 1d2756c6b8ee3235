"""`kinetoscope gate BASE NEW`: did anything get worse, beyond noise? Exit code 3 if it did.

Runs differ, so one run per side is not enough: give several, `--base A B C --new D E F`; three runs of 20 steps
detect 5 %. A metric fails if it is worse beyond noise and by its limit or more; an inconclusive one passes with a note,
unless --strict is given. Metrics: step_time, throughput, memory_peak, op:NAME, kernel:NAME.

A baseline keeps the numbers of old runs in a small file, to be committed:
  kinetoscope gate --write-baseline perf.json RUN RUN RUN
  kinetoscope gate --baseline perf.json NEW NEW NEW --max-regression step_time=5%
"""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kinetoscope.cli.shared.open_job import opened_at, reading, selection
from kinetoscope.cli.shared.options import Parser, add_output, add_question
from kinetoscope.errors import InputError, UsageError

if TYPE_CHECKING:
    from kinetoscope.compare.gate.causes import Causes
    from kinetoscope.compare.gate.gate import Gate
    from kinetoscope.compare.statistics.numbers import Numbers
    from kinetoscope.model.job import Job

FAILED = 3

_SUMMARY = "GITHUB_STEP_SUMMARY"


def run(arguments: list[str]) -> int:
    """Measure the runs, hold the new against the base, and say so; or write the baseline."""
    args = _parser().parse_args(arguments)
    args.where = args.sort = args.columns = ""
    base, new = _sides(args)
    from kinetoscope.compare.gate.limits import assumed_of, limits_of

    limits, _ = limits_of(args.max_regression), assumed_of(args.noise)  # what is wrong with them is said at once
    if args.write_baseline:
        return _write(args, new, limits)
    from kinetoscope.compare.gate.baseline import load
    from kinetoscope.compare.gate.gate import gate

    before = list(load(args.baseline)) if args.baseline else _measured(args, base)
    outcome = gate(
        before,
        _measured(args, new),
        limits,
        strict=args.strict,
        noise=args.noise,
        any_device=args.any_device,
    )
    _say(args, outcome)
    return 0 if outcome.passed else FAILED


def _parser() -> Parser:
    parser = Parser(prog="kinetoscope gate", usage="kinetoscope gate BASE NEW [options]", description=__doc__)
    parser.add_argument("path", metavar="PATH", nargs="*", help="BASE and NEW; the new runs where --baseline is given")
    group = parser.add_argument_group("runs")
    group.add_argument("--base", metavar="RUN", nargs="+", default=[], help="the runs before")
    group.add_argument("--new", metavar="RUN", nargs="+", default=[], help="the runs now")
    group.add_argument("--baseline", metavar="FILE", help="the numbers of the runs before")
    group.add_argument("--write-baseline", metavar="FILE", help="write the numbers of the runs named, and no more")
    group = parser.add_argument_group("gate")
    group.add_argument(
        "--max-regression",
        metavar="METRIC=SHARE",
        action="append",
        help="how much worse a metric may get: step_time=5%%, op:aten::conv2d=10%%; may be repeated; step_time=2.5%%",
    )
    group.add_argument("--strict", action="store_true", help="fail where getting worse by the limit is not ruled out")
    group.add_argument(
        "--noise",
        metavar="SHARE",
        default="2%",
        help="how much runs of one program are expected to differ, where they do not tell: 2%%",
    )
    group.add_argument("--any-device", action="store_true", help="compare runs on different devices")
    group.add_argument("--summary", metavar="FILE", help=f"add the answer to this file as Markdown; ${_SUMMARY}, too")
    add_question(parser)
    add_output(parser)
    return parser


def _sides(args: Namespace) -> tuple[list[str], list[str]]:
    """The paths of the runs before and now; of a baseline to write, all are now.

    Raises:
        UsageError: too few, or in two ways at once.
    """
    paths, base, new = args.path, args.base, args.new
    if args.write_baseline:
        if base or args.baseline or not (paths or new):
            raise UsageError("--write-baseline FILE takes the runs to measure, RUN RUN RUN, and no other runs")
        return [], [*paths, *new]
    if args.baseline:
        if base or not (paths or new):
            raise UsageError("--baseline FILE takes the new runs, NEW NEW NEW, and no runs before")
        return [], [*paths, *new]
    if base or new:
        if paths or not (base and new):
            raise UsageError("with several runs both sides are named: --base A B C --new D E F")
        return base, new
    if len(paths) != 2:
        raise UsageError(f"gate takes BASE and NEW, or --base A B C --new D E F; {len(paths)} paths were given")
    return paths[:1], paths[1:]


def _measured(args: Namespace, paths: list[str]) -> list[Numbers]:
    from kinetoscope.compare.statistics.numbers import numbers

    runs = []
    for path in paths:
        with opened_at(args, path) as (job, _):
            runs.append(numbers(job, **selection(args)))
    return runs


def _write(args: Namespace, paths: list[str], limits: tuple[Any, ...]) -> int:
    from kinetoscope.cli.shared.output import write_lines
    from kinetoscope.compare.gate.baseline import save
    from kinetoscope.views.terminal.lines import plain
    from kinetoscope.views.text import printable

    runs = _measured(args, paths)
    save(args.write_baseline, runs, limits)
    steps = sum(run.steps for run in runs)
    many = f"{len(runs)} run{'s' if len(runs) != 1 else ''} with {steps} steps"
    lines = [plain(f"Wrote {printable(args.write_baseline)}: {many}.")]
    if len(runs) < 3:
        lines.append(plain("Three runs or more tell how much runs differ; fewer find only large changes.", "dim"))
    write_lines(lines)
    return 0


# --- the answer


def _say(args: Namespace, outcome: Gate) -> None:
    from kinetoscope.cli.shared.output import budget_of, deliver, form_of, width_of, write_lines, write_text
    from kinetoscope.pages.answers.gate import of_gate
    from kinetoscope.screens.terminal import lines

    files = [*filter(None, (args.summary, os.environ.get(_SUMMARY)))]
    form = form_of(args)
    causes = _causes(args, outcome) if not outcome.passed and (files or form in ("table", "markdown")) else None
    page = of_gate(outcome, causes)
    if form == "table":
        write_lines(lines(page, width=width_of(args.output)), args.output)
    elif form == "markdown":
        write_text(page.to_markdown(budget_of(args)), args.output)
    else:
        deliver(outcome.result, args)
    for file in dict.fromkeys(files):
        _append(file, page.to_markdown())


def _causes(args: Namespace, outcome: Gate) -> Causes:
    from kinetoscope.compare.gate.causes import causes

    def open_(path: str) -> Job:
        from kinetoscope.reading import read

        return read(path, **reading(args))

    return causes(outcome, open_, **selection(args))


def _append(file: str, text: str) -> None:
    """Add to a file, as several steps of a workflow write into one summary."""
    try:
        with Path(file).open("a", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise InputError(f"{file}: cannot be written: {error.strerror}; does its folder exist?") from error
