"""Trials held against programs of the zoo: `python -m tests.zoo.tries FILE [--measure S] [NAME...]`, a line each.

Each program runs as it is, with all trials looking, and once with each trial that applies alone, always to its own end:
how it ends, what it says it computed, and why the others are refused. With --measure, `try` measures what findings ask
for, so many seconds a program: what was promised, and what came. Programs that FILE has already are left out.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import polars as pl

from kinetoscope.compare.trials.learned import records_of
from kinetoscope.compare.trials.runs import TimedRun, loss_difference
from kinetoscope.errors import InputError
from kinetoscope.record.trials import by_name
from kinetoscope.trying.options import TryOptions
from kinetoscope.trying.runner import LOGS, Runner
from kinetoscope.trying.session import TrySession
from tests.zoo.catalogue import Program, programs
from tests.zoo.recording import plain, results

_ALL_STEPS: Final = 1_000_000
_PATIENCE_S: Final = 300.0


def main() -> None:
    """Run what the command line names, or all."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("file", type=Path, metavar="FILE")
    asked.add_argument("names", nargs="*", metavar="NAME")
    asked.add_argument(
        "--measure", type=float, metavar="SECONDS", help="measure what findings ask for, at most so long"
    )
    options = asked.parse_args()
    lines = options.file.read_text().splitlines() if options.file.exists() else []
    done = {json.loads(line)["program"] for line in lines}
    for program in programs():
        if program.absent or program.name in done or (options.names and program.name not in options.names):
            continue
        row = {
            "program": program.name,
            **dict(_promises(program, options.measure) if options.measure else _to_its_end(program)),
        }
        with options.file.open("a") as file:
            print(json.dumps(row), file=file)
        print(json.dumps(row), flush=True)
    if options.measure:
        print(shares([json.loads(line) for line in options.file.read_text().splitlines()]))


def command_of(program: Program) -> tuple[str, ...]:
    """How a user would start it."""
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(program.ranks))
    return (sys.executable, *(launcher if program.ranks > 1 else ()), str(program.file))


def _to_its_end(program: Program) -> Iterator[tuple[str, Any]]:
    """How it ends under trials, and what it computes."""
    trials, expected = by_name(), plain(program)
    with tempfile.TemporaryDirectory() as folder:
        options = TryOptions(command=command_of(program), folder=folder, allow=("writes",), seed=None)
        runner = Runner(options, trials, _ALL_STEPS)
        look, computed = _run(runner, (), tuple(trials))
        yield "problem", look.problem
        yield "steps", len(look.steps)
        yield "as plain", computed == expected
        if not expected or computed != expected:
            yield "results", [expected, computed]
        applies = [name for name, note in look.changes.items() if note.get("count")]
        yield "refused", {name: _reason(note) for name, note in look.changes.items() if name not in applies}
        rows = {}
        for name in applies:
            run, computed = _run(runner, (name,), ())
            difference = loss_difference(look, run)
            rows[name] = {
                "problem": run.problem,
                "idle": run.idle,
                "as plain": computed == expected,
                "loss": difference.word,
                "step": difference.step,
                "first": difference.first,
                "within": trials[name].loss_within,
            }
        yield "trials", rows


def _run(runner: Runner, changes: tuple[str, ...], looks: tuple[str, ...]) -> tuple[TimedRun, tuple[str, ...]]:
    run = runner.run(changes, "to its end", 1, looks=looks, limit=_PATIENCE_S)
    log = max((runner.folder / LOGS).iterdir())
    return run, results(log.read_text("utf-8", "replace"))


def _reason(note: Mapping[str, Any]) -> str:
    refused = note.get("refused") or {}
    return max(refused, key=refused.__getitem__) if refused else "nothing to change"


def _promises(program: Program, budget: float) -> Iterator[tuple[str, Any]]:
    """What findings promised of a step, and what trials brought, as shares of it."""
    with tempfile.TemporaryDirectory() as folder:
        session = TrySession(
            TryOptions(command=command_of(program), folder=folder, budget=budget, remember=False, allow=("noise",))
        )
        try:
            session.survey()
            if session.candidates.order:
                session.measure_noise()
            tried = session.run()
        except InputError as error:
            yield "problem", str(error)
            return
    yield "step", tried.step
    yield "noise", tried.noise
    yield "runs", tried.runs
    yield "seconds", tried.seconds
    yield "kept", tried.kept
    records = records_of(tried, machine="", date="")
    yield "trials", [{"word": record.word, **asdict(record)} for record in records]


def shares(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """How promises turned out, by rule: a column for each word of `TrialRecord.word`, with the number of trials."""
    words = [
        {"rule": code, "word": each["word"]} for row in rows for each in row.get("trials", ()) for code in each["codes"]
    ]
    frame = pl.DataFrame(words, {"rule": pl.String, "word": pl.String})
    return frame.pivot("word", index="rule", values="word", aggregate_function="len").sort("rule").fill_null(0)


if __name__ == "__main__":
    main()
