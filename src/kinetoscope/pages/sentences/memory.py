"""What a memory snapshot says, in sentences: why memory ran out, the peak and its owners, fragmentation, growth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import polars as pl

from kinetoscope.analyses import asked, named
from kinetoscope.analyses.memory_oom import MAX_SENTENCES, failure_in_short
from kinetoscope.analyses.memory_peak import APART
from kinetoscope.analyses.memory_what_if import GROWING_SEGMENTS, what_if_sentences
from kinetoscope.model.analysis import Question
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import Selection
from kinetoscope.schema import Result
from kinetoscope.views.numbers import shown
from kinetoscope.views.sentences import EMPTY, Quantity, Sentence, cell, greatest, join, note_of, say, total
from kinetoscope.views.text import brief, printable

_NAMED_OWNERS: Final = 3
"""Categories that are named, those that have most at the peak."""

_NAME_CELLS: Final = 60

_UNUSED_SHARE: Final = 0.1
"""Share of what is reserved that is free at the peak, from which on the history is replayed with growing segments."""

_UNUSED: Final = {
    "inactive_split": "free between blocks in use",
    "releasable": "cached in unused segments",
    "private": "free in pools of CUDA graphs",
    "pending": "waiting to be freed",
}
"""What is reserved at the peak without being in use, by the columns of `memory_fragmentation`."""


PEAK, OOM, CURVE, GROWTH = "peak of use", "memory_oom of use", "memory_curve of use", "memory_growth of use"
"""Names of the questions of `memory_questions`."""


def memory_questions(select: Selection) -> dict[str, Question]:
    """The questions that `memory_sentences` needs the answers to."""
    return {
        PEAK: asked("memory_peak", select=select, group_by="use"),
        OOM: asked("memory_oom", select=select),
        CURVE: asked("memory_curve", select=select),
        GROWTH: asked("memory_growth", select=select),
    }


def memory_sentences(
    job: Job,
    select: Selection,
    answers: Mapping[str, Result],
    device: str = "",
    *,
    replays: bool = True,
    whole: bool = False,
) -> tuple[Sentence, ...]:
    """The sentences about a device, what matters most first; of the fullest of all ranks where none is named.

    Empty where nothing is known of the device's memory. Without `replays` nothing is said of other settings; `whole`
    says of a request that failed all that is known.
    """
    peak = answers[PEAK].frame
    place = fullest(peak.filter(device=device) if device else peak)
    return tuple(_sentences(job, select, answers, place, replays, whole)) if place else ()


def fullest(peak: pl.DataFrame) -> dict[str, Any]:
    """Rank and device of the rows of `memory_peak` with most in use at the peak, of the first of several; {}: none."""
    if not peak.height:
        return {}
    totals = peak.group_by("rank", "device", maintain_order=True).agg(pl.col("size").sum())
    return totals.sort("size", descending=True, maintain_order=True).select("rank", "device").row(0, named=True)


def growth_sentence(growth: Result, device: str, rank: int | None = None) -> Sentence:
    """Whether memory of a device grows from step to step; "" where that was not asked of it. Rank None: the first."""
    here = (pl.col("device") == device) & (pl.col("kind") == "device")
    rows = growth.frame.filter(here if rank is None else here & (pl.col("rank") == rank))
    if not rows.height:
        return EMPTY
    verdict, of = rows.select("verdict", "rank").row(0)
    if verdict == "leak":
        per_step = greatest(growth, "per_step", here, rank=of, verdict=verdict)
        return say("It grows by {per_step} a step: a leak.", per_step=per_step)
    if verdict == "no growth":
        return say("It does not grow from step to step.")
    if verdict == "unclear":
        return say("Whether it grows from step to step is not clear.")
    return say("There are too few steps to tell whether it grows.")


def _sentences(
    job: Job, select: Selection, answers: Mapping[str, Result], of: dict[str, Any], replays: bool, whole: bool
) -> Iterator[Sentence]:
    peak, failed, curve, growth = (answers[name] for name in (PEAK, OOM, CURVE, GROWTH))
    has_failed = failed.frame.filter(**of).height > 0
    if has_failed:
        yield from _failure(failed, of["device"], whole)
    for apart in [note for note in peak.notes if note.code == APART.code][:1]:
        yield say("{note}", note=note_of(peak, apart))
    above = pl.col("requested") > pl.col("reserved")
    is_wrong = curve.frame.filter(above, **of).height > 0
    if is_wrong:
        yield say(
            "The memory snapshot contradicts itself: up to {requested} are in use on {device} where at most {reserved}"
            " are reserved.",
            device=_device(peak, of),
            **{name: greatest(curve, name, above, **of) for name in ("requested", "reserved")},
        )
    time = peak.frame.filter(**of).get_column("time")[0]
    yield _peak(job, peak, of)
    if time is not None and time >= 0 and not is_wrong:
        pools = named("memory_fragmentation")(job, select=select, at=time)
        yield from _fragmentation(pools, of)
        if replays and (has_failed or _unused_share(pools.frame.filter(**of)) >= _UNUSED_SHARE):
            yield from what_if_sentences(named("memory_what_if")(job, select=select, conf=GROWING_SEGMENTS), **of)
    yield from filter(None, [growth_sentence(growth, of["device"], of["rank"])])
    yield from _leak(growth, of)


def _failure(failed: Result, device: str, whole: bool) -> Iterator[Sentence]:
    """The note of the first request that failed, all of it or its first sentence."""
    requests = failed.frame.filter(kind="request", device=device).tail(MAX_SENTENCES)
    for note in [note for note in failed.notes if (note.code, note.about) == ("REQUEST_FAILED", device)][:1]:
        said = note if whole else failure_in_short(requests.row(0, named=True))
        yield say("{failure}", failure=note_of(failed, note).words(said))


def _device(peak: Result, of: dict[str, Any]) -> Quantity:
    return greatest(peak, "device", **of)


def _peak(job: Job, peak: Result, of: dict[str, Any]) -> Sentence:
    """`Memory of cuda:0 peaks at 12.4 GB, 6.97 ms into the recording: activation 34.0 GB (…), …`."""
    when, time = EMPTY, peak.frame.filter(**of).get_column("time")[0]
    if time is not None:
        instant = greatest(peak, "time", **of).words(shown(abs(time), "ns"))
        if time >= 0:
            when = say(", {instant} into the recording", instant=instant)
        else:
            when = say(", {instant} before the trace begins", instant=instant)
    of_rank = say(" of rank {rank}", rank=greatest(peak, "rank", **of)) if len(job.ranks) > 1 else EMPTY
    largest = peak.frame.filter(**of).sort("size", descending=True, maintain_order=True)
    names = largest.get_column("name").head(_NAMED_OWNERS).to_list()
    return say(
        "Memory of {device}{of_rank} peaks at {size}{when}: {owners}.",
        device=_device(peak, of),
        of_rank=of_rank,
        size=total(peak, "size", **of),
        when=when,
        owners=join((_owner(peak, {**of, "name": name}) for name in names), ", "),
    )


def _owner(peak: Result, of: dict[str, Any]) -> Sentence:
    """`activation 34.0 GB (24 × 1.30 GB, `model.py:88`)`."""
    words = say("{name} {size}", name=cell(peak, "name", **of), size=cell(peak, "size", **of))
    repeats, each, line = (cell(peak, name, **of) for name in ("repeats", "each", "line"))
    if of["name"] != "activation" or not repeats:
        return words
    if not line:
        return say("{words} ({repeats} × {each})", words=words, repeats=repeats, each=each)
    short = line.words(f"`{brief(printable(str(line.value)), _NAME_CELLS)}`")
    return say("{words} ({repeats} × {each}, {line})", words=words, repeats=repeats, each=each, line=short)


def _unused_share(pools: pl.DataFrame) -> float:
    """Share of what is reserved that lies free between blocks in use, or in segments without any."""
    if not pools.height or pools.get_column("reserved").null_count():
        return 0.0
    reserved, *unused = pools.select(pl.col("reserved", "inactive_split", "releasable").sum()).row(0)
    return float(sum(unused) / max(reserved, 1))


def _fragmentation(pools: Result, of: dict[str, Any]) -> Iterator[Sentence]:
    here = pools.frame.filter(**of)
    if not here.height or here.get_column("reserved").null_count():
        return
    parts = {name: total(pools, name, **of) for name in _UNUSED}
    words = [say("{size} are {what}", size=size, what=_UNUSED[name]) for name, size in parts.items() if size]
    reserved = total(pools, "reserved", **of)
    if words:
        yield say("At the peak {reserved} are reserved: {parts}.", reserved=reserved, parts=join(words, ", "))
    else:
        yield say("At the peak {reserved} are reserved.", reserved=reserved)


def _leak(growth: Result, of: dict[str, Any]) -> Iterator[Sentence]:
    """The stack that keeps most of each step."""
    if not growth.frame.filter(**of, kind="device", verdict="leak").height:
        return
    stacks = growth.frame.filter(pl.col("per_step") > 0, **of, kind="stack")
    if stacks.height:
        most = {"name": stacks.sort("per_step", descending=True, maintain_order=True).get_column("name")[0]}
        name = greatest(growth, "name", **of, kind="stack", **most)
        yield say(
            "{name} keeps {per_step} of it a step.",
            name=name.words(f"`{brief(printable(most['name']), _NAME_CELLS)}`"),
            per_step=greatest(growth, "per_step", **of, kind="stack", **most),
        )
