"""The ranges that are the steps of a serving engine, and what their names say."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import pairwise
from typing import Any, Final, TypeVar, cast

import numpy as np

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.algorithms.intervals.intervals import Intervals
from kinetoscope.model.execution.call_tree import call_tree, main_thread
from kinetoscope.model.execution.engines import ENGINES, PATCHED_ENGINE, STEP_WORDS, ServingStep, parsed
from kinetoscope.model.execution.program import program_kind
from kinetoscope.model.steps.steps import steps as find_steps
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_containing
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note

T = TypeVar("T")

_NOTHING_SAID: Final = ServingStep("")


@dataclass(frozen=True)
class NamedSteps:
    """The steps of a serving engine, in order of time; they are disjoint.

    Attributes:
        row: int64 [steps], the annotation; −1 where the step is inferred.
        track: int64 [steps], the thread of the host.
        host: when the host was in each.
        said: what the name of each says.
        note: where they come from; None for names of an engine.
    """

    row: Int64s
    track: Int64s
    host: Intervals
    said: tuple[ServingStep, ...]
    note: Note | None = None

    def __len__(self) -> int:
        return len(self.row)


@derived
def named_steps(trace: Trace, steps_by: str | None = None) -> NamedSteps:
    """The steps that an engine named; else, of a program that serves or infers, those that are proposed.

    A range inside another one is the same step: what the one does not say, the other may. `steps_by` as for `steps`.
    """
    rows, said = _names_of_engines(trace)
    if len(rows):
        order = np.lexsort((-trace.end[rows], trace.start[rows]))
        rows, said = rows[order], [said[place] for place in order.tolist()]
        reach = np.concatenate([[np.iinfo(np.int64).min], np.maximum.accumulate(trace.end[rows])[:-1]])
        first = np.flatnonzero(trace.start[rows] >= reach)
        bounds = [*first.tolist(), len(rows)]
        merged = [_merged(said[low:high]) for low, high in pairwise(bounds)]
        steps = rows[first]
        host = Intervals(trace.start[steps], np.maximum(trace.end[steps], trace.start[steps]))
        return NamedSteps(steps, trace.track[steps].astype(np.int64), host, tuple(merged))
    if program_kind(trace) not in ("serving", "inference"):
        return _none(Note("NO_REQUESTS_SERVED", "The program serves no requests: no serving engine named a step."))
    every = find_steps(trace, steps_by)
    if every.origin == "window":
        return _none(Note("NO_ENGINE_STEPS", "No serving engine named a step, and nothing repeats as steps do."))
    if every.origin == "profiler" and program_kind(trace) == "inference":
        return _none(
            Note("NO_ENGINE_STEPS", "No serving engine named a step; step_breakdown has those of the profiler.")
        )
    name = next((each.name for each in ENGINES if each.serves and _uses(trace, each.folders)), "")
    note = every.note or Note("PROFILER_STEPS", "No serving engine named a step: the profiler's steps count.")
    count = len(every)
    track = np.full(count, main_thread(trace), np.int64)
    return NamedSteps(np.full(count, -1, np.int64), track, every.host, (ServingStep(name),) * count, note)


def _none(note: Note) -> NamedSteps:
    nothing = np.empty(0, np.int64)
    return NamedSteps(nothing, nothing, Intervals(nothing, nothing), (), note)


def _uses(trace: Trace, folders: tuple[str, ...]) -> bool:
    return bool(rows_containing(trace, folders, EventKind.PYTHON).any())


def _names_of_engines(trace: Trace) -> tuple[Int64s, list[ServingStep]]:
    """Annotations of the host that are named as steps, and what each says."""
    if not trace.strings.holding(STEP_WORDS).any():
        return np.empty(0, np.int64), []
    rows = np.flatnonzero(((trace.kind == EventKind.ANNOTATION) & (call_tree(trace).depth >= 0))[: trace.recorded])
    codes, place = np.unique(trace.name[rows], return_inverse=True)
    of_code = [parsed(text) for text in trace.strings.labels(codes.tolist())]
    named = np.array([each is not None for each in of_code], np.bool_)
    chosen = np.flatnonzero(named[place]) if len(codes) else np.empty(0, np.int64)
    return rows[chosen], [of_code[code] or _NOTHING_SAID for code in place[chosen].tolist()]


def _merged(said: list[ServingStep]) -> ServingStep:
    """One step of ranges that lie in each other: the engine's own name first, then the outer one."""
    first, *others = sorted(said, key=lambda each: each.engine == PATCHED_ENGINE)
    for other in others:
        first = _filled(first, other) if other.engine != first.engine else first
    return first


def _filled(one: T, other: T) -> T:
    """The facts that `one` says, and those that only `other` says."""
    known = {}
    for each in fields(cast("Any", one)):
        mine, theirs = getattr(one, each.name), getattr(other, each.name)
        known[each.name] = theirs if mine is None else _filled(mine, theirs) if is_dataclass(mine) else mine
    return cast("T", replace(cast("Any", one), **known))


def numbers_said(steps: NamedSteps, *names: str) -> dict[str, Int64s]:
    """Numbers that names say, by a dotted name such as `prefill.sq`: int64 [steps] each, −1 where none is said."""

    def value(step: ServingStep, name: str) -> int:
        whole, _, attribute = name.partition(".")
        number = getattr(step, whole)
        number = getattr(number, attribute) if attribute else number
        return -1 if number is None else int(number)

    return {name: np.array([value(step, name) for step in steps.said], np.int64) for name in names}
