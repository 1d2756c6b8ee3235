"""What the summary says: a few numbers and sentences, found in the results of the analyses that it asks."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from kinetoscope import dispatch
from kinetoscope.advisor.advice import Advice
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.recorded import kinds_of_job, what_is_recorded
from kinetoscope.model.health.recording_kinds import WITHOUT_DEVICE, RecordingKind
from kinetoscope.pages.sentences import recorded
from kinetoscope.pages.sentences.device_limits import device_limits
from kinetoscope.pages.sentences.snapshot import SnapshotWords
from kinetoscope.pages.sentences.steps import TimePart, headline, largest_loss, what_serves, who_waits
from kinetoscope.schema import Result, Unit
from kinetoscope.views.charts.palette import kind_of
from kinetoscope.views.numbers import grouped, scale
from kinetoscope.views.sentences import (
    EMPTY,
    Quantity,
    Sentence,
    different,
    each,
    greatest,
    join,
    least,
    mean,
    say,
)

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

MAX_CATEGORIES = 8
"""Categories of memory in the short table."""

_OUT_OF_STEP: frozenset[RecordingKind] = frozenset({"graph capture", "warm-up", "cut off"})
"""Kinds of recordings whose time is not that of a step at work: nothing in it is a loss."""

_MAX_CHANGES = 3  # findings
_TOP_ROWS = 4  # rows of a short table
_UNEVEN_STEP_RATIO = 1.15  # a step so much longer than the middle one is named
_SHORT_PATH_CELLS = 32  # cells; a longer path is not repeated in each command
_NOTABLE_STEP_SHARE = 0.05  # share of a step from which something is worth a word

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
class SpreadColumn:
    """A step, or a rank where there are many: its number and its nanoseconds."""

    label: str
    time: float


@dataclass(frozen=True, slots=True)
class Spread:
    """The spread of the steps, or of the ranks."""

    title: str
    kind: str
    columns: tuple[SpreadColumn, ...]
    words: Sentence


@dataclass(frozen=True, slots=True)
class TopRow:
    """A row of a short table: nanoseconds, and the share of the time of all rows of the whole table.

    Of a table of memory: bytes, and no calls.
    """

    name: str
    kind: str
    calls: int | None
    time: float
    share: float

    @property
    def unit(self) -> Unit:
        """Of `time`."""
        return "bytes" if self.calls is None else "ns"

    @property
    def count(self) -> str:
        """The number of calls, in words; "" of memory."""
        return "" if self.calls is None else grouped(self.calls)


@dataclass(frozen=True, slots=True, repr=False)
class Digest:
    """Everything on the screen, in the order of the screen.

    Attributes:
        loss: the largest loss of the average step, as a sentence; "" where there is none.
        memory: sentences on the memory snapshots; none where there are none.
        serving: sentences on the steps of a serving engine; "" where there are none.
        limits: how far device work is from the limits of the device, as a sentence; "" where nothing tells.
        first: the headline of the findings, or where to ask for them; changes: the findings that are worth one.
        advice: all findings; None where the rules were not asked.
    """

    name: str
    facts: tuple[str, ...]
    headline: str
    loss: Sentence
    first: Sentence
    changes: tuple[Finding, ...]
    parts: tuple[TimePart, ...]
    spread: Spread | None
    tops: tuple[tuple[str, tuple[TopRow, ...]], ...]
    health: tuple[tuple[str, Sentence], ...]
    commands: tuple[tuple[str, str], ...]
    ranks: str = ""
    limits: str = ""
    serving: str = ""
    memory: tuple[str, ...] = ()
    damage: tuple[Sentence, ...] = ()
    advice: Advice | None = None

    def __str__(self) -> str:
        return dispatch.text(self)

    def __repr__(self) -> str:
        return f"<Digest of {self.name}: {self.headline}>"

    def _repr_html_(self) -> str:
        return dispatch.html(self)


def digest(
    path: str, results: Mapping[str, Result], advice: Advice | None = None, memory: SnapshotWords | None = None
) -> Digest:
    """The digest of a job.

    Args:
        path: what the user named, for the commands that are proposed.
        results: the results of `QUESTIONS`, and of `QUESTIONS_ACROSS_RANKS` where there are several ranks, by name.
        advice: the findings, where the rules were asked.
        memory: what is said of memory snapshots.
    """
    info, steps = results["trace_info"].frame, results["step_breakdown"]
    device, marked = recorded.has_device_work(info), recorded.has_steps(info)
    stacks = recorded.has_stacks(info)
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
        loss=largest_loss(parts, device=device, stacks=stacks, served=bool(serving)) if works else EMPTY,
        first=_NOT_ASKED if advice is None else advice.first,
        changes=advice.notable[:_MAX_CHANGES] if advice is not None else (),
        parts=() if "graph capture" in kinds else parts,  # it is no step
        spread=None
        if "graph capture" in kinds
        else _of_ranks(steps, parts, marked=marked)
        if ranks > 1
        else _of_steps(steps),
        tops=_tops(results, _TOP_ROWS - (ranks > 1), device=device, operators="no operators" not in kinds),
        health=recorded.health(results["trace_info"]),
        commands=_commands(path, device=device),
        ranks=_waits(results, ranks),
        limits=device_limits(results["roofline"], marked=marked, device=device) if works else EMPTY,
        serving=serving,
        memory=() if memory is None else memory.sentences,
        damage=recorded.damage(results["trace_info"]),
        advice=advice,
    )


def digest_of_memory(digest: Digest, memory: SnapshotWords, path: str) -> Digest:
    """The digest of snapshots that were opened without a trace: nothing but memory is known."""
    total = sum(size for _, size in memory.categories)
    rows = [TopRow(name, "memory", None, size, size / total) for name, size in memory.categories[:MAX_CATEGORIES]]
    findings = digest.advice.findings[:1] if digest.advice is not None else ()  # none has time at stake
    show, quoted = "kinetoscope show", _quoted(path)
    return replace(
        digest,
        facts=(*memory.facts, *digest.facts[-1:]),
        headline=memory.sentences[0],
        memory=memory.sentences[1:],
        loss=EMPTY,
        limits=EMPTY,
        first=join([findings[0].title, "."], "") if findings else EMPTY,
        changes=tuple(findings),
        parts=(),
        spread=None,
        tops=(("In use at the peak", tuple(rows)),),
        commands=(
            (f"{show} memory_peak {quoted}", "who owns the peak"),
            (f"{show} memory_what_if {quoted}", "what other settings would hold"),
            (f"kinetoscope view {quoted}", "memory over time, and the segments at any instant"),
            (f"kinetoscope doctor {quoted}", "the snapshot itself"),
        ),
    )


def _headline(of_file: Result, kinds: frozenset[RecordingKind], parts: Sequence[TimePart], **facts: Any) -> Sentence:
    """What the file records, where that is no program at work; and where the time of a step goes, where it has one."""
    what = what_is_recorded(of_file)
    if "graph capture" in kinds:
        return what
    return join([what, headline(parts, unseen=bool(kinds & WITHOUT_DEVICE), **facts)])


_NOT_ASKED = say("The rules were not asked, because the traces are large: kinetoscope advise asks them.")


def _waits(results: Mapping[str, Result], ranks: int) -> str:
    """The sentence about who waits for whom, as on the page Distributed."""
    if ranks < 2 or not all(name in results for name in QUESTIONS_ACROSS_RANKS):
        return EMPTY
    return who_waits(results["stragglers"], results["rank_balance"])


def average_step(steps: Result, *, device: bool = True, stacks: bool = False) -> tuple[TimePart, ...]:
    """The average step by kinds of time, in the order in which instants are charged."""
    from kinetoscope.charts import StackedBars

    facts = steps.chart_facts
    names = facts.parts if isinstance(facts, StackedBars) else ()
    times: dict[str, Quantity] = {}
    for name in names:
        time, kind = mean(steps, name), kind_of(name) or "idle"
        times[kind] = times[kind] + time if kind in times else time
    labels = LABELS if device else LABELS | {"communication": "communication"}  # nothing could hide it
    labels = labels | {"idle": PYTHON} if stacks else labels
    return tuple(TimePart(kind, labels.get(kind, kind), time.number, time) for kind, time in times.items())


# --- steps and ranks


def _of_steps(steps: Result) -> Spread | None:
    times = steps.frame.get_column("duration").to_list()
    if len(times) < 2:
        return None
    columns = tuple(SpreadColumn(str(step), time) for step, time in steps.frame.select("step", "duration").rows())
    longest = max(columns, key=lambda column: column.time)
    words = _range(least(steps, "duration"), greatest(steps, "duration"))
    if longest.time > _UNEVEN_STEP_RATIO * sorted(times)[len(times) // 2]:
        longest_step = pl.col("duration") == longest.time
        number = each(steps, "step", longest_step).words(longest.label)
        words = say("{range}; step {number} is the longest", range=words, number=number)
    return Spread("Steps", "host", columns, words)


def _of_ranks(steps: Result, parts: Sequence[TimePart], *, marked: bool) -> Spread:
    """Ranks by what tells them apart: who communicates least is the one for whom the others wait."""
    total = sum(part.time for part in parts)
    communicating = next((part.time for part in parts if part.kind == "communication"), 0.0)
    what = "communication" if communicating > _NOTABLE_STEP_SHARE * total else "duration"
    means = steps.frame.group_by("rank").agg(pl.col(what).mean()).sort("rank").rows()
    columns = tuple(SpreadColumn(str(rank), time) for rank, time in means)
    low, high = (end(means, key=lambda row: row[1])[0] for end in (min, max))
    words = _range(mean(steps, what, rank=low), mean(steps, what, rank=high))
    times = dict(means)
    if times[high] <= _UNEVEN_STEP_RATIO * times[low]:
        if what == "duration":
            return Spread(
                "Ranks",
                "host",
                columns,
                say("{what} takes {range}", what="a step" if marked else "the window", range=words),
            )
        return Spread("Ranks", what, columns, say("exposed communication {range}", range=words))
    if what == "duration":
        number = different(steps, "rank", rank=high).words(str(high))
        return Spread("Ranks", "host", columns, say("{range}; rank {rank} takes longest", range=words, rank=number))
    return Spread("Ranks", what, columns, say("exposed communication {range}", range=words))


def _range(low: Quantity, high: Quantity) -> Sentence:
    """`166 – 188 ms`."""
    unit = scale([low.number, high.number], "ns")
    return say("{low} – {high}", low=low.words(unit.text(low.number)), high=high.words(unit.with_unit(high.number)))


# --- what takes the time


def _tops(
    results: Mapping[str, Result], most: int, *, device: bool, operators: bool
) -> tuple[tuple[str, tuple[TopRow, ...]], ...]:
    calls, kernels = results["operators"].frame, results["kernels"].frame
    if not device:
        return (("Operators by host time", _top(calls, "host_self", most)),)
    of_kernels = ("Kernels and copies", _top(kernels, "total", most))
    return (("Operators by device time", _top(calls, "device_self", most)), of_kernels) if operators else (of_kernels,)


def _top(frame: pl.DataFrame, time: str, most: int) -> tuple[TopRow, ...]:
    """The rows that take most, over all ranks together."""
    total = frame.get_column(time).sum()
    listed = frame.filter(~pl.col("name").str.starts_with("ProfilerStep"))  # what no call explains is no call's
    summed = listed.group_by("name").agg(pl.col("kind").first(), pl.col("calls", time).sum())
    rows = summed.filter(pl.col(time) > 0).sort([time, "name"], descending=[True, False]).head(most)
    return tuple(
        TopRow(name, kind_of(kind) or "host", calls, spent, spent / total)
        for name, kind, calls, spent in rows.select("name", "kind", "calls", time).rows()
    )


def _commands(path: str, *, device: bool) -> tuple[tuple[str, str], ...]:
    """Commands to type next, each with its purpose."""
    quoted = _quoted(path)
    show = "kinetoscope show"
    of_host = ((f"{show} operators {quoted}", "all operators"),)
    of_device = (
        (f"{show} idle-breakdown {quoted}", "why the device waits"),
        (f"{show} critical-path {quoted}", "what to speed up"),
    )
    return (
        (f"kinetoscope advise {quoted}", "what to change"),
        *(of_device if device else of_host),
        (show, "all other questions"),
        (f"kinetoscope doctor {quoted}", "the trace itself"),
    )


def _quoted(path: str) -> str:
    quoted = shlex.quote(path)
    return quoted if len(quoted) <= _SHORT_PATH_CELLS else "PATH"
