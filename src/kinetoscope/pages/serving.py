"""Serving: the steps of an engine by kind, their duration against the batch, what the device waits for between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import polars as pl

from kinetoscope.analyses import named
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import Selection
from kinetoscope.pages.blocks import (
    Bar,
    BarsBlock,
    Block,
    Cell,
    ChartBlock,
    Control,
    ControlsBlock,
    Fact,
    FactsBlock,
    Link,
    NoteBlock,
    Page,
    Part,
    PartsBlock,
    TableBlock,
    Width,
    chosen_value,
)
from kinetoscope.pages.pictures.charts import POINTS, Axis, Dot, heat, points
from kinetoscope.pages.sections.tables import first_cycle, with_values
from kinetoscope.pages.sentences.steps import nothing, way_back
from kinetoscope.schema import Result, Unit
from kinetoscope.views.charts.palette import OWNERS
from kinetoscope.views.numbers import grouped, shown
from kinetoscope.views.sentences import Quantity, Sentence, computed, join, say

_UNNAMED: Final = "unnamed"
"""The kind of steps whose names do not say it."""

KINDS: Final = ("decode", "prefill", "mixed", "verify", "draft", "idle", _UNNAMED)
"""Kinds of steps, in the order in which they are shown; each has a colour of its own."""

_PARTS: Final = {
    "attention": ("computation", "Attention", 1.0),
    "gemm": ("computation", "GEMM", 0.8),
    "moe": ("computation", "MoE", 0.62),
    "sampling": ("computation", "Sampling", 0.46),
    "other": ("computation", "Other work", 0.3),
    "communication": ("communication", "Communication", 1.0),
    "device_between": ("memory", "Work between steps", 1.0),
    "device_idle": ("waiting", "Idle inside the step", 0.5),
    "gap": ("waiting", "Gap before the step", 1.0),
}
"""Of the duration of a step, to which they sum: colour, words, how much of the colour each has."""

_CAUSES: Final = {
    "scheduler": "the scheduler",
    "inputs": "the preparation of inputs",
    "synchronization": "synchronization",
    "detokenizing": "detokenizing",
    "launch": "the launch",
    "other": "what was not recorded",
}
"""What the device waits for before a step: the columns `gap_…`."""

_MEDIANS: Final[tuple[tuple[str, str, Unit], ...]] = (
    ("batch", "Requests", ""),
    ("padded_batch", "Requests with padding", ""),
    ("tokens", "Tokens", ""),
    ("context", "Context tokens", ""),
    ("duration", "Duration", "ns"),
    ("device_busy", "Device busy", "ns"),
    ("gap", "Gap before it", "ns"),
    ("wall", "Time on the host", "ns"),
    ("replayed", "Device time replayed as graphs", "fraction"),
    ("acceptance", "Proposed tokens accepted", "fraction"),
    ("decode_delay", "Delay of running decodes", "ns"),
    ("tokens_per_second", "Tokens a second", ""),
)

_EVERY: Final = "all"
_SIZES: Final = {"batch": "requests", "tokens": "tokens", "context": "context tokens"}

_MARGIN_SHARE: Final = 0.1
"""Share of a step that the timeline shows on either side of it."""

_NOTABLE_TIME_SHARE: Final = 0.01
"""Share of the time from which on gaps are worth a word."""

_UNRECORDED_GAP_SHARE: Final = 0.25
"""Share of the gaps from which on it is worth a word that nothing was recorded in it."""

_COLUMNS: Final = (
    "step", "kind", "batch", "padded_batch", "tokens", "context", "duration", "device_busy", "gap", "gap_cause",
    "decode_delay", "replayed", "tokens_per_second",
)  # fmt: skip
_SUMMARY: Final = (
    "kind", "bucket", "steps", "batch", "padded_batch", "duration_median", "duration_p99", "device_busy_median",
    "gap_median", "gap_cause", "replayed", "decode_delay", "acceptance", "imbalance_median", "tokens_per_second",
)  # fmt: skip
"""Columns at first: as many as 1440 px hold; the others can be chosen."""


def page(job: Job, select: Selection, params: Mapping[str, str]) -> Page:
    """The page of the steps of a serving engine; of several ranks the pictures are of the first."""
    result, summary = (named(name)(job, select=select) for name in ("serving_steps", "serving_summary"))
    recorded, result = result, replace(result, frame=result.frame.with_columns(kind=pl.col("kind").fill_null(_UNNAMED)))
    of_first = _of_first(recorded.frame)
    kind = chosen_value(params, "kind", (_EVERY, *KINDS), _EVERY)
    size = chosen_value(params, "size", tuple(_SIZES), "batch")
    blocks = _blocks(result, summary, of_first, kind, size) if of_first.height else _nothing(select)
    notes = tuple(dict.fromkeys((*result.notes, *summary.notes, *_not_recorded(recorded))))
    return Page("serving", "Serving", _sentence(recorded, select), _facts(result, of_first), tuple(blocks), notes)


def _of_first(frame: pl.DataFrame) -> pl.DataFrame:
    """The steps of the first cycle of the first rank; one without device work lasts as long as on the host."""
    steps = first_cycle(frame.with_columns(kind=pl.col("kind").fill_null(_UNNAMED)))
    steps = steps.with_columns(duration=pl.coalesce("duration", "wall"))
    return steps.filter(pl.col("rank") == pl.col("rank").min())


def _sum_of(result: Result, column: str) -> Quantity:
    """The sum of a column over the steps of the first rank."""
    return computed(result, lambda frame: _total(_of_first(frame), column), result.schema[column].unit)


def _not_recorded(result: Result) -> Iterator[Sentence]:
    """How to record what the host does before steps, where much of it was not."""
    gap, other = _sum_of(result, "gap"), _sum_of(result, "gap_other")
    if gap and other.number >= _UNRECORDED_GAP_SHARE * gap.number:
        yield say(
            "What the host did in {share} of the time before steps was not recorded: stacks record the engine's Python "
            "calls (`torch_profiler_with_stack` of vLLM, `with_stack` of SGLang), and "
            "`VLLM_CUSTOM_SCOPES_FOR_PROFILING=1` vLLM's own ranges.",
            share=other / gap,
        )


def _nothing(select: Selection) -> Iterator[Block]:
    yield NoteBlock(
        say(
            "Steps are read from the names that engines give to their ranges: `execute_…` (vLLM), `step[…]` (SGLang), "
            "`prefill[…]` and `decode[…]` (ATOM), `_forward_step` (TensorRT-LLM). Without names they are read from the "
            "repetition of kernels."
        )
    )
    yield from way_back(select)


def _present(steps: pl.DataFrame) -> list[str]:
    kinds = set(steps["kind"])
    return [kind for kind in KINDS if kind in kinds]


def _of_kind(steps: pl.DataFrame, kind: str) -> pl.DataFrame:
    return steps if kind == _EVERY else steps.filter(pl.col("kind") == kind)


def _total(steps: pl.DataFrame, column: str) -> int:
    return int(steps[column].sum() or 0)


def _median(steps: pl.DataFrame, column: str) -> float | None:
    value = steps[column].drop_nulls().median()
    return float(value) if isinstance(value, (int, float)) else None


def _steps(count: int, kind: str = "") -> str:
    return f"{grouped(count)} {_before_step(kind)}step{'s' * (count != 1)}"


def _before_step(kind: str) -> str:
    """The word before `step`, with a space; a step without a kind is just one."""
    return "" if kind in ("", _EVERY, _UNNAMED) else f"{kind} "


def _sentence(result: Result, select: Selection) -> Sentence:
    steps = _of_first(result.frame)
    if not steps.height:
        return nothing("step of a serving engine", select)
    kinds = join([_of_one_kind(result, kind) for kind in _present(steps)], ", ")
    causes = {cause: _sum_of(result, f"gap_{cause}") for cause in _CAUSES}
    cause = max(causes, key=lambda each: causes[each].number)
    gap, whole = _sum_of(result, "gap"), _sum_of(result, "duration")
    if not whole or gap.number < _NOTABLE_TIME_SHARE * whole.number:
        return join([kinds, "."], "")
    return say(
        "{kinds}. Before {them} the device waits {share} of the time, {most} of it for {cause}.",
        kinds=kinds, them="it" if steps.height == 1 else "steps", share=gap / whole, most=causes[cause] / gap,
        cause=_CAUSES[cause],
    )  # fmt: skip


def _of_one_kind(result: Result, kind: str) -> Sentence:
    """`12 decode steps (median 10.7 ms)`."""
    many = computed(result, lambda frame: _of_kind(_of_first(frame), kind).height)
    middle = computed(result, lambda frame: _median(_of_kind(_of_first(frame), kind), "duration"), "ns")
    steps = many.words(_steps(int(many.number), kind))
    if many.number > 1:
        return say("{steps} (median {middle})", steps=steps, middle=middle)
    return say("{steps} ({middle})", steps=steps, middle=middle)


def _facts(result: Result, steps: pl.DataFrame) -> tuple[str, ...]:
    engines = ", ".join(result.frame["engine"].drop_nulls().unique().sort())
    tokens, time = _total(steps, "tokens"), _total(steps, "duration")
    rate = f"{shown(tokens / time * 1e9, '')} tokens/s" if tokens and time else ""
    ranks = result.frame["rank"].unique().sort().to_list()
    of = f"pictures of rank {ranks[0]} of {grouped(len(ranks))}" if len(ranks) > 1 else ""
    return tuple(fact for fact in (engines, rate, of) if fact)


def _blocks(result: Result, summary: Result, every: pl.DataFrame, kind: str, size: str) -> Iterator[Block]:
    kinds = tuple((each, each) for each in (_EVERY, *KINDS) if each in (_EVERY, kind, *_present(every)))
    sizes = tuple((name, words) for name, words in _SIZES.items() if name == size or _total(every, name))
    yield ControlsBlock((Control("kind", "Steps", kind, kinds), Control("size", "Duration against", size, sizes)))
    steps = _of_kind(every, kind)
    if not steps.height:
        yield NoteBlock(say("The selection contains no {kind}step.", kind=_before_step(kind)), width="wide")
    elif steps.height > 1:
        yield _over_time(steps)
    else:
        yield from _average(steps, result, kind)
    yield _by_kind(every, result)
    if steps.height > 1:
        yield from _against(steps, size)
        yield from _average(steps, result, kind)
    yield from _gaps(steps, result)
    yield from _imbalance(result, summary)
    chosen = "" if kind in (_EVERY, _UNNAMED) else f"kind:eq:{kind}"
    columns = with_values(summary.frame, _SUMMARY, always=("kind", "bucket"))
    yield TableBlock("By kind and batch", "serving_summary", columns=columns, filter=chosen)
    columns = with_values(result.frame, _COLUMNS, always=("step", "kind"))
    links = {"row": "row", "start": "start", "end": "end"}
    yield TableBlock("Slowest steps", "serving_steps", columns=columns, sort="-duration", filter=chosen, links=links)


def _link(step: Mapping[str, Any]) -> Link:
    """The step on the timeline, from its start on the host, or that of the gap before it, to the end of its work."""
    end = max(step["start"] + (step["wall"] or 0), step["end"] or 0)
    start = min(step["start"], end - (step["duration"] or 0))
    margin = round(_MARGIN_SHARE * (end - start)) + 1
    return Link(view="timeline", rank=step["rank"], time=(max(start - margin, 0), end + margin))


# --- pictures


def _dots(steps: pl.DataFrame, x: str) -> list[Dot]:
    """A dot for each step, its duration over `x`; the longest of each stretch where there are too many."""
    rows = steps.filter(pl.col(x).is_not_null() & pl.col("duration").is_not_null()).sort(x, "start")
    if rows.height > POINTS:
        stretch = pl.int_range(pl.len()) * POINTS // pl.len()
        rows = rows.group_by(stretch.alias("stretch"), maintain_order=True).agg(pl.all().sort_by("duration").last())
    return [
        Dot(
            row[x],
            row["duration"],
            name=_words(row),
            link=_link(row),
            group=row["kind"],
            owner=KINDS.index(row["kind"]) % len(OWNERS),
        )
        for row in rows.iter_rows(named=True)
    ]


def _words(step: Mapping[str, Any]) -> str:
    """`decode step 12, 30 requests padded to 32, 30 tokens`."""
    batch, padded, tokens = step["batch"], step["padded_batch"], step["tokens"]
    words = f"{_before_step(step['kind'])}step {step['step']}"
    if batch is not None:
        words += f", {grouped(batch)} request{'s' * (batch != 1)}"
        words += f" padded to {grouped(padded)}" if padded is not None and padded != batch else ""
    return words if tokens is None else f"{words}, {grouped(tokens)} token{'s' * (tokens != 1)}"


def _over_time(steps: pl.DataFrame) -> ChartBlock:
    dots = _dots(steps, "start")
    few = "Of each stretch the longest step is drawn. " if len(dots) < steps.height else ""
    note = say("{few}A click shows the step on the timeline.", few=few)
    return points(
        "Steps over time", dots, Axis("start", "ns", zero=False), _DURATION, height=300, note=note, width="wide"
    )


_DURATION: Final = Axis("duration", "ns")


def _against(steps: pl.DataFrame, size: str) -> Iterator[ChartBlock]:
    """How the duration grows with the batch."""
    if dots := _dots(steps, size):
        usual = _usual_kind(steps)
        medians = _of_kind(steps, usual).drop_nulls([size, "duration"]).group_by(size).agg(pl.col("duration").median())
        best = [Dot(at, time) for at, time in medians.sort(size).rows()] if medians.height > 1 else []
        of = f"of {usual} steps: where it is flat, more {_SIZES[size]} in a step cost next to no time."
        axis = Axis(_SIZES[size], zero=medians.height < 2, whole=True)
        note = f"The line joins the medians {of}" if best else ""
        yield points(f"Duration against {_SIZES[size]}", dots, axis, _DURATION, best=best, note=note)


def _usual_kind(steps: pl.DataFrame) -> str:
    return max(_present(steps), key=lambda kind: _of_kind(steps, kind).height)


def _average(steps: pl.DataFrame, result: Result, kind: str) -> Iterator[PartsBlock]:
    """The average duration as a sum of its parts."""
    parts = [
        Part(colour, words, _total(steps, name) / steps.height, result.schema[name].doc, shade=shade)
        for name, (colour, words, shade) in _PARTS.items()
    ]
    if parts := [part for part in parts if part.value > 0]:
        width: Width = "full" if steps.height > 1 else "wide"
        yield PartsBlock(
            f"{'An average' if steps.height > 1 else 'The'} {_before_step(kind)}step on the device", parts, width=width
        )


def _gaps(steps: pl.DataFrame, result: Result) -> Iterator[BarsBlock]:
    """What the device waits for before steps, and where it waits longest."""
    times = {cause: _total(steps, f"gap_{cause}") for cause in _CAUSES}
    whole = sum(times.values())
    bars = []
    for cause, time in sorted(times.items(), key=lambda each: -each[1]):
        if time:
            column = f"gap_{cause}"
            longest = steps.sort(column, descending=True, nulls_last=True).row(0, named=True)
            count = int((steps[column] > 0).sum())
            detail = f"before {_steps(count)}, at most {shown(longest[column], 'ns')}"
            words = _CAUSES[cause].removeprefix("the ").capitalize()
            bars.append(Bar(words, "waiting", time, time / whole, detail, _link(longest)))
    if bars:
        title = "What the device waits for before steps"
        yield BarsBlock(title, bars, note=f"{result.schema['gap'].doc} A click shows the longest.", cumulative=False)


def _by_kind(steps: pl.DataFrame, result: Result) -> FactsBlock:
    """The median step of each kind."""
    kinds = _present(steps)
    facts = [Fact("Steps", [Cell(_of_kind(steps, kind).height) for kind in kinds])]
    for name, label, unit in _MEDIANS:
        cells = [Cell(_median(_of_kind(steps, kind), name), unit) for kind in kinds]
        if any(cell.value is not None for cell in cells):
            facts.append(Fact(label, cells, result.schema[name].doc))
    return FactsBlock("The median step of each kind", facts, kinds)


def _imbalance(result: Result, summary: Result) -> Iterator[Block]:
    """In which steps each rank waited for the slowest, and in how many the others waited for it."""
    steps = first_cycle(result.frame).filter(pl.col("rank_waiting").is_not_null())
    if not steps["rank_waiting"].sum():
        return
    ranks = steps["rank"].unique().sort().to_list()[:_MAX_RANKS]
    numbers = steps["step"].unique().sort().to_list()[:_MAX_STEPS]
    cells = {(row["rank"], row["step"]): row for row in steps.iter_rows(named=True)}
    rows = [[cells.get((rank, step)) for step in numbers] for rank in ranks]
    yield heat(
        "Waiting of each rank for the slowest of the step",
        [str(rank) for rank in ranks],
        [str(step) for step in numbers],
        [[row["rank_waiting"] if row else None for row in each] for each in rows],
        axes=("rank", "step"),
        unit="ns",
        kind="waiting",
        links=[[_link(row) if row else None for row in each] for each in rows],
        note=result.schema["rank_waiting"].doc,
    )
    sums = summary.frame.group_by("rank").agg(pl.col("slowest", "steps").sum()).sort("slowest", descending=True)
    if total := sums["slowest"].sum():
        bars = [
            Bar(f"rank {rank}", "waiting", slowest, slowest / total, f"of {_steps(count)}", Link(rank=rank))
            for rank, slowest, count in sums.filter(pl.col("slowest") > 0).rows()[:_MAX_RANKS]
        ]
        yield BarsBlock("Steps in which a rank is the slowest", bars, "", note=summary.schema["slowest"].doc)


_MAX_RANKS: Final = 32
"""Ranks that are drawn."""

_MAX_STEPS: Final = 120
"""Steps that are drawn beside one another."""
