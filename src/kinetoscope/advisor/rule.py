"""What a rule is, and what it looks at."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from kinetoscope.advisor.finding import NOTHING, Claim, Stake
from kinetoscope.algorithms.arrays import Floats, Int64s
from kinetoscope.algorithms.intervals.intervals import Intervals, covered, difference, intersection, union
from kinetoscope.algorithms.statistics import margin_of_error
from kinetoscope.analyses import named
from kinetoscope.model.critical_path.what_if import Factors, replayed
from kinetoscope.model.execution.device_work import DeviceWork, device_work
from kinetoscope.model.execution.program import ProgramKind, Use, program_kind, used
from kinetoscope.model.job import Combine, Failure, Job, Partial, Task
from kinetoscope.model.steps.scope import Scope, origin_of_time, scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.steps.steps import steps as find_steps
from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Result

T = TypeVar("T")

HEADINGS: Final = ("What it checks", "Why it matters", "What to do")
"""Of the docstring of a rule, in this order, each at the beginning of a paragraph and followed by a full stop."""


_DAMAGED: Final = ("TRUNCATED", "STREAM")
"""Codes of symptoms of a file that is not whole."""


class Answers:
    """The answers of analyses about a job and the selected steps; each is asked once.

    Attributes:
        known: by the name of the analysis and its parameters.
    """

    def __init__(self, job: Job, select: Selection) -> None:
        self._job, self._select = job, select
        self.known: dict[tuple[Any, ...], Result] = {}

    def __call__(self, analysis: str, **params: Any) -> Result:
        """The answer of an analysis, by its name and its parameters."""
        question = (analysis, *sorted(params.items()))
        if question not in self.known:
            self.known[question] = named(analysis)(self._job, select=self._select, **params)
        return self.known[question]


class RankView:
    """One rank as rules see it: its trace, the selected steps, and the answers of analyses about it.

    Attributes:
        trace: of the rank.
        select: what is looked at.
        ask: for the answers.
    """

    def __init__(self, trace: Trace, select: Selection) -> None:
        self.trace, self.select = trace, select
        self.ask = Answers(Job(trace.source.url, (trace.source,), _Alone(trace)), select)

    @cached_property
    def view(self) -> Scope:
        """The selection applied to the trace: steps, host events, device work."""
        return scope(self.trace, self.select)

    @cached_property
    def work(self) -> DeviceWork:
        """All device work of the trace; `view.work` says which of it is selected."""
        return device_work(self.trace)

    @cached_property
    def windows(self) -> Intervals:
        """The selected device steps, ns: int64 [steps] each."""
        return self.view.clipped(*self.view.steps.device)

    @property
    def count(self) -> int:
        """How many steps are selected."""
        return len(self.windows.start)

    @cached_property
    def step(self) -> float:
        """The average selected step, ns; 0 where there is none."""
        return float(np.mean(self.windows.end - self.windows.start)) if self.count else 0.0

    @cached_property
    def program(self) -> ProgramKind:
        """What the program does; `advisor.wording` has the words for it."""
        return program_kind(self.trace)

    @cached_property
    def uses(self) -> frozenset[Use]:
        """What the program does already for speed."""
        return used(self.trace)

    @cached_property
    def has_device(self) -> bool:
        """Was any device work recorded?"""
        return len(self.work) > 0

    @cached_property
    def is_whole(self) -> bool:
        """Is the file whole? Else that nothing was recorded does not mean that nothing happened."""
        return not any(code in self.trace.health for code in _DAMAGED)

    @cached_property
    def inside(self) -> Intervals:
        """The time of the selected steps."""
        return union(*self.windows)

    @cached_property
    def busy(self) -> Intervals:
        """When any device of the rank does anything."""
        return union(self.work.start, self.work.end)

    @cached_property
    def idle(self) -> Intervals:
        """The time of the selected steps in which no device of the rank does anything."""
        return difference(self.inside, self.busy)

    @cached_property
    def origin(self) -> int:
        """Where the trace's clock is shown to begin, ns: what `Evidence.start` counts from."""
        return origin_of_time(self.trace)

    def shown(self, start: Any, end: Any) -> tuple[int, int]:
        """A stretch of the trace's time as `Evidence` has it: from its origin on, ns."""
        return int(start) - self.origin, int(end) - self.origin

    def spans(self, rows: NDArray[Any]) -> Intervals:
        """When events run: bool [events] or their row numbers."""
        return union(self.trace.start[rows], self.trace.end[rows])

    def exposed(self, time: Intervals) -> Intervals:
        """What of host time (a union) is in selected steps and hidden by no device work."""
        return intersection(time, self.idle)

    def each_step(self, nanoseconds: float) -> float:
        """A sum over the selected steps, for one of them on average."""
        return nanoseconds / self.count if self.count else 0.0

    def factors(self) -> Factors:
        """Nothing changes: the beginning of a what-if."""
        return Factors.all_one(self.trace)

    def gains(self, factors: Factors) -> Floats:
        """How much shorter each selected step would be with other times, ns: float64 [steps].

        See `model.critical_path.what_if`. Negative in a step whose predecessor ends so much sooner.
        """
        places = self.view.places
        new, _ = replayed(self.trace, factors, self.select.steps_by)
        return np.asarray(self._now[places] - new[places], np.float64)

    def sums(self, time: Intervals) -> Floats:
        """How much of a union is in each selected step, ns: float64 [steps]."""
        return covered(self.windows, time).astype(np.float64)

    def stake(self, low: Floats, high: Floats) -> Stake:
        """The stake of an average step, of what is surely and at most at stake in each of them: float64 [steps].

        Steps differ, and few were recorded: each end moves outwards by what the mean of so many may be wrong by, but by
        no more than three tenths of itself. What comes in each third step has the mean that was recorded.
        """
        if not self.count:
            return NOTHING
        least, most = max(float(np.mean(low)), 0.0), float(np.mean(high))
        least -= min(margin(low), _WIDEST * least)
        most += min(margin(high), _WIDEST * abs(most))
        return Stake(least, min(max(most, least), self.step))

    @cached_property
    def _now(self) -> Int64s:
        device = find_steps(self.trace, self.select.steps_by).device
        return device.end - device.start


_WIDEST: Final = 0.3
"""Of a mean, what few and uneven steps may move it by."""

_FEW: Final = 3
"""Steps from which on their spread is believed; of two it would say nothing, or anything."""


def margin(values: Floats) -> float:
    """The margin of error of the mean; 0 of fewer than 3 values."""
    return margin_of_error(values) if len(values) >= _FEW else 0.0


class JobView:
    """A job of several ranks as rules see it: the answers of analyses about all of them.

    Attributes:
        job, select: what is looked at.
        ask: for the answers.
        program: what the program does.
    """

    def __init__(self, job: Job, select: Selection, program: ProgramKind = "unknown") -> None:
        self.job, self.select, self.program = job, select, program
        self.ask = Answers(job, select)
        self._derived: dict[Callable[[JobView], Any], Any] = {}

    def of(self, derive: Callable[[JobView], T]) -> T:
        """What several rules need: computed once."""
        if derive not in self._derived:
            self._derived[derive] = derive(self)
        return cast(T, self._derived[derive])

    @cached_property
    def step(self) -> float:
        """The average selected step of all ranks, ns; 0 where there is none."""
        mean = self.ask("step_breakdown").frame.get_column("duration").mean()
        return float(mean) if isinstance(mean, (int, float)) else 0.0


OfRank = Callable[[RankView], Iterable[Claim]]
OfJob = Callable[[JobView], Iterable[Claim]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that may be wrong, and all that faces need to know about it.

    Attributes:
        code: family and number, as DATA001; it never changes.
        title: the trouble in a few words, without a full stop.
        of_rank: finds it on one rank. It runs where the trace is.
        of_job: finds it among all ranks. A rule has the one or the other.
        alone: what `of_rank` finds counts only where no other rank's trace is there.

    The docstring of the function says what is checked, why it matters and what to do, under these headings.
    """

    code: str
    title: str
    of_rank: OfRank | None = None
    of_job: OfJob | None = None
    alone: bool = False

    @property
    def family(self) -> str:
        """`DATA` of DATA001."""
        return self.code.rstrip("0123456789")

    @property
    def doc(self) -> str:
        """The docstring of its function, without indentation."""
        return inspect.getdoc(self.of_rank or self.of_job) or ""


class _Alone:
    """An engine for one trace that is here already."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def trace(self, source: Source) -> Trace:
        del source
        return self._trace

    def map(self, sources: Sequence[Source], task: Task) -> Iterator[tuple[Source, Partial | Failure]]:
        for source in sources:
            yield source, task(self._trace)

    def reduce(
        self, sources: Sequence[Source], task: Task, combine: Combine
    ) -> tuple[Partial | None, dict[Source, Failure]]:
        del sources, combine
        return task(self._trace), {}
