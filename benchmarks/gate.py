"""How often the gate is wrong, and what it catches: on runs drawn by chance, where the truth is known.

    python -m benchmarks.gate              three minutes; prints the tables
    python -m benchmarks.gate --write      and writes them into docs/gate.md
    python -m benchmarks.gate --quick      a tenth of the comparisons

Beside it what others do: Welch's t-test over the means of runs, and the test that takes all steps for independent
witnesses (as bootstrapping them does), at the same level and with the same least change.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import numpy as np

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.drawing import BETWEEN_RUNS, NOISES, Pair, Shape, pairs
from kinetoscope.compare.statistics.noise import MIN_CHANGE, Word, changes

Judge = Callable[[Sequence[Pair]], list[Word]]

PAGE: Final = Path(__file__).parents[1] / "docs" / "gate.md"
BEGIN: Final = "<!-- Made by `python -m benchmarks.gate --write`; do not edit. -->\n"
END: Final = "<!-- End of what benchmarks.gate makes. -->\n"

_T: Final = (0.0, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""Two-sided 5 % of Student's t, by degrees of freedom."""


def gate(found: Sequence[Pair]) -> list[Word]:
    """What is to be measured."""
    return [verdict.word for verdict in changes(found, adjust=False)]


def welch(found: Sequence[Pair]) -> list[Word]:
    """Over the means of runs."""
    return [_by_t(*([float(np.log(np.mean(run))) for run in side] for side in pair)) for pair in found]


def all_steps(found: Sequence[Pair]) -> list[Word]:
    """Over all steps of all runs, as if each were a witness of its own."""
    return [_by_t(*([math.log(step) for run in side for step in run] for side in pair)) for pair in found]


def _by_t(base: Sequence[float], new: Sequence[float]) -> Word:
    if min(len(base), len(new)) < 2:
        return "inconclusive"
    parts = [float(np.var(side, ddof=1)) / len(side) for side in (base, new)]
    freedom = sum(parts) ** 2 / sum(p * p / (len(s) - 1) for p, s in zip(parts, (base, new), strict=True))
    limit = _T[int(freedom)] if freedom < len(_T) else 1.96 + 2.4 / freedom
    difference = float(np.mean(new) - np.mean(base))
    if abs(difference) < limit * math.sqrt(sum(parts)) or abs(math.expm1(difference)) < MIN_CHANGE:
        return "inconclusive"
    return "worse" if difference > 0 else "better"


def share(found: Iterable[Pair], word: Word = "worse", judge: Judge = gate) -> float:
    """How many of the comparisons are judged so."""
    words = judge(list(found))
    return words.count(word) / len(words)


# --- tables


def tables(count: int) -> str:
    """All of them as Markdown; `count` comparisons for each number."""
    made = [_headline(count), _limits(2 * count), _false_alarms(count), _power(count // 2), _wilder(count // 2)]
    return "\n".join(made)


def _headline(count: int) -> str:
    shape = Shape(3, 3, 20)
    rows = []
    for label, judge in (("this gate", gate), ("Welch's t over runs", welch), ("t over all steps", all_steps)):
        cells = [
            _percent(share(pairs(4 * count, seed=1), judge=judge)),
            _percent(share(pairs(4 * count, shape, seed=2), judge=judge)),
            _percent(share(pairs(4 * count, shape, seed=3, effect=0.05), judge=judge)),
            _percent(share(pairs(2 * count, shape, seed=4, between=BETWEEN_RUNS), judge=judge)),
            _percent(share(pairs(2 * count, shape, seed=5, effect=0.05, between=BETWEEN_RUNS), judge=judge)),
        ]
        rows.append([label, *cells])
    heads = ["", "false alarms, 1–5 runs, 3–50 steps", "3 runs of 20 steps: false alarms", "5 % caught"]
    heads += ["runs that vary by 2 %: false alarms", "5 % caught"]
    return _table(f"{4 * count:,} comparisons a number (the last two: {2 * count:,})", heads, rows)


def _limits(count: int) -> str:
    shape = Shape(3, 3, 20)
    rows = []
    for limit in (0.0, 0.02, 0.025, 0.03, 0.05):

        def judge(found: Sequence[Pair], limit: float = limit) -> list[Word]:
            return [verdict.word for verdict in changes(found, limit=limit, adjust=False)]

        row = [f"{limit:.1%}", _percent(share(pairs(count, seed=6), judge=judge))]
        row += [_percent(share(pairs(count, shape, seed=7, effect=e), judge=judge)) for e in (0.0, 0.03, 0.05, 0.1)]
        rows.append(row)
    heads = ["limit", "false alarms, 1–5 runs, 3–50 steps", "3 runs of 20 steps: false alarms"]
    heads += ["3 % caught", "5 % caught", "10 % caught"]
    return _table(f"Other limits: {count:,} comparisons a number", heads, rows)


def _false_alarms(count: int) -> str:
    three = Shape(3, 3, 20)
    rows = [
        [
            noise,
            *(_percent(share(pairs(count, seed=10 + at, noise=noise), word)) for word in ("worse", "better")),
            _percent(share(pairs(count, seed=110 + at, noise=noise), judge=all_steps)),
            _percent(share(pairs(count, three, seed=20 + at, noise=noise))),
            _percent(share(pairs(count, three, seed=30 + at, noise=noise, effect=0.05))),
        ]
        for at, noise in enumerate(NOISES)
    ]
    heads = [
        "noise of steps",
        "false alarms",
        "false praise",
        "t over all steps",
        "3 runs of 20: false alarms",
        "5 % caught",
    ]
    return _table(f"Other noise than the model's: {count:,} comparisons a number; 1–5 runs, 3–50 steps", heads, rows)


def _power(count: int) -> str:
    effects = (0.0, 0.03, 0.05, 0.1, 0.2)
    rows = []
    for runs in (1, 2, 3, 5):
        for steps in (3, 10, 20, 50):
            shape = Shape(runs, runs, steps)
            caught = [_percent(share(pairs(count, shape, seed=1000 * runs + steps, effect=e))) for e in effects]
            rows.append([f"{runs} × {steps}", *caught])
    heads = ["runs a side × steps", "no change", *(f"{effect:.0%}" for effect in effects[1:])]
    return _table(f"How often a slowdown is called worse: {count:,} comparisons a number", heads, rows)


def _wilder(count: int) -> str:
    rows = []
    for between in (0.0, 0.01, 0.02, 0.03, 0.05, 0.1):
        row = [f"{between:.0%}"]
        for runs in (1, 3, 5):
            for effect in (0.0, 0.05, 0.2):
                seed = int(1e5 + 1e4 * between + 10 * runs + 100 * effect)
                row.append(
                    _percent(share(pairs(count, Shape(runs, runs, 20), seed=seed, effect=effect, between=between)))
                )
        rows.append(row)
    heads = ["runs vary by"]
    heads += [f"{r} run{'s' * (r > 1)}: {e}" for r in (1, 3, 5) for e in ("no change", "5 %", "20 %")]
    title = f"Machines that vary less, or more, than is assumed: {count:,} comparisons a number, 20 steps"
    return _table(title, heads, rows)


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"**{title}**", "", _line(heads), _line(["---", *(["---:"] * (len(heads) - 1))]), *map(_line, rows), ""]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _percent(value: float) -> str:
    return f"{value:.1%}" if value < 0.9995 else "100%"


def with_tables(page: str, made: str) -> str:
    """The page with these tables in the place of those that it has."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{made}\n{END}{after}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the tables into docs/gate.md")
    parser.add_argument("--quick", action="store_true", help="a tenth of the comparisons")
    args = parser.parse_args(argv)
    made = tables(100 if args.quick else 1000)
    print(made)
    if args.write:
        PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), made), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
