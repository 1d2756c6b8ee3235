"""The largest changes between the runs of a gate: where to look when it fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from kinetoscope.compare.diff.diff import diff
from kinetoscope.compare.gate.gate import Gate
from kinetoscope.compare.statistics.numbers import KERNEL, OPERATOR, STEP_TIME, Numbers
from kinetoscope.compare.statistics.run_statistics import run_statistics
from kinetoscope.errors import KinetoscopeError
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import ALL, Selection
from kinetoscope.views.sentences import EMPTY, Sentence

MAX_CALLS: Final = 5
"""Rows, unless another number is asked for."""

_MAX_ROWS: Final = 50
"""Rows of a difference that are examined, those that changed most."""

_MIN_STEP_SHARE: Final = 0.001
"""Share of the step below which a change is not reported."""


@dataclass(frozen=True, slots=True)
class ChangedCall:
    """A call or kernel that takes more, or less, of a step than before.

    Attributes:
        name: its name.
        kind: operator, kernel, …
        base: its time in a mean step before, ns.
        new: its time in a mean step now, ns.
        status: new, gone, more calls, slower calls, …; empty where that is not known.
    """

    name: str
    kind: str
    base: float
    new: float
    status: str = ""

    @property
    def change(self) -> float:
        """Ns."""
        return self.new - self.base


@dataclass(frozen=True, slots=True)
class Causes:
    """The largest changes between the runs of a gate.

    Attributes:
        calls: what takes more, largest change first, then what takes less.
        sentence: of `mean_times.slower_host`; empty where one call or another is to blame, or that is not known.
    """

    calls: tuple[ChangedCall, ...] = ()
    sentence: Sentence = EMPTY

    def __bool__(self) -> bool:
        return bool(self.calls or self.sentence)


Opener = Callable[[str], Job]


def causes(gate: Gate, opened: Opener | None = None, *, select: Selection = ALL, most: int = MAX_CALLS) -> Causes:
    """The largest changes, and whether the host as a whole became slower.

    If traces of both sides are at hand, it is their difference, whose parts sum to the change of the step: that of the
    run with the median step on each side. Of a baseline it is the operators or kernels that it holds.

    Args:
        gate: the gate.
        opened: opens the run at a path, or raises what `read` does; None where there are no traces.
        select: what is looked at.
        most: rows at most.
    """
    base, new = (_median(side) for side in (gate.base, gate.new))
    if opened is not None and base.complete and new.complete:
        try:
            return _of_traces(opened(base.path), opened(new.path), select, most)
        except KinetoscopeError:
            pass  # the gate's answer stands without it
    return Causes(_of_numbers(gate, most))


def _median(side: Sequence[Numbers]) -> Numbers:
    """The run whose typical step is the median one; of an even number the shorter."""
    by_step = sorted(side, key=lambda run: run_statistics(run.series[STEP_TIME].values if run.steps else ()).typical)
    return by_step[(len(by_step) - 1) // 2]


def _of_traces(base: Job, new: Job, select: Selection, most: int) -> Causes:
    difference = diff(base, new, select=select)
    rows = [
        ChangedCall(row["name"], row["kind"], float(row["base"]), float(row["new"]), row["status"] or "")
        for row in difference.rows.frame.head(_MAX_ROWS).iter_rows(named=True)
    ]
    return Causes(_ordered(rows, difference.base, most), difference.slower_host)


def _of_numbers(gate: Gate, most: int) -> tuple[ChangedCall, ...]:
    """Kernels that changed where there are any, as they do not lie inside one another; else operators."""
    runs = [*gate.base, *gate.new]
    prefix = KERNEL if any(run.has(KERNEL) for run in runs) else OPERATOR
    names = {name for run in runs for name in run.series if name.startswith(prefix)}
    step = max(_mean(STEP_TIME, gate.base), 1.0)
    kind = "kernel" if prefix == KERNEL else "operator"
    rows = [
        ChangedCall(name.removeprefix(prefix), kind, _mean(name, gate.base), _mean(name, gate.new))
        for name in sorted(names)
    ]
    return _ordered(rows, step, most)


def _ordered(rows: Sequence[ChangedCall], step: float, most: int) -> tuple[ChangedCall, ...]:
    """The calls that take more first, the largest change before others; without those that hardly changed."""
    notable = [each for each in rows if abs(each.change) >= _MIN_STEP_SHARE * max(step, 1.0)]
    notable.sort(key=lambda each: (each.change < 0, -abs(each.change)))
    return tuple(notable[:most])


def _mean(metric: str, runs: Sequence[Numbers]) -> float:
    """The mean of the runs that say what it was; a baseline does not say what it left out as small."""
    values = [
        run.series[metric].mean if metric in run.series else 0.0 for run in runs if metric in run.series or run.complete
    ]
    return sum(values) / len(values) if values else 0.0
