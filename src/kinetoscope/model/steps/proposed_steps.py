"""Steps that nobody marked: which annotations may be steps, and what is proposed where none was named.

Where a serving engine names its steps (`execution.engines`), those are the steps, else its Python calls that are one.
Else a pattern that repeats is proposed as the step if its count × its median length covers most of the window.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

import numpy as np

from kinetoscope.algorithms.arrays import Int32s, Int64s, any_of
from kinetoscope.algorithms.intervals.intervals import Intervals, union
from kinetoscope.model.execution.call_tree import call_tree, enclosing_module, main_thread, outermost_ops
from kinetoscope.model.execution.device_work import DeviceWork, device_work
from kinetoscope.model.execution.marks import OPTIMIZER, OPTIMIZER_STEP, RANGE_KINDS, STEP, is_optimizer_range
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note

_PARTS: Final = (
    "enumerate(Data",
    OPTIMIZER,
    "nccl:",
    "gloo:",
    "## Call CompiledFxGraph",
    "Torch-Compiled Region",
    "CompiledFunction",
    "TorchDynamo Cache Lookup",
    "Pregraph bytecode",
    "DistributedDataParallel.",
    "FullyShardedDataParallel.",
    "FSDP::",
    "capture_",
)
"""Beginnings of the names of annotations that torch and engines give to parts of a step, or to what happens once."""

_BRACKETS: Final = re.compile(r"\[[^\[\]]*\]|\([^()]*\)")
_DIGITS: Final = re.compile(r"\d+")
_MAX_NAME_LENGTH: Final = 512

_MAX_CANDIDATES: Final = 20

_MIN_REPETITIONS: Final = 3
"""Repetitions of a pattern that is proposed as the step."""

_MIN_LAUNCHES: Final = 100
"""Launches of a repeated sequence that is proposed: shorter ones are layers of a model."""

_EQUAL_SHARE: Final = 0.8
"""Share of the sequences of launches that must be equal."""

_COVERAGE: Final = 0.6
"""Share of the window that the number of pieces times their median length must reach."""

_MIN_OPERATORS: Final = 30
"""Outermost operators that must repeat without device work: fewer are layers of a model."""

_PERIODIC_SHARE: Final = 0.8
"""Share of the outermost operators that must repeat exactly: the first iteration may set something up."""

NumberedSteps = tuple[Int64s, Intervals]
"""The numbers of steps, and the time of the host in each."""

Basis = Literal["engine", "repetition", "window"]
"""What proposed steps rest on, see `steps.Origin`."""

Proposal = tuple[Intervals, str]
"""The proposed steps of the host, and their source in words."""


@dataclass(frozen=True)
class StepCandidate:
    """An annotation that may be a step.

    Attributes:
        name: a value for `steps_by`: the annotation's name, or the common beginning of the names of the family.
        count: number of its steps.
        share: share of the host's window that they cover.
    """

    name: str
    count: int
    share: float


@dataclass(frozen=True)
class _Family:
    """Annotations whose names differ in numbers only, and in brackets that contain a number.

    Attributes:
        name: their common name, as `step[…]` or `iteration #`.
        codes: string codes of their names.
        rows: int64 [annotations], ascending.
        engine: the engine whose steps they are; "" for none.
    """

    name: str
    codes: tuple[int, ...]
    rows: Int64s
    engine: str


def step_candidates(trace: Trace) -> tuple[StepCandidate, ...]:
    """Annotations that occur more than once and may be steps: engines' first, then those that cover most."""
    begin, end = host_window(trace, device_work(trace))
    families = [family for family in _families(trace) if len(family.rows) > 1]
    families.sort(key=lambda each: (not each.engine, -int((trace.end[each.rows] - trace.start[each.rows]).sum())))
    candidates: dict[str, tuple[bool, float, StepCandidate]] = {}
    for family in families[:_MAX_CANDIDATES]:
        name = os.path.commonprefix([trace.strings.label(code) for code in family.codes])  # noqa: RUF071 - by characters
        steps = steps_named(trace, name) if name.strip() and name not in candidates else None
        if steps is not None and len(steps[0]) > 1:
            share = union(*steps[1]).length / max(end - begin, 1)
            candidates[name] = not family.engine, -share, StepCandidate(name, len(steps[0]), share)
    return tuple(each for *_, each in sorted(candidates.values(), key=lambda entry: entry[:2]))


def steps_named(trace: Trace, name: str) -> NumberedSteps | None:
    """The steps that annotations of this name are, or those whose names begin with it."""
    rows = np.flatnonzero(any_of(trace.kind, RANGE_KINDS)[: trace.recorded])
    codes = np.unique(trace.name[rows]).tolist()
    same = [code for code in codes if trace.strings.label(code) == name]
    same = same or [code for code in codes if trace.strings.label(code).startswith(name)]
    rows = rows[np.isin(trace.name[rows], same)]
    if not len(rows):
        return None
    _, host = disjoint_steps(trace, rows, np.arange(len(rows)))
    return np.arange(len(host.start), dtype=np.int64), host


def disjoint_steps(trace: Trace, rows: Int64s, numbers: Int64s) -> NumberedSteps:
    """Rows in order of time, without those that begin inside the one before (another thread's, or nested)."""
    order = np.lexsort((-trace.end[rows], trace.start[rows]))
    kept: list[int] = []
    until = None
    for place in order.tolist():
        row = rows[place]
        if until is None or trace.start[row] >= until:
            kept.append(place)
            until = max(int(trace.end[row]), int(trace.start[row]))
    chosen = rows[kept]
    return numbers[kept], Intervals(trace.start[chosen], np.maximum(trace.end[chosen], trace.start[chosen]))


def propose_steps(trace: Trace, work: DeviceWork) -> tuple[NumberedSteps, Basis, Note]:
    """The steps that are proposed, what they rest on, and the note about them."""
    window = host_window(trace, work)
    named = _of_engine(trace)
    if named is not None:
        host, source = named
        count = len(host.start)
        which = f"The {count} steps are" if count > 1 else "The only step is one of"
        return (np.arange(count, dtype=np.int64), host), "engine", Note("STEPS_OF_ENGINE", f"{which} {source}.")
    proposal = (
        _repeated_annotation(trace, window)
        or _optimizer_boundaries(trace, window)
        or (_repeated_kernels(trace, work) if len(work) else _repeated_operators(trace))
    )
    if proposal is not None:
        host, why = proposal
        number = np.arange(len(host.start), dtype=np.int64)
        said = f"No steps were marked; {len(number)} are proposed from {why}."
        return (number, host), "repetition", Note("STEPS_PROPOSED", said)
    one = Intervals(np.array([window[0]], np.int64), np.array([window[1]], np.int64))
    note = Note(
        "STEPS_NOT_FOUND", "No steps were marked, and nothing repeats as steps do: the whole window counts as one."
    )
    return (np.zeros(1, np.int64), one), "window", note


def host_window(trace: Trace, work: DeviceWork) -> tuple[int, int]:
    """From the first to the last instant of host calls; of device work where there are none."""
    rows = call_tree(trace).order
    if len(rows):
        return int(trace.start[rows].min()), int(trace.end[rows].max())
    return (int(work.start.min()), int(work.end.max())) if len(work) else (0, 0)


@derived
def _families(trace: Trace) -> tuple[_Family, ...]:
    """Annotations that may be steps by their names."""
    rows = np.flatnonzero(((trace.kind == EventKind.ANNOTATION) & (call_tree(trace).depth >= 0))[: trace.recorded])
    codes, place = np.unique(trace.name[rows], return_inverse=True)
    members: dict[str, list[int]] = {}
    number = np.full(len(codes), -1)
    for at, name in enumerate(trace.strings.labels(codes.tolist())):
        if not name.startswith((*_PARTS, STEP)):
            family = members.setdefault(_family(name), [])
            number[at] = number[family[0]] if family else len(members) - 1
            family.append(at)
    from kinetoscope.model.execution.engines import engine_of

    of_row = number[place]
    order = np.argsort(of_row, kind="stable")
    bounds = np.searchsorted(of_row[order], np.arange(len(members) + 1))
    families = []
    for (name, places), low, high in zip(members.items(), bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        names = trace.strings.labels(codes[places].tolist())
        engines = {each.name if (each := engine_of(name)) else "" for name in names}
        engine = engines.pop() if len(engines) == 1 else ""
        families.append(_Family(name, tuple(codes[places].tolist()), rows[order[low:high]], engine))
    return tuple(families)


def _family(name: str) -> str:
    """A name without its numbers: `step[DECODE bs=32]` is `step[…]`, `iteration 7` is `iteration #`."""
    name = name[:_MAX_NAME_LENGTH]
    while (shorter := _BRACKETS.sub(_emptied, name)) != name:
        name = shorter
    return _DIGITS.sub("#", name)


def _emptied(brackets: re.Match[str]) -> str:
    text = brackets[0]
    return f"{text[0]}…{text[-1]}" if "…" in text or _DIGITS.search(text) else text


def _of_engine(trace: Trace) -> Proposal | None:
    """The steps of an engine; of several engines (or a patched one) those that cover most."""
    from kinetoscope.model.execution.engines import ENGINES, PATCHED_ENGINE

    best: tuple[int, Intervals, str] | None = None
    named = ""
    for engine in (each.name for each in ENGINES if each.beginning):
        families = [family for family in _families(trace) if family.engine == engine]
        rows = np.concatenate([np.empty(0, np.int64), *(family.rows for family in families)])
        _, host = disjoint_steps(trace, rows, np.zeros(len(rows), np.int64))
        covered = int((host.end - host.start).sum())
        if len(host.start):
            named = engine if named in ("", PATCHED_ENGINE) else named
            best = (covered, host, families[0].name) if best is None or covered > best[0] else best
    return (best[1], f"those that {named} named, {best[2]!r}") if best else _of_frames(trace)


def _of_frames(trace: Trace) -> Proposal | None:
    """The Python calls of an engine that are a step, where it named none."""
    from kinetoscope.model.execution.engines import ENGINES

    for engine in ENGINES:
        if engine.frames is None or not trace.strings.holding(engine.folders).any():
            continue
        frames = engine.frames
        rows = np.flatnonzero(
            rows_named(
                trace,
                lambda name: len(name) <= _MAX_NAME_LENGTH and frames.match(name) is not None,  # noqa: B023
                EventKind.PYTHON,
                holding=engine.folders,
            )
        )
        _, host = disjoint_steps(trace, rows, np.zeros(len(rows), np.int64))
        if len(host.start) > 1:
            call = trace.strings.label(int(trace.name[rows[0]])).rpartition(": ")[2]
            return host, f"the Python calls of {engine.name}'s {call}"
    return None


def _is_typical(pieces: Int64s, window: int) -> bool:
    """True if the number of pieces times their median length is most of the window; one long piece is not enough."""
    return len(pieces) >= _MIN_REPETITIONS and len(pieces) * float(np.median(pieces)) >= _COVERAGE * window


def _repeated_annotation(trace: Trace, window: tuple[int, int]) -> Proposal | None:
    """Steps of the annotation that covers most: names may differ in numbers, and the first may warm up."""
    whole = window[1] - window[0]
    best: tuple[int, Intervals, str] | None = None
    for family in _families(trace):
        if len(family.rows) < _MIN_REPETITIONS:
            continue
        _, host = disjoint_steps(trace, family.rows, np.zeros(len(family.rows), np.int64))
        pieces = host.end - host.start
        covered = int(pieces.sum())
        typical = _is_typical(pieces, whole) or _is_typical(pieces[1:], whole - int(pieces[0]))
        if typical and (best is None or covered > best[0]):
            best = covered, host, family.name
    return (best[1], f"the annotation {best[2]!r}") if best else None


def _optimizer_boundaries(trace: Trace, window: tuple[int, int]) -> Proposal | None:
    """Steps end where the optimizer's do."""
    rows = np.flatnonzero(is_optimizer_range(trace, OPTIMIZER_STEP)[: trace.recorded])
    codes, counts = np.unique(trace.name[rows], return_counts=True)
    codes, counts = codes[counts >= _MIN_REPETITIONS], counts[counts >= _MIN_REPETITIONS]
    if not len(codes):
        return None
    # Of several optimizers the one that steps least often: the others may step several times in an iteration.
    rows = rows[trace.name[rows] == codes[counts.argmin()]]
    _, host = disjoint_steps(trace, rows, np.zeros(len(rows), np.int64))
    start = np.concatenate([[min(window[0], int(host.start[0]))], host.end[:-1]]).astype(np.int64)
    return Intervals(start, host.end.copy()), "the ends of Optimizer.step"


def _repeated_kernels(trace: Trace, work: DeviceWork) -> Proposal | None:
    """Steps between the launches of a kernel that divides the launches into equal sequences of names."""
    launched = np.flatnonzero(work.launch >= 0)
    launched = launched[np.argsort(trace.start[work.launch[launched]], kind="stable")]
    names = trace.name[work.rows[launched]]
    for places in dividers(names, _MIN_LAUNCHES):
        sequences = [names[a:b].tobytes() for a, b in pairwise(places.tolist())]
        most = max(Counter(sequences).values())
        times = trace.start[work.launch[launched[places]]]
        apart = bool((np.diff(times) > 0).all())  # not several times in one graph
        is_regular = most >= _EQUAL_SHARE * len(sequences) and places[-1] - places[0] >= _COVERAGE * len(names)
        if apart and is_regular and _is_typical(np.diff(times), int(times[-1] - times[0])):
            return Intervals(times[:-1], times[1:]), "a sequence of kernel launches that repeats"
    return None


def _repeated_operators(trace: Trace) -> Proposal | None:
    """Steps between the operators of a kind, where the outermost operators of the main thread repeat exactly.

    What repeats within one call of a module are its layers.
    """
    rows = np.flatnonzero(outermost_ops(trace) & (trace.track == main_thread(trace)))
    rows = rows[np.argsort(trace.start[rows], kind="stable")]
    names = trace.name[rows]
    if len(rows) < _MIN_OPERATORS:
        return None
    for places in dividers(names, 2):
        period = int(places[-1] - places[-2])
        last = np.flatnonzero(names[period:] != names[:-period]).max(initial=-1) + 1  # from here on all repeat
        count = (len(rows) - last) // period
        first = len(rows) - count * period
        repeats = count * period >= max(_PERIODIC_SHARE * len(rows), _MIN_OPERATORS) and count >= _MIN_REPETITIONS
        if not repeats:
            continue
        begins = rows[first::period]
        start = trace.start[begins]
        end = np.append(start[1:], trace.end[rows[first:]].max())
        if _is_typical(end - start, int(end[-1] - start[0])) and not _in_one_module(trace, begins):
            return Intervals(start, end), "a sequence of operators that repeats"
    return None


def _in_one_module(trace: Trace, rows: Int64s) -> bool:
    """True if calls, in order of time, are made by one call of a module, or two of them are."""
    around, parent = enclosing_module(trace)[rows], call_tree(trace).parent
    while (inner := (around >= 0) & (enclosing_module(trace)[parent[around]] >= 0) & (parent[around] >= 0)).any():
        around = np.where(inner, enclosing_module(trace)[parent[around]], around)
    return bool(((around[1:] >= 0) & (around[1:] == around[:-1])).any())


def dividers(codes: Int32s, min_length: int) -> Iterator[Int64s]:
    """The places of each code that divides a sequence as steps do, the rarest first.

    Such a code occurs three times or more, and there are at least `min_length` codes to each occurrence but one.
    """
    order = np.argsort(codes, kind="stable")
    _, first, counts = np.unique(codes[order], return_index=True, return_counts=True)
    for each in np.argsort(counts, kind="stable").tolist():
        count = int(counts[each])
        if (count - 1) * min_length > len(codes):
            break
        if count >= _MIN_REPETITIONS:
            yield order[first[each] : first[each] + count]
