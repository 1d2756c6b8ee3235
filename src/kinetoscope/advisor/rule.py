"""A rule, and the two views that rules are given: of one rank, and of the job of several ranks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, TypeVar, cast, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kinetoscope.advisor.finding import NO_STAKE, Evidence, Finding, Stake
from kinetoscope.advisor.laws import StepTime
from kinetoscope.advisor.step_statistics import margin, mean_of
from kinetoscope.advisor.wording import each_step
from kinetoscope.algorithms.arrays import Bools, Floats, Int64s
from kinetoscope.algorithms.intervals.intervals import Intervals, covered, difference, intersection, union
from kinetoscope.analyses import asked
from kinetoscope.engines.threads import Threads
from kinetoscope.model.critical_path.joint import causes_of_replay
from kinetoscope.model.critical_path.what_if import Factors, replayed
from kinetoscope.model.device.hardware import is_host_only
from kinetoscope.model.execution.device_work import DeviceWork, device_work
from kinetoscope.model.execution.frames import CodeLocation
from kinetoscope.model.execution.program import ProgramKind, Use, optimizations_used, program_kind
from kinetoscope.model.graphs.lost_work import lost_work
from kinetoscope.model.health.check import examine
from kinetoscope.model.health.recording_kinds import RecordingKind, recording_kinds
from kinetoscope.model.job import Job
from kinetoscope.model.serving.steps import MAX_GAP_RATIO
from kinetoscope.model.steps.scope import Scope, origin_of_time, scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.steps.steps import steps as find_steps
from kinetoscope.model.trace.derived import DerivedCache
from kinetoscope.model.trace.recording import recording
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Result
from kinetoscope.views.sentences import Quantity, measured

T = TypeVar("T")

Need = Literal["steps", "device", "computation"]

HEADINGS: Final = ("What it checks", "Why it matters", "What to do")
"""Of the docstring of a rule, in this order, each at the beginning of a paragraph and followed by a full stop."""


_DAMAGED: Final = ("TRUNCATED", "STREAM")
"""Codes of symptoms of a file that is not whole."""

_LOST_SHARE: Final = 0.01
"""Share of all launches up to which it does not matter that the records of their work were lost."""

_CACHE_BYTES: Final = 1 << 28
"""Bytes of answers that are kept for the rules that come after."""


class _View:
    """A selection of steps as rules see it: answers of analyses, and what follows from them, computed once."""

    def __init__(self, job: Job, select: Selection) -> None:
        self.traces, self.select = job, select
        self._derived = DerivedCache(_CACHE_BYTES)

    def of(self, derive: Callable[..., T], *details: Any, **named: Any) -> T:
        """`derive(self, *details, **named)`, computed once; `@derived` makes a function ask this of itself."""
        question = (derive, *details, *sorted(named.items()))
        if question not in self._derived:
            self._derived.keep(question, derive(self, *details, **named))
        return cast(T, self._derived[question])

    def ask(self, analysis: str, **params: Any) -> Result:
        """The answer of an analysis, by its name and its parameters."""
        return self.of(_answer, analysis, **params)

    def remember(self, answer: Any, derive: Callable[..., Any], *details: Any, **named: Any) -> None:
        """Store an answer computed elsewhere, so that `of` returns it."""
        self._derived.keep((derive, *details, *sorted(named.items())), answer)


def _answer(view: _View, analysis: str, **params: Any) -> Result:
    return view.traces.answer(asked(analysis, select=view.select, **params))


_MAX_MARGIN_SHARE: Final = 0.3
"""Share of a mean by which few and uneven steps may move it at most."""


class RankView(_View):
    """One rank as rules see it: its trace, the selected steps, and the answers of analyses about it."""

    def __init__(self, trace: Trace, select: Selection) -> None:
        super().__init__(Job(trace.source.url, (trace.source,), Threads(lambda _: trace, jobs=1, keep=0)), select)
        self.trace = trace

    @cached_property
    def scope(self) -> Scope:
        """The selection applied to the trace: steps, host events, device work."""
        return scope(self.trace, self.select)

    @cached_property
    def work(self) -> DeviceWork:
        """All device work of the trace; `scope.device_work_mask` says which of it is selected."""
        return device_work(self.trace)

    @cached_property
    def windows(self) -> Intervals:
        """The selected device steps, ns: int64 [steps] each; those of a server with the time since the step before."""
        return self.scope.clipped(self._begins[self.scope.places], self.scope.steps.device.end)

    @property
    def notes(self) -> tuple[Note, ...]:
        """Sentences on how its steps are counted, where that is not as elsewhere."""
        counts = bool(self._follows[self.scope.places].any())
        return (Note("SERVER_STEPS", "Here, a server's step counts the time since the step before."),) if counts else ()

    @cached_property
    def _follows(self) -> Bools:
        """Steps that begin with the end of the one before: bool [all steps]. It is what a server does between steps."""
        device = find_steps(self.trace, self.select.steps_by).device
        if self.program != "serving":
            return np.zeros(len(device.start), np.bool_)
        pause = device.start[1:] - device.end[:-1]
        longest = MAX_GAP_RATIO * float(np.median(device.end - device.start)) if len(device.start) else 0.0
        return np.concatenate([[False], pause <= longest])[: len(device.start)]

    @cached_property
    def _begins(self) -> Int64s:
        device = find_steps(self.trace, self.select.steps_by).device
        return np.where(self._follows, np.concatenate([[0], device.end[:-1]])[: len(device.end)], device.start)

    @property
    def step_count(self) -> int:
        """How many steps are selected."""
        return len(self.windows.start)

    @cached_property
    def step(self) -> float:
        """The average selected step, ns; 0 where there is none."""
        return float(np.mean(self.windows.end - self.windows.start)) if self.step_count else 0.0

    @cached_property
    def program(self) -> ProgramKind:
        """The kind of program; `advisor.wording` has the words for it."""
        return program_kind(self.trace)

    @cached_property
    def recorded(self) -> frozenset[RecordingKind]:
        """The kinds of recording that it is, where no program is at work."""
        return frozenset(each.kind for each in recording_kinds(self.trace))

    @cached_property
    def uses(self) -> frozenset[Use]:
        """The techniques for speed that the program uses already."""
        return optimizations_used(self.trace)

    @cached_property
    def has_device(self) -> bool:
        """Was any device work recorded?"""
        return len(self.work) > 0

    @cached_property
    def met(self) -> frozenset[Need]:
        """The needs of rules that the trace and the selection meet."""
        if not self.step_count:
            return frozenset()
        if self.has_device:
            return frozenset(get_args(Need))
        return frozenset(("steps", "computation") if is_host_only(self.trace) else ("steps",))

    @cached_property
    def is_complete(self) -> bool:
        """Is all there that was recorded? If not, nothing recorded does not mean that nothing happened."""
        return not any(code in examine(self.trace) for code in _DAMAGED) and not self.lost_launches

    @cached_property
    def lost_launches(self) -> int:
        """Launches of the selected steps of which the device's records were lost; 0 for a few of all."""
        lost = lost_work(self.trace)
        mask = self.scope.host_mask
        count = int(mask[lost.at_start].sum() + mask[lost.between].sum())
        return count if count > _LOST_SHARE * lost.launches else 0

    @cached_property
    def time(self) -> Intervals:
        """The time of the selected steps."""
        return union(*self.windows)

    @cached_property
    def busy(self) -> Intervals:
        """The time in which any device of the rank is busy."""
        return union(self.work.start, self.work.end)

    @cached_property
    def step_time(self) -> StepTime:
        """The measure of promises: the average step, and when devices work in the selected ones."""
        facts = recording(self.trace)
        cpu = {} if facts is None or self.has_device else facts.cpu
        workers, ranks = cpu.get("workers", 0), max(cpu.get("local_ranks", 1), 1)
        shares = bool(workers and ranks * (1 + workers) > cpu.get("cores", 0) > 0)
        return StepTime(self.step, intersection(self.busy, self.time), self.step_count, shares_cores=shares)

    @cached_property
    def idle(self) -> Intervals:
        """The time of the selected steps in which every device of the rank is idle."""
        return difference(self.time, self.busy)

    def event(
        self, row: int, text: str, analysis: str | None = None, source: CodeLocation | None = None, **params: str
    ) -> Evidence:
        """An event as evidence: `text` says what is to be seen there."""
        start, end = int(self.trace.start[row]), int(self.trace.end[row])
        return self._evidence(text, analysis, start, max(start, end), row, source, **params)

    def longest_of(
        self, time: Intervals, text: str, analysis: str, row: int = -1, source: CodeLocation | None = None
    ) -> Evidence:
        """The longest of some intervals as evidence."""
        longest = int(np.argmax(time.end - time.start))
        return self._evidence(text, analysis, int(time.start[longest]), int(time.end[longest]), row, source)

    def _evidence(
        self,
        text: str,
        analysis: str | None,
        start: int,
        end: int,
        row: int,
        source: CodeLocation | None,
        **params: str,
    ) -> Evidence:
        zero = origin_of_time(self.trace)
        file, line = (source.file, source.line) if source is not None else (None, None)
        return Evidence(text, analysis, params, start - zero, end - zero, row if row >= 0 else None, file, line)

    def longest(self, rows: NDArray[Any]) -> int:
        """Row of the longest of some events."""
        return int(rows[np.argmax(self.trace.end[rows] - self.trace.start[rows])])

    def spans(self, rows: NDArray[Any]) -> Intervals:
        """The time of events, given as bool [events] or row numbers: a union."""
        return union(self.trace.start[rows], self.trace.end[rows])

    def work_spans(self, work: NDArray[Any]) -> Intervals:
        """The time of some device work, given as bool [work] or its places: a union."""
        return union(self.work.start[work], self.work.end[work])

    def work_time(self, work: NDArray[Any]) -> Intervals:
        """The time of some device work in the selected steps, given as bool [work] or its places: a union."""
        return intersection(self.work_spans(work), self.time)

    def exposed(self, time: Intervals) -> Intervals:
        """The part of host time (a union) in selected steps that no device work hides."""
        return intersection(time, self.idle)

    def per_step(self, nanoseconds: float) -> float:
        """A sum over the selected steps, as the mean of a step."""
        return nanoseconds / self.step_count if self.step_count else 0.0

    def time_per_step(self, nanoseconds: float) -> Quantity:
        """A sum over the selected steps, as the mean of a step: `1.2 ms`."""
        return measured(self.per_step(nanoseconds), "ns")

    def each_step(self, count: float, one: str, more: str = "") -> Quantity:
        """A count over the selected steps, as the mean of a step: `2.5 copies a step`."""
        return each_step(self.per_step(count), one, more)

    def factors(self) -> Factors:
        """The start of a what-if: nothing changes."""
        return Factors.all_one(self.trace)

    def without_time(self, rows: NDArray[Any]) -> Factors:
        """A what-if in which the threads of some calls, given by row numbers, lack the time of these."""
        factors = self.factors()
        for track in np.unique(self.trace.track[rows]).tolist():
            factors.cut[track] = self.spans(rows[self.trace.track[rows] == track])
        return factors

    def gains(self, factors: Factors) -> Floats:
        """The time that each selected step would be shorter by with other times, ns: float64 [steps].

        See `model.critical_path.what_if`. Negative in a step whose predecessor ends sooner by more.
        """
        places = self.scope.places
        new, _ = replayed(self.trace, factors, self.select.steps_by, self._follows)
        return np.asarray(self._now[places] - new[places], np.float64)

    def causes(self, factors: Factors) -> tuple[float, ...]:
        """Causes of an average selected step with other times, ns by `CAUSES`; see `gains`."""
        every = causes_of_replay(self.trace, factors, self.select.steps_by, self._follows)[self.scope.places]
        return tuple(every.mean(axis=0).tolist()) if len(every) else (0.0,) * every.shape[1]

    def by_step(self, time: Intervals) -> Floats:
        """The part of a union in each selected step, ns: float64 [steps]."""
        return covered(self.windows, time).astype(np.float64)

    def stake(self, low: Floats, high: Floats) -> Stake:
        """The stake of an average step, from its certain and its possible part in each step: float64 [steps].

        The ends are means over few steps: each moves outwards by half its confidence interval, but by no more than
        three tenths of itself.
        """
        if not self.step_count:
            return NO_STAKE
        least, most = max(float(np.mean(low)), 0.0), float(np.mean(high))
        least -= min(margin(low), _MAX_MARGIN_SHARE * least)
        most += min(margin(high), _MAX_MARGIN_SHARE * abs(most))
        return Stake(least, min(max(most, least), self.step))

    @cached_property
    def _now(self) -> Int64s:
        return find_steps(self.trace, self.select.steps_by).device.end - self._begins


OF_JOB: Final[tuple[tuple[str, dict[str, str]], ...]] = (
    ("step_breakdown", {}),
    ("rank_balance", {}),
    ("stragglers", {}),
    ("stragglers", {"by": "step"}),
)
"""Analyses that job rules need, with their parameters, asked in one pass over the traces."""


class JobView(_View):
    """A job of several ranks as rules see it: the answers of analyses about all of them.

    `answers`: those to `OF_JOB`, in that order, as far as they are known.
    """

    def __init__(
        self, job: Job, select: Selection, program: ProgramKind = "unknown", answers: Sequence[Result] = ()
    ) -> None:
        super().__init__(job, select)
        self.program = program
        for (analysis, params), answer in zip(OF_JOB, answers, strict=False):
            self.remember(answer, _answer, analysis, **params)

    @cached_property
    def step(self) -> float:
        """The average selected step of all ranks, ns; 0 where there is none."""
        return mean_of(self.ask("step_breakdown").frame["duration"])

    @cached_property
    def step_time(self) -> StepTime:
        """The measure of promises: the average step, and the computation of the rank that computes least."""
        means = self.ask("step_breakdown").frame.group_by("rank").agg(pl.col("computation").mean())
        least = means.get_column("computation").min()
        return StepTime(self.step, least=float(least) if isinstance(least, (int, float)) else 0.0)


OfRank = Callable[[RankView], Iterable[Finding]]
OfJob = Callable[[JobView], Iterable[Finding]]

NO_PROGRAM: Final[frozenset[RecordingKind]] = frozenset(get_args(RecordingKind)) - {"no operators"}
"""Kinds of recordings without a step of a program at work: most rules do not fit them."""


NO_SERVER: Final[tuple[ProgramKind, ...]] = ("training", "inference", "unknown")
"""Programs whose collectives, waits and gaps between steps rules about servers do not explain."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A check for one kind of trouble.

    Attributes:
        code: family and number, as DATA001; it never changes.
        title: the trouble in a few words, without a full stop.
        of_rank: finds it on one rank. It runs where the trace is.
        of_job: finds it among all ranks. A rule has either `of_rank` or `of_job`.
        alone: findings of `of_rank` count only in a job of one rank.
        unfit: kinds of recordings (`model.health.recording_kinds`) for which it is not asked: of `of_job` those of
            which every rank's recording is.
        programs: kinds of programs that it is about.
        needs: what `of_rank` needs: selected steps, with device work, or with any computation: of a device or, where
            there is none, of the host. If a device's work was not recorded, the trace does not show what computes when.

    The docstring of the function states what it checks, why it matters and what to do, under these headings.
    """

    code: str
    title: str
    of_rank: OfRank | None = None
    of_job: OfJob | None = None
    alone: bool = False
    unfit: frozenset[RecordingKind] = NO_PROGRAM
    programs: tuple[ProgramKind, ...] = get_args(ProgramKind)
    needs: Need | None = None

    def fits(
        self, recorded: frozenset[RecordingKind], program: ProgramKind, met: frozenset[Need] = frozenset()
    ) -> bool:
        """Is it asked about what was recorded of such a program, where such needs are met?"""
        return not self.unfit & recorded and program in self.programs and (self.needs is None or self.needs in met)

    @property
    def family(self) -> str:
        """`DATA` of DATA001."""
        return self.code.rstrip("0123456789")

    @property
    def doc(self) -> str:
        """The docstring of its function, without indentation."""
        return inspect.getdoc(self.of_rank or self.of_job) or ""
