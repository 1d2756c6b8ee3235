"""One run of a program of which steps were timed: what its ranks noted, as one, and how long its typical step took."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

LEADING: Final = 8
"""Steps that are left out: queues of loaders fill, and compilers work in the first ones."""

_BLOCKS: Final = 5
"""Blocks of a run's steps whose means are taken; see `typical`."""

ROUNDING: Final = 1e-5
"""Relative difference of losses up to which another order of sums explains it, in the first step that differs."""


@dataclass(frozen=True, kw_only=True)
class TimedRun:
    """A run.

    Attributes:
        first: from the import of torch to the end of the first step, ns.
        steps: time of each timed step after the first end, of the rank that took longest in all, ns.
        losses: of each step, the first one included, the mean of what `backward` was called on; None where unknown.
        seconds: of the whole run, its start and imports included.
        memory: the most bytes of a rank on its device; of the process where there is none.
        lacked: share of the time in which the stepping thread could have run and had no core.
        samples: samples of all ranks in a step, where a loader's batch says it; None where not.
        ranks: how many ranks took steps.
        by_calls: the steps are calls of a model, not an optimizer's.
        problem: why nothing can be said of it; "" where all went well.
        idle: the problem is that a change was made and was not in force.
        devices: names of the devices that a process may use.
        torch: version of torch.
        changes: of each trial in the process what became of it; see `record.trials.trial.Change.note`.
        remark: what happened besides, such as processes that had to be ended.
    """

    first: int = 0
    steps: tuple[int, ...] = ()
    losses: tuple[float | None, ...] = ()
    seconds: float = 0.0
    memory: int = 0
    lacked: float = 0.0
    samples: float | None = None
    ranks: int = 0
    by_calls: bool = False
    problem: str = ""
    idle: bool = False
    devices: tuple[str, ...] = ()
    torch: str = ""
    changes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    remark: str = ""

    @property
    def counted(self) -> tuple[int, ...]:
        """The steps without the leading ones; of a run with few, at least half of them."""
        return self.steps[min(LEADING, len(self.steps) // 2) :]

    @property
    def typical(self) -> float:
        """The median of the means of five blocks of steps, ns; NaN without steps.

        One burst spoils one block; what comes in every few steps, as batches of several workers do, is in each.
        """
        counted = self.counted
        if not counted:
            return math.nan
        blocks = min(_BLOCKS, len(counted))
        bounds = [len(counted) * at // blocks for at in range(blocks + 1)]
        return statistics.median(statistics.fmean(counted[begin:end]) for begin, end in pairwise(bounds))

    @property
    def start(self) -> float:
        """Time until the first end, and that of the leading steps beyond what as many typical ones take, ns."""
        left_out = len(self.steps) - len(self.counted)
        return self.first + max(sum(self.steps[:left_out]) - left_out * self.typical, 0.0)


def of_notes(notes: Sequence[Mapping[str, Any]], seconds: float, *, least: int) -> TimedRun:
    """The run of which the ranks left these notes; see `record.always_on.timing`. At least so many steps are needed."""
    if not notes:
        return TimedRun(seconds=seconds, problem="no process took a step")
    slowest = max(notes, key=lambda note: note["ends"][-1] - note["ends"][0] if note["ends"] else 0)
    ends = slowest["ends"]
    steps = tuple(end - begin for begin, end in pairwise(ends))
    first = min(notes, key=lambda note: int(note["rank"]))
    problem = "" if len(steps) >= least else f"it took {len(ends)} steps, and {least + 1} are needed"
    idle = "" if problem else next(_idle(first["changes"]), "")
    whole = sum(steps)
    return TimedRun(
        first=int(first.get("first", 0)),
        steps=steps,
        losses=tuple(_mean(step) for step in first["losses"]),
        seconds=seconds,
        memory=max(int(note["device_memory"] or note["memory"]) for note in notes),
        lacked=slowest["lacked"] / whole if whole else 0.0,
        samples=_samples(notes),
        ranks=len(notes),
        by_calls=bool(first.get("by_calls")),
        problem=problem or idle,
        idle=bool(idle),
        devices=tuple(first.get("devices", ())),
        torch=str(first.get("torch", "")),
        changes=first["changes"],
    )


def _idle(changes: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Reasons of changes that were made and were not in force."""
    for name, note in changes.items():
        if note["acts"] and (not note["count"] or note["ineffective"]):
            yield f"{name}: {note['ineffective'] or 'nothing was changed in this run'}"


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _samples(notes: Sequence[Mapping[str, Any]]) -> float | None:
    each = [note.get("samples") for note in notes]
    return float(sum(filter(None, each))) if all(each) else None


@dataclass(frozen=True)
class LossDifference:
    """How the losses of a run differ from those of the baseline.

    Attributes:
        word: equal: to the digit; close: the first step that differs does by no more than rounding explains, or a
            change of precision may; different; unknown: there are none, or the baseline's own runs differ.
        step: the first step that differs, from 1; 0 for none.
        first: relative difference there.
        most: the greatest relative difference of a step.
    """

    word: str
    step: int = 0
    first: float = 0.0
    most: float = 0.0


def loss_difference(base: TimedRun, new: TimedRun, allowed: float = ROUNDING) -> LossDifference:
    """How the losses of `new` differ from those of `base`, step by step; by how much they may, relatively."""
    step, first, most = 0, 0.0, 0.0
    pairs = [
        (number, one, other)
        for number, (one, other) in enumerate(zip(base.losses, new.losses, strict=False), 1)
        if one is not None and other is not None
    ]
    if not pairs:
        return LossDifference("unknown")
    for number, one, other in pairs:
        if one == other or (math.isnan(one) and math.isnan(other)):
            continue
        scale = max(abs(one), abs(other))
        off = abs(one - other) / scale if math.isfinite(one) and math.isfinite(other) else math.inf
        if not step:
            step, first = number, off
        most = max(most, off)
    if not step:
        return LossDifference("equal")
    word = "close" if first <= allowed and math.isfinite(most) else "different"
    return LossDifference(word, step, first, most)
