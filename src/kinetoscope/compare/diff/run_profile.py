"""One run of a comparison: its owners over all ranks and steps, as numbers that stay whole."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Floats, Int64s
from kinetoscope.compare.diff.hardware import OF_RANK, limits_of_rank
from kinetoscope.compare.diff.mean_times import OF_RANK as TIMES_OF_RANK
from kinetoscope.compare.diff.mean_times import times_of_rank
from kinetoscope.compare.diff.programs import Program, program
from kinetoscope.compare.diff.time_ownership import RESULT, Measure, owners_of_rank
from kinetoscope.compare.statistics.whole_series import is_of_history, whole_series
from kinetoscope.model.analysis import Question
from kinetoscope.model.execution.frames import SEPARATOR
from kinetoscope.model.execution.marks import MODULE
from kinetoscope.model.history.rank_series import PARTS
from kinetoscope.model.history.tables import PART_WORDS
from kinetoscope.model.job import CYCLE, Job
from kinetoscope.model.steps.selection import Selection, default_to_steady
from kinetoscope.model.trace.text import listed
from kinetoscope.notes import Note

VARYING_SHAPES: Final = "varying"
"""Shapes that differ from step to step."""


class OwnerKey(NamedTuple):
    """The key of an owner; see `owners.RESULT`."""

    category: str
    kind: str
    name: str
    path: str
    input_shapes: str | None


@dataclass(frozen=True, slots=True)
class Owner:
    """An owner in all steps of all ranks.

    Attributes:
        key: what it is known by.
        calls: how many there were, in all steps of all ranks.
        time: what they own, in all steps of all ranks, ns.
        first: place in the order in which owners first occur.
        steps: the time in each step in which it has any, by the step's place, summed over ranks, ns.
    """

    key: OwnerKey
    calls: int
    time: int
    first: int
    steps: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class RunProfile:
    """A run.

    Attributes:
        path: what the user named.
        ranks: the ranks that answered.
        count: steps of all ranks together: what sums are divided by.
        ranks_of: how many ranks have each step, by its place: int64 [steps].
        owners: the owners, in the order in which they first occur.
        notes: what was left out or assumed.
        limits: device time and limits of operators; see `hardware.OF_RANK`.
        times: calls and time by name; see `mean_times.OF_RANK`.
        program: what tells its program from others.
        is_whole: it is a history: the owners are the parts of its steps, and a step is a block of steps.
        unknown: parts of its steps whose time is not known: it is in the rest of the step.
        measure: the thing whose time is compared.
    """

    path: str
    ranks: tuple[int, ...]
    count: int
    ranks_of: Int64s
    owners: tuple[Owner, ...]
    notes: tuple[Note, ...] = ()
    limits: pl.DataFrame = field(default_factory=OF_RANK.empty)
    times: pl.DataFrame = field(default_factory=TIMES_OF_RANK.empty)
    program: Program | None = None
    is_whole: bool = False
    unknown: frozenset[str] = frozenset()
    measure: Measure = "step"

    @cached_property
    def time(self) -> int:
        """The time of all steps of all ranks, ns."""
        return sum(owner.time for owner in self.owners)

    @property
    def step(self) -> float:
        """The mean step, ns."""
        return self.time / self.count if self.count else 0.0

    @cached_property
    def has_modules(self) -> bool:
        """Do the paths name modules?"""
        return any(MODULE in owner.key.path for owner in self.owners)

    @cached_property
    def has_shapes(self) -> bool:
        """Were shapes recorded?"""
        return any(owner.key.input_shapes is not None for owner in self.owners)

    @cached_property
    def has_device(self) -> bool:
        """Was device work recorded?"""
        return any(owner.key.kind in ("kernel", "memcpy", "memset") for owner in self.owners)

    def values(self, owners: Sequence[Owner]) -> Floats:
        """Time of some owners together in each step, mean over the ranks that have the step, ns: float64 [steps]."""
        total = np.zeros(len(self.ranks_of))
        for owner in owners:
            for place, time in owner.steps.items():
                total[place] += time
        return np.asarray(total / np.maximum(self.ranks_of, 1), np.float64)

    @property
    def steps(self) -> Floats:
        """How long each step is, mean over ranks, ns: float64 [steps]."""
        return self.values(self.owners)

    def without_modules(self) -> RunProfile:
        """The same with paths that leave modules out."""

        def stripped(key: OwnerKey) -> OwnerKey:
            path = SEPARATOR.join(part for part in key.path.split(SEPARATOR) if not part.startswith(MODULE))
            return key._replace(path=path)

        return self._rekeyed(stripped)

    def without_parts(self, parts: Collection[str]) -> RunProfile:
        """The same with the time of these parts of the step in its rest."""
        gone = {_key_of_part(part) for part in parts}
        whole = self._rekeyed(lambda key: _key_of_part("rest") if key in gone else key)
        return replace(whole, owners=tuple(replace(owner, calls=self.count) for owner in whole.owners))

    def _rekeyed(self, key_of: Callable[[OwnerKey], OwnerKey]) -> RunProfile:
        same: dict[OwnerKey, Owner] = {}
        for owner in self.owners:
            key = key_of(owner.key)
            same[key] = together(same[key], owner, key) if key in same else replace(owner, key=key)
        return replace(self, owners=tuple(same.values()))


def run_profile(job: Job, select: Selection) -> RunProfile:
    """The owners of a run: of all ranks and cycles of the profiler together; of a history the parts of its steps.

    Raises: as `whole_series`.
    """
    if is_of_history(job):
        return _of_history(job, select)
    steady = default_to_steady(select)
    answers = job.ask(
        {
            "owners": Question(owners_of_rank, RESULT, steady),
            "limits": Question(limits_of_rank, OF_RANK, steady),
            "times": Question(times_of_rank, TIMES_OF_RANK, steady),
        }
    )
    answer = answers["owners"]
    frame = answer.frame
    if CYCLE.name not in frame.columns:
        frame = frame.with_columns(pl.lit(0, pl.Int64).alias(CYCLE.name))
    traces = frame.group_by("rank", CYCLE.name).agg(pl.col("steps").first()).sort("rank", CYCLE.name)
    offset, ranks_of = _steps(traces)
    keyed = list(OwnerKey._fields)
    summed = frame.group_by(keyed).agg(pl.col("calls", "time").sum(), pl.col("rank", CYCLE.name, "first").first())
    summed = summed.sort("rank", CYCLE.name, "first", *keyed).with_row_index("number")
    times = frame.select(*keyed, CYCLE.name, "places", "times").explode("places", "times").drop_nulls("places")
    times = times.with_columns(
        place=pl.col("places") + pl.col(CYCLE.name).replace_strict(offset, return_dtype=pl.Int64)
    )
    times = times.join(summed.select("number", *keyed), on=keyed, nulls_equal=True)
    steps: dict[int, dict[int, int]] = {}
    for number, place, time in times.group_by("number", "place").agg(pl.col("times").sum()).iter_rows():
        steps.setdefault(number, {})[place] = time
    owners = tuple(
        Owner(OwnerKey(*row[:5]), row[5], row[6], row[7], steps.get(row[7], {}))
        for row in summed.select(*keyed, "calls", "time", pl.col("number").cast(pl.Int64)).iter_rows()
    )
    ranks = tuple(sorted(frame.get_column("rank").unique().to_list()))
    count = int(traces.get_column("steps").sum())
    limits, times = answers["limits"].frame, answers["times"].frame
    joined = tuple(_joined_shapes(owners, count))
    profile = RunProfile(job.path, ranks, count, ranks_of, joined, answer.notes, limits, times, program(job))
    measures = {*frame["measure"]}
    return replace(profile, measure=measures.pop() if len(measures) == 1 else "step")


def _of_history(job: Job, select: Selection) -> RunProfile:
    """The parts of the steps of a whole run as its owners, with a block of steps as a step."""
    series = whole_series(job, select)
    frame = series.frame
    steps, ranks_of = frame["steps"].to_numpy(), np.bincount(frame["place"].to_numpy())
    owners = []
    for place, part in enumerate(PARTS):
        time = frame[part].fill_null(0).to_numpy()
        by_block = np.bincount(frame["place"].to_numpy(), weights=time).round().astype(np.int64)
        whole = round(float((time * steps).sum()))
        if whole:
            owners.append(Owner(_key_of_part(part), int(steps.sum()), whole, place, dict(enumerate(by_block.tolist()))))
    ranks = tuple(frame["rank"].unique().sort().to_list())
    profile = RunProfile(job.path, ranks, int(steps.sum()), ranks_of, tuple(owners), series.notes, is_whole=True)
    return replace(profile, unknown=frozenset(part for part in PARTS if frame[part].null_count() == frame.height))


def _key_of_part(part: str) -> OwnerKey:
    return OwnerKey("data_loading" if part == "data" else part, "part", PART_WORDS[part], "", None)


def _joined_shapes(owners: Sequence[Owner], count: int) -> Iterator[Owner]:
    """The owners; those of one call whose shapes do not occur in every step, as they follow the data, are one."""
    varying: dict[OwnerKey, list[Owner]] = {}
    for owner in owners:
        if owner.calls < count and owner.key.input_shapes is not None:
            varying.setdefault(owner.key._replace(input_shapes=VARYING_SHAPES), []).append(owner)
    joined: dict[OwnerKey, Owner] = {}
    for key, same_call in varying.items():
        if len(same_call) > 1:
            joined[same_call[0].key] = reduce(together, same_call[1:], replace(same_call[0], key=key))
    gone = {owner.key for same_call in varying.values() if len(same_call) > 1 for owner in same_call[1:]}
    for owner in owners:
        if owner.key not in gone:
            yield joined.get(owner.key, owner)


def _steps(traces: pl.DataFrame) -> tuple[dict[int, int], Int64s]:
    """The place of each cycle's first step among all steps, and the number of ranks that have each step."""
    offset: dict[int, int] = {}
    counts: list[Int64s] = []
    for cycle, group in sorted(traces.group_by(CYCLE.name), key=lambda each: each[0]):
        steps = group.get_column("steps").to_numpy()
        offset[int(str(cycle[0]))] = sum(map(len, counts))
        counts.append((steps[:, None] > np.arange(steps.max(initial=0))).sum(axis=0).astype(np.int64))
    return offset, np.concatenate(counts) if counts else np.empty(0, np.int64)


def together(one: Owner, other: Owner, key: OwnerKey | None = None) -> Owner:
    """Two owners as one."""
    steps = dict(one.steps)
    for place, time in other.steps.items():
        steps[place] = steps.get(place, 0) + time
    return Owner(key or one.key, one.calls + other.calls, one.time + other.time, min(one.first, other.first), steps)


def averaged(run: RunProfile) -> Note | None:
    """A note on what the mean is over; None where there is one rank."""
    if len(run.ranks) < 2:
        return None
    return Note("MEANS_OVER_RANKS", f"Times are means over ranks {listed(run.ranks)} of {run.path}.")
