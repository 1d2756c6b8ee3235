"""Overview: what the run is, where a step goes, the largest loss, what each device does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import polars as pl

from kinetoscope.analyses import GROUPS, asked, named
from kinetoscope.charts import StackedBars
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import EVERY_STEP, STEADY_STEPS, Selection
from kinetoscope.pages.blocks import (
    Block,
    Cell,
    ColumnsBlock,
    ElsewhereBlock,
    Fact,
    FactsBlock,
    Link,
    NoteBlock,
    Page,
    Part,
    PartsBlock,
    Stack,
)
from kinetoscope.pages.digest import QUESTIONS, QUESTIONS_ACROSS_RANKS, Digest, digest
from kinetoscope.pages.pictures.roofline import headroom_block
from kinetoscope.pages.sentences.device_limits import without_reasons
from kinetoscope.pages.sentences.hang import hang_if_alone, hang_question
from kinetoscope.pages.sentences.recorded import device_labels, has_steps
from kinetoscope.schema import Result
from kinetoscope.views.charts.palette import kind_of
from kinetoscope.views.sentences import EMPTY, constant, count, different, join, say

_MAX_COLUMNS = 120
"""Columns of steps or ranks; more cannot be distinguished."""

_EVERY_STEP = "step_breakdown of every step"


def page(job: Job, select: Selection, params: Mapping[str, str]) -> Page:
    """The page of where a step goes."""
    del params
    questions = QUESTIONS | (QUESTIONS_ACROSS_RANKS if len(job.ranks) > 1 else {})
    whole = replace(select, steps=None) if select.steps == STEADY_STEPS else select  # a long prefill is no warm-up
    ask = {
        name: asked(name, select=whole if name in GROUPS["Serving"] else select, **params)
        for name, params in questions.items()
    }
    ask["device_utilization"] = asked("device_utilization", select=select)
    if len(job.ranks) == 1:
        every = replace(select, steps=EVERY_STEP) if select.steps == STEADY_STEPS else select
        ask[_EVERY_STEP] = asked("step_breakdown", select=every)
    ask |= hang_question(job, select)
    results = job.ask(ask)
    summary = digest(job.path, results)
    return Page(
        name="overview",
        title="Overview",
        sentence=join([hang_if_alone(results), summary.headline, summary.ranks]),
        facts=(summary.name.rstrip("/").rpartition("/")[2] or summary.name, *summary.facts),
        blocks=tuple(_blocks(job, results, summary)),
        cannot=tuple(dict.fromkeys(summary.health)),
    )


def _blocks(job: Job, results: Mapping[str, Result], summary: Digest) -> Iterator[Block]:
    steps = results["step_breakdown"]
    if len(job.ranks) > 1:  # of one the page says it itself
        yield from (NoteBlock(words) for words in summary.damage)
    if any(part.time for part in summary.parts):
        marked = has_steps(results["trace_info"].frame)
        yield _parts(summary, steps, "Where an average step goes" if marked else "Where the time of the window goes")
    yield from _limits(results["roofline"], summary.limits)
    if summary.serving:
        yield NoteBlock(summary.serving, link=Link("All steps", view="serving"))
    yield ElsewhereBlock("What to change", "findings", note=summary.loss)
    yield from summary.tops
    labels = {part.kind: part.label for part in summary.parts}
    if len(job.ranks) > 1:
        yield _ranks(steps, labels)
    elif summary.parts:
        yield from _steps(results[_EVERY_STEP], labels)
    yield from _devices(job, results["device_utilization"])


_LINKS_OF_KINDS = {
    "computation": Link(view="kernels"),
    "communication": Link(view="distributed"),
    "memory": Link(view="kernels"),
    "runtime": Link(view="idle"),
    "host": Link(view="operators", params={"time": "host_self"}),
    "idle": Link(view="idle"),
}
"""Where more is said of each kind of time."""


def _parts(summary: Digest, steps: Result, title: str) -> PartsBlock:
    meant = _meanings(steps)
    parts = [
        Part(each.kind, each.label.capitalize(), each.time, meant.get(each.kind, ""), _LINKS_OF_KINDS.get(each.kind))
        for each in summary.parts
    ]
    return PartsBlock(title, [part for part in parts if part.value])


def _limits(steps: Result, words: str) -> Iterator[PartsBlock]:
    """What the limits of the device take of its time, and the rest by reason."""
    if words:
        yield headroom_block(steps, link=Link(view="efficiency"), note=without_reasons(words))


def _meanings(steps: Result) -> dict[str, str]:
    """The meaning of each kind of time of a step: the sentences of its columns."""
    facts = steps.chart_facts
    names = facts.parts if isinstance(facts, StackedBars) else ()
    meant: dict[str, str] = {}
    for name in names:
        kind = kind_of(name) or "idle"
        meant[kind] = f"{meant[kind]} {steps.schema[name].doc}" if kind in meant else steps.schema[name].doc
    return meant


def _kinds(steps: Result) -> dict[str, pl.Expr]:
    """The time of each kind in a step."""
    facts = steps.chart_facts
    names = facts.parts if isinstance(facts, StackedBars) else ()
    kinds = dict.fromkeys(kind_of(name) or "idle" for name in names)
    return {
        kind: pl.sum_horizontal(name for name in names if (kind_of(name) or "idle") == kind).alias(kind)
        for kind in kinds
    }


def _columns(
    title: str, labels: Mapping[str, str], kinds: Iterable[str], stacks: Sequence[Stack], note: str = ""
) -> ColumnsBlock:
    parts = [Part(kind, labels.get(kind, kind).capitalize(), 0.0) for kind in kinds]
    return ColumnsBlock(title, parts, stacks, note=note, width="narrow")


def _steps(steps: Result, labels: Mapping[str, str]) -> Iterator[ColumnsBlock]:
    """Each step; what is not averaged is there, too, and marked."""
    if steps.frame.height < 2:
        return
    kinds = _kinds(steps)
    frame = steps.frame.head(_MAX_COLUMNS)
    cycle = pl.col("cycle") if "cycle" in frame.columns else pl.lit(None, pl.Int64).alias("cycle")
    before = pl.col("steady").cum_sum().over(cycle) == 0
    apart = pl.when("steady").then(pl.lit("")).when(before).then(pl.lit("warm-up")).otherwise(pl.lit("empty"))
    rows = frame.select("step", "start", "duration", cycle, apart.alias("apart"), *kinds.values())
    stacks = [
        Stack(str(step), times, Link(view="timeline", time=(start, start + duration), cycle=of), why)
        for step, start, duration, of, why, *times in rows.iter_rows()
    ]
    more = steps.frame.height - frame.height
    every = count(steps)
    some = say(
        "The first {shown} of {every} steps; the others are in the analysis step_breakdown.",
        shown=constant(len(stacks)), every=every,
    ) if more else EMPTY  # fmt: skip
    hatched = say("Hatched steps are not in the average: they warm up, or are empty.")
    note = join([some, hatched if any(stack.apart for stack in stacks) else EMPTY])
    yield _columns("Step by step", labels, kinds, stacks, note)


def _ranks(steps: Result, labels: Mapping[str, str]) -> ColumnsBlock:
    """The average step of each rank."""
    kinds = _kinds(steps)
    means = steps.frame.select("rank", *kinds.values()).group_by("rank").mean().sort("rank")
    stacks = [
        Stack(str(rank), times, Link(view="overview", rank=rank))
        for rank, *times in means.head(_MAX_COLUMNS).iter_rows()
    ]
    more = means.height - len(stacks)
    every = different(steps, "rank")
    note = say("The first {shown} of {every} ranks.", shown=constant(len(stacks)), every=every)
    return _columns("Rank by rank", labels, kinds, stacks, note if more else EMPTY)


# --- devices


_RATES = {
    "utilization": "Utilization",
    "sm_efficiency": "Est. SM efficiency",
    "occupancy": "Est. achieved occupancy",
    "matrix_unit_share": "Computation on matrix units",
}


def _devices(job: Job, used: Result) -> Iterator[FactsBlock]:
    if not used.frame.height:
        return
    devices: Sequence[int] = used.frame.get_column("device").to_list()
    if len(devices) > _MAX_DEVICE_COLUMNS:
        yield _of_many(used)
        return
    facts = [
        Fact(label, [Cell(value, "fraction") for value in used.frame.get_column(name)], used.schema[name].doc)
        for name, label in _RATES.items()
    ]
    facts.extend(_memory(job, devices))
    yield FactsBlock("Devices" if len(devices) > 1 else "Device", facts, _heads(used.frame, device_labels(job)))


_MAX_DEVICE_COLUMNS = 4
"""Devices that have a column each; of more there are the mean and both ends."""


def _heads(used: pl.DataFrame, labels: Mapping[int, str]) -> list[str]:
    """The heading of each device's column, with rank and cycle where there are several."""
    several = [name for name in ("rank", "cycle") if name in used.columns and used.n_unique(name) > 1]
    return [
        " · ".join([*(f"{name} {row[name]}" for name in several), labels.get(row["device"], "device")])
        for row in used.iter_rows(named=True)
    ]


def _of_many(used: Result) -> FactsBlock:
    facts = []
    for name, label in _RATES.items():
        values = used.frame.get_column(name)
        ends = (values.mean(), values.min(), values.max())
        cells = [Cell(end if isinstance(end, float) else None, "fraction") for end in ends]
        facts.append(Fact(label, cells, used.schema[name].doc))
    return FactsBlock(f"{used.frame.height} devices", facts, ("mean", "least", "most"))


def _memory(job: Job, devices: Sequence[int]) -> Iterator[Fact]:
    """The peak of each device over the whole recording, and how much it has."""
    peak = named("memory_peak")(job)
    traces = [name for name in ("rank", "cycle") if name in peak.frame.columns]
    sums = dict(
        peak.frame.group_by(*traces, "device")
        .agg(pl.col("size").sum())
        .group_by("device")
        .agg(pl.col("size").max())
        .select("device", "size")
        .iter_rows()
    )
    known = named("devices")(job).frame
    ordinals = dict(known.drop_nulls("ordinal").select("device", "ordinal").iter_rows())
    names = [next((name for name in sums if name.endswith(f":{ordinals.get(device)}")), None) for device in devices]
    if not any(names):
        return
    cells = [Cell(sums[name], "bytes") if name else Cell() for name in names]
    yield Fact("Peak memory in use", cells, peak.schema["size"].doc)
    sizes = dict(known.select("device", "memory").iter_rows())
    if any(sizes.get(device) for device in devices):
        yield Fact("Memory of the device", [Cell(sizes.get(device), "bytes") for device in devices])
