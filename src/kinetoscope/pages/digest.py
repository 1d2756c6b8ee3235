"""Numbers and sentences that Overview and the summary share, from the analyses that both ask."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from kinetoscope.advisor.recorded import kinds_of_job, what_is_recorded
from kinetoscope.charts import StackedBars
from kinetoscope.model.health.recording_kinds import WITHOUT_DEVICE, RecordingKind
from kinetoscope.notes import Note
from kinetoscope.pages.blocks import BarsBlock, Link
from kinetoscope.pages.sections.tables import named_bars, summed
from kinetoscope.pages.sentences import recorded
from kinetoscope.pages.sentences.device_limits import device_limits
from kinetoscope.pages.sentences.steps import TimePart, headline, largest_loss, what_serves, who_waits
from kinetoscope.schema import Result
from kinetoscope.views.charts.palette import kind_of
from kinetoscope.views.sentences import EMPTY, Quantity, Sentence, different, join, mean

QUESTIONS: dict[str, dict[str, Any]] = {
    "trace_info": {},
    "recording_kinds": {},
    "step_breakdown": {},
    "operators": {},
    "kernels": {"copies": True},
    "roofline": {"by": "step"},
    "serving_summary": {},
}
"""The analyses whose results are needed, and what they are asked."""

QUESTIONS_ACROSS_RANKS: dict[str, dict[str, Any]] = {"stragglers": {}, "rank_balance": {}}
"""Those that tell who waits for whom, where there are several ranks; all ranks are asked at once."""

_WITHOUT_STEP: frozenset[RecordingKind] = frozenset({"graph capture", "collectives only", "sums only"})
_OUT_OF_STEP: frozenset[RecordingKind] = _WITHOUT_STEP | {"warm-up", "cut off"}
"""Kinds of recordings whose time is not that of a step at work: nothing in it is a loss."""

_TOP_ROWS = 4  # rows of a short table; of several ranks one less

LABELS = {
    "computation": "computation",
    "communication": "exposed communication",
    "memory": "exposed copies",
    "runtime": "runtime calls",
    "data_loading": "data loading",
    "host": "host operators",
    "idle": "nothing recorded",
}


PYTHON = "Python and waiting"
"""What is outside of operators and calls where Python's calls were recorded; else nothing is known of it."""


@dataclass(frozen=True, slots=True)
class Digest:
    """Words and numbers that Overview and the summary both show of a run, in the order in which they say it.

    Attributes:
        limits: how far device work is from the limits of the device; empty where nothing tells.
        serving: the steps of a serving engine; empty where there are none.
        ranks: who waits for whom; empty of one rank.
        loss: the largest loss of the average step; empty where there is none.
        tops: short tables of what takes the time.
        damage, health: what is odd about the traces.
    """

    name: str
    facts: tuple[str, ...]
    headline: Sentence
    limits: Sentence
    serving: Sentence
    ranks: Sentence
    loss: Sentence
    parts: tuple[TimePart, ...]
    tops: tuple[BarsBlock, ...]
    damage: tuple[Sentence, ...]
    health: tuple[Note, ...]


def digest(path: str, results: Mapping[str, Result]) -> Digest:
    """The digest of a job.

    Args:
        path: what the user named.
        results: the results of `QUESTIONS`, and of `QUESTIONS_ACROSS_RANKS` where there are several ranks, by name.
    """
    info, steps = results["trace_info"].frame, results["step_breakdown"]
    device, stacks, marked = recorded.has_device_work(info), recorded.has_stacks(info), recorded.has_steps(info)
    parts = average_step(steps, device=device, stacks=stacks)
    serving = what_serves(results["serving_summary"])
    ranks = steps.frame.get_column("rank").n_unique()
    kinds = kinds_of_job(results["recording_kinds"], ranks)
    works = not kinds & _OUT_OF_STEP  # the time is that of a step at work
    return Digest(
        name=recorded.name(info, path),
        facts=recorded.facts(info, steps.frame),
        headline=_headline(
            results["recording_kinds"],
            kinds,
            parts,
            ranks=different(steps, "rank"),
            device=device,
            marked=marked,
            before=recorded.has_work_before(info) and steps.frame.height == ranks,
        ),
        limits=device_limits(results["roofline"], marked=marked, device=device) if works else EMPTY,
        serving=serving,
        ranks=who_waits(results["stragglers"], results["rank_balance"])
        if ranks > 1 and "stragglers" in results and "collectives only" not in kinds
        else EMPTY,
        loss=largest_loss(parts, device=device, stacks=stacks, served=bool(serving)) if works else EMPTY,
        parts=() if kinds & _WITHOUT_STEP else parts,
        tops=tuple(_tops(results, _TOP_ROWS - (ranks > 1), device=device, operators="no operators" not in kinds)),
        damage=recorded.damage(results["trace_info"]),
        health=recorded.health(results["trace_info"]),
    )


def _headline(of_file: Result, kinds: frozenset[RecordingKind], parts: Sequence[TimePart], **facts: Any) -> Sentence:
    """What the file records, where that is no program at work; and where the time of a step goes, where it has one."""
    what = what_is_recorded(of_file)
    if kinds & _WITHOUT_STEP:
        return what
    return join([what, headline(parts, unseen=bool(kinds & WITHOUT_DEVICE), **facts)])


def average_step(steps: Result, *, device: bool = True, stacks: bool = False) -> tuple[TimePart, ...]:
    """The average step by kinds of time, in the order in which instants are charged."""
    facts = steps.chart_facts
    names = facts.parts if isinstance(facts, StackedBars) else ()
    times: dict[str, Quantity] = {}
    for name in names:
        time, kind = mean(steps, name), kind_of(name) or "idle"
        times[kind] = times[kind] + time if kind in times else time
    labels = LABELS if device else LABELS | {"communication": "communication"}  # nothing could hide it
    labels = labels | {"idle": PYTHON} if stacks else labels
    return tuple(TimePart(kind, labels.get(kind, kind), time.number, time) for kind, time in times.items())


# --- what takes the time


def _tops(results: Mapping[str, Result], most: int, *, device: bool, operators: bool) -> Iterator[BarsBlock]:
    calls, kernels = results["operators"].frame, results["kernels"].frame
    if not device:
        yield from _top("Operators by host time", calls, "host_self", most, "host", "operators")
        return
    if operators:
        yield from _top("Operators by device time", calls, "device_self", most, "computation", "operators")
    yield from _top("Kernels and copies", kernels, "total", most, "", "kernels")


def _top(title: str, frame: pl.DataFrame, time: str, most: int, kind: str, view: str) -> Iterator[BarsBlock]:
    """The rows that take most, over all ranks together; `kind`: of all of them, "" if each has its own."""
    total = frame.get_column(time).sum()
    listed = frame.filter(~pl.col("name").str.starts_with("ProfilerStep"))  # what no call explains is no call's
    rows = [
        (name, kind or own, calls, spent, spent / total)
        for name, own, calls, spent in summed(listed, time).select("name", "kind", "calls", time).head(most).rows()
    ]
    bars = named_bars(rows, lambda name: Link(view=view, params={"name": name}))
    if bars:
        yield BarsBlock(title, bars, cumulative=False, width="wide")
