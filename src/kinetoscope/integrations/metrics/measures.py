"""The numbers that are sent, by one table for all destinations: instruments, and what steps and marks give them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import polars as pl

from kinetoscope.model.history.over_ranks import HOST_PARTS, slowest

NS: Final = 1e9

BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0)
"""Upper bounds of the buckets of histograms, s: steps take from a millisecond to minutes."""


@dataclass(frozen=True, slots=True)
class Measure:
    """An instrument.

    Attributes:
        name: by OpenTelemetry's rules, without the prefix `kinetoscope.`.
        kind: of instrument.
        unit: by UCUM: s, By, or what is counted in braces.
        doc: what it means.
        labels: of its observations, besides the rank.
    """

    name: str
    kind: Literal["histogram", "counter", "gauge"]
    unit: str
    doc: str
    labels: tuple[str, ...] = ()


STEP: Final = Measure("step.duration", "histogram", "s", "Time of a step on its rank's host.")
GAP: Final = Measure("step.gap.duration", "histogram", "s", "Time between the end of a step and the start of the next.")
PART: Final = Measure(
    "step.part.duration", "counter", "s", "Time of steps on the host, by part of the step.", ("part",)
)
STEPS: Final = Measure("steps", "counter", "{step}", "Steps that the rank has ended.")
LAST: Final = Measure("step.last", "gauge", "{step}", "Number of the last step in the run.")
SAMPLES: Final = Measure("samples", "counter", "{sample}", "Samples of the steps.")
USED: Final = Measure("memory.used", "gauge", "By", "Memory of the device's allocator in use.")
RESERVED: Final = Measure("memory.reserved", "gauge", "By", "Memory that the device's allocator holds.")
RESIDENT: Final = Measure("memory.resident", "gauge", "By", "Resident memory of the process.")
PAUSE: Final = Measure("pause.duration", "histogram", "s", "Time of what interrupts steps, by its kind.", ("kind",))

MEASURES: Final = (STEP, GAP, PART, STEPS, LAST, SAMPLES, USED, RESERVED, RESIDENT, PAUSE)

PAUSES: Final = ("collection", "save", "evaluation", "compile")
"""Kinds of marks that are pauses."""

_MEMORY: Final = ((USED, "memory_used"), (RESERVED, "memory_reserved"), (RESIDENT, "resident"))


@dataclass(frozen=True, slots=True)
class Observation:
    """A value of an instrument."""

    measure: Measure
    value: float
    rank: int
    labels: Mapping[str, str]


def observations(steps: pl.DataFrame, marks: pl.DataFrame) -> Iterator[Observation]:
    """The values for the instruments from new rows of `STEPS`, with their `gap`, and of `MARKS`, in their order."""
    for row in steps.iter_rows(named=True):
        yield from _of_step(row)
    for row in marks.filter(pl.col("kind").is_in(PAUSES)).iter_rows(named=True):
        yield Observation(PAUSE, (row["end"] - row["start"]) / NS, row["rank"], {"kind": row["kind"]})


def _of_step(row: Mapping[str, Any]) -> Iterator[Observation]:
    rank, none = row["rank"], dict[str, str]()
    yield Observation(STEP, (row["end"] - row["start"]) / NS, rank, none)
    if row["gap"] is not None:
        yield Observation(GAP, row["gap"] / NS, rank, none)
    for part in HOST_PARTS:
        if row[part] is not None:
            yield Observation(PART, row[part] / NS, rank, {"part": part})
    yield Observation(STEPS, 1, rank, none)
    yield Observation(LAST, row["step"], rank, none)
    if row["samples"] is not None:
        yield Observation(SAMPLES, row["samples"], rank, none)
    for measure, column in _MEMORY:
        if row[column] is not None:
            yield Observation(measure, row[column], rank, none)


@dataclass(frozen=True, slots=True)
class Scalars:
    """The numbers of a step for a tracker of experiments, as its slowest rank had it.

    Attributes:
        step: its number in the run.
        time: its end, ns since 1970.
        values: by name, such as `kinetoscope/step_seconds`.
    """

    step: int
    time: int
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Sent:
    """The numbers that are sent at once.

    Attributes:
        observed: of each rank, for instruments.
        steps: of the run, for trackers.
    """

    observed: Sequence[Observation] = ()
    steps: Sequence[Scalars] = ()


def scalars(steps: pl.DataFrame) -> Iterator[Scalars]:
    """The numbers of each step in rows of `STEPS`, with their `gap`, of all ranks."""
    for row in slowest(steps).iter_rows(named=True):
        times = {"step": row["duration"], "gap": row["gap"], "rank_difference": row["difference"]}
        times.update({part: row[part] for part in HOST_PARTS})
        values = {f"kinetoscope/{name}_seconds": each / NS for name, each in times.items() if each is not None}
        for measure, column in _MEMORY:
            if row[column] is not None:
                values[f"kinetoscope/{measure.name.replace('.', '_')}_bytes"] = float(row[column])
        yield Scalars(row["step"], row["end"], values)
