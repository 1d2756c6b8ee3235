"""Sentences of pages and of the summary: where a step goes, its largest loss, who waits for whom, what is missing.

They are the same for all runs; what to change is said by the rules of `advise`, which look closer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Final

import polars as pl

from kinetoscope.model.steps.selection import Selection
from kinetoscope.schema import Result
from kinetoscope.views.sentences import (
    EMPTY,
    Quantity,
    Sentence,
    cell,
    constant,
    count,
    join,
    least,
    measured,
    say,
    total,
)

if TYPE_CHECKING:
    from kinetoscope.pages.blocks import NoteBlock

_SMALL_LOSS_SHARE = 0.05  # a loss under this share of the step is not worth a word


@dataclass(frozen=True, slots=True)
class TimePart:
    """A kind of time in the average step: its colour, its words, nanoseconds, and the cells that these follow from."""

    kind: str
    label: str
    time: float
    cells: Quantity | None = None

    @property
    def quantity(self) -> Quantity:
        """Its time in a sentence."""
        return self.cells if self.cells is not None else measured(self.time, "ns")


def _whole(parts: Sequence[TimePart]) -> Quantity:
    """The time of all parts together."""
    return reduce(add, (part.quantity for part in parts)) if parts else measured(0.0, "ns")


_DEVICE = {
    "communication": "no computation hides these collectives",
    "memory": "no computation hides these copies",
    "runtime": "the host launches work or waits for the device, which runs nothing meanwhile",
    "data_loading": "the device waits for the next batch",
    "host": "the host runs operators while the device has nothing to do",
    "idle": "nothing was recorded then; with_stack=True records Python",
}

_HOST = _DEVICE | {
    "communication": "the host waits in collectives",
    "data_loading": "the step waits for the next batch",
    "runtime": "the host is in calls of a device's runtime, but no work of a device was recorded",
}

_STACKS = {"idle": "the host runs Python outside of operators, or waits"}


def headline(
    parts: Sequence[TimePart],
    *,
    ranks: Quantity | int,
    device: bool,
    marked: bool,
    before: bool = False,
    unseen: bool = False,
) -> Sentence:
    """A sentence about where the average step goes.

    Args:
        parts: the average step.
        ranks: how many ranks it is the mean of.
        device: whether device work was recorded.
        marked: whether there are steps, marked or proposed; if not, the whole window is one.
        before: whether work from before the recording was left out of the only step.
        unseen: whether devices may have worked, though no work was recorded.
    """
    total = _whole(parts)
    if not total:
        return say("There is no time to account for: the trace has neither steps nor work.")
    if marked and before:
        step = say("After work from before the recording, the step takes {time}", time=total)
    elif marked:
        step = say("A step takes {time}", time=total)
    elif before:
        step = say("After work from before the recording, the window is {time} long", time=total)
    else:
        step = say("The window is {time} long", time=total)
    count = ranks if isinstance(ranks, Quantity) else measured(ranks)
    across = say(" on average over {ranks} ranks", ranks=count) if float(count) > 1 else EMPTY
    if unseen and not device:
        return say("{step}{across}; what devices did is not known.", step=step, across=across)
    if not device:
        return say("{step}{across}; no device work was recorded, so this is the host's time.", step=step, across=across)
    computing = next((part.quantity for part in parts if part.kind == "computation"), measured(0.0, "ns"))
    return say(
        "{step}{across}, and the device computes for {share} of it.",
        step=step, across=across, share=computing / total,
    )  # fmt: skip


def largest_loss(parts: Sequence[TimePart], *, device: bool, stacks: bool = False, served: bool = False) -> Sentence:
    """The largest loss of the average step, and what it means.

    Args:
        parts: the average step.
        device: whether device work was recorded; if not, the operators of the host are the work itself.
        stacks: whether Python's calls were recorded.
        served: whether the steps are a serving engine's, whose pauses between them are in none.
    """
    total = _whole(parts)
    work = "computation" if device else "host"
    losses = [part for part in parts if part.kind != work and (device or part.kind != "computation")]
    largest = max(losses, key=lambda part: part.time, default=None)
    if largest is None or not total:
        return EMPTY
    if largest.time < _SMALL_LOSS_SHARE * float(total):
        what = "kernels" if device else "operators"
        limit = constant(_SMALL_LOSS_SHARE, "fraction")
        if served:
            return say(
                "Within steps no loss is larger than {limit}: only faster {what}, or less work, shorten them now.",
                limit=limit, what=what,
            )  # fmt: skip
        return say(
            "No loss is larger than {limit}: only faster {what}, or less work, shorten it now.", limit=limit, what=what
        )
    why = {**(_DEVICE if device else _HOST), **(_STACKS if stacks else {})}[largest.kind]
    return say(
        "The largest loss is {label}, {time} ({share}): {why}.",
        label=largest.label, time=largest.quantity, share=largest.quantity / total, why=why,
    )  # fmt: skip


def who_waits(stragglers: Result, balance: Result) -> Sentence:
    """A sentence about the ranks that the others wait for and why, that there are none, or that nobody can tell."""
    slow = stragglers.frame.filter("straggler").sort("lost", "rank", descending=[True, False])
    if not slow.height and any(note.code == "NO_MATCHED_COLLECTIVES" for note in stragglers.notes):
        return say("Who waits for whom is not known: no collective could be matched across ranks.")
    if not slow.height:
        return _none_is_late(balance)
    worst, cause = slow.select("rank", "cause").row(0)
    who = say("rank {rank}", rank=cell(stragglers, "rank", rank=worst))
    if cause:
        who = say("{who} ({cause})", who=who, cause=cell(stragglers, "cause", rank=worst))
    if slow.height > 1:
        who = say("{count} ranks, most for {who}", count=count(stragglers, straggler=True), who=who)
    return say(
        "The others wait for {who}: {lost} in all, {share} of their steps.",
        who=who,
        lost=total(stragglers, "lost", straggler=True),
        share=total(stragglers, "lost_share", straggler=True),
    )


def _none_is_late(balance: Result) -> Sentence:
    waiting, whole = total(balance, "exposed_waiting"), total(balance, "duration")
    if not waiting or not whole:
        return say("No rank makes the others wait.")
    return say(
        "Ranks wait {share} of the time for one another; no rank is slower than the others.", share=waiting / whole
    )


_GAP_WORDS = {
    "scheduler": "most of it for the scheduler",
    "inputs": "most of it while the host prepares inputs",
    "synchronization": "most of it while the host waits in a synchronizing call",
    "detokenizing": "most of it while the host handles the results of the step before",
    "launch": "most of it for the launch",
    "other": "and nothing recorded says why",
}


def what_serves(summary: Result) -> Sentence:
    """Sentences about the steps of a serving engine, of the first rank that has some; "" where there are none."""
    frame = summary.frame.filter(pl.col("rank") == pl.col("rank").min())
    if not frame["steps"].sum() or frame["kind"].null_count() == frame.height:
        return EMPTY
    return join([_what_ran(summary, frame), _decoding(summary, frame), *_pauses(summary, frame)])


def _what_ran(summary: Result, frame: pl.DataFrame) -> Sentence:
    rank = frame["rank"][0]
    kinds = frame.group_by("kind").agg(pl.col("steps").sum()).sort("steps", "kind", descending=True)["kind"].to_list()
    words = [
        say("{steps} {kind}", steps=total(summary, "steps", rank=rank, kind=kind), kind=kind or "unknown")
        for kind in kinds
    ]
    all_but_last = join(words[:-1], ", ")
    engine = next((each for each in frame["engine"] if each), "The engine")
    where = EMPTY
    if summary.frame["rank"].n_unique() > 1:
        where = say(" on rank {rank}", rank=least(summary, "rank"))
    return say(
        "{engine} ran {kinds} step{s}{where}.",
        engine=engine,
        kinds=join([all_but_last, words[-1]], " and "),
        s="s" * (int(frame["steps"].sum()) > 1),
        where=where,
    )


def _decoding(summary: Result, frame: pl.DataFrame) -> Sentence:
    decode = frame.filter(pl.col("kind").is_in(["decode", "verify"]) & pl.col("duration_median").is_not_null())
    if not decode.height:
        return EMPTY
    row = decode.sort("steps", "batch_to", descending=True).row(0, named=True)
    here = {name: row[name] for name in _SERVED_BY if name in row}
    tail = EMPTY
    if row["steps"] > 1:
        worst = cell(summary, "duration_p99", **here)
        tail = say(", at worst {worst} ({which})", worst=worst, which=constant(99).words("99th percentile"))
    eager = row["steps"] - row["replayed"]
    how = "replayed as graphs" if not eager else "without graphs" if eager == row["steps"] else "some as graphs"
    batch, of = row["batch"], EMPTY  # the mean; where steps differ, its bucket says more
    if batch is not None and batch.is_integer():
        of = say(
            " of {batch} request{s}", batch=cell(summary, "batch", **here).words(f"{batch:.0f}"), s="s" * (batch != 1)
        )
    elif row["bucket"]:
        bucket = cell(summary, "bucket", **here)
        of = say(" of {bucket} requests", bucket=bucket.words(bucket.text.replace("-", "–")))
    time = cell(summary, "duration_median", **here)
    return say("A {kind} step{of} takes {time}{tail}, {how}.", kind=row["kind"], of=of, time=time, tail=tail, how=how)


_SERVED_BY = ("rank", "cycle", "engine", "kind", "bucket")
"""Columns that tell the rows of `serving_summary` apart."""


def _pauses(summary: Result, frame: pl.DataFrame) -> Iterator[Sentence]:
    rank = frame["rank"][0]
    whole, delay, gap = (total(summary, name, rank=rank) for name in ("duration", "decode_delay", "gap"))
    if not whole:
        return
    if delay.number >= _SMALL_LOSS_SHARE * whole.number:
        yield say("Prefill holds up decode for {delay}, {share} of the time.", delay=delay, share=delay / whole)
    if gap.number >= _SMALL_LOSS_SHARE * whole.number:
        why = max(_GAP_WORDS, key=lambda cause: int(frame[f"gap_{cause}"].sum() or 0))
        yield say("Before steps the device waits {share} of the time, {why}.", share=gap / whole, why=_GAP_WORDS[why])


def is_part(select: Selection) -> bool:
    """Whether the selection is less than all steps: a range, a device, a thread."""
    chosen = any(each is not None for each in (select.time, select.devices, select.streams))
    return select.steps not in (None, "steady") or chosen or select.is_within_steps


def nothing(what: str, select: Selection) -> Sentence:
    """A sentence about what is missing, in the selection or at all."""
    if is_part(select):
        return say("The selection contains no {what}.", what=what)
    return say("No {what} was recorded.", what=what)


def way_back(select: Selection) -> tuple[NoteBlock, ...]:
    """For a page that is empty: how to see everything, where it may be the selection that leaves nothing."""
    from kinetoscope.pages.blocks import Link, NoteBlock

    if not is_part(select):
        return ()
    return (NoteBlock(say("There may be some outside the selection."), link=Link("Show everything", clear=True)),)


WHY_IDLE: Final = {
    ("launch late", "profiler"): "the profiler makes room in its own buffers",
    ("launch late", "data loading"): "the host is loading data",
    ("launch late", "synchronizing call"): "the host waits in a synchronizing call before it launches more",
    ("launch late", "allocating call"): "the host allocates or frees memory before it launches more",
    ("launch late", "graph capture"): "the host captures a graph",
    ("launch late", "other runtime call"): "the host is in calls of the runtime before it launches more",
    ("launch late", "host operator"): "the host runs operators before it launches more",
    ("launch late", "Python"): "the host runs Python before it launches more",
    ("launch late", "nothing recorded"): "nothing is recorded of the host before it launches more",
    ("launch late", "launch call"): "the host is in the call that launches",
    ("launch late", "launch to start"): "what was launched is on its way to the device",
    ("launch latency", "launched just before"): "what was launched is on its way to the device",
    ("launch latency", "launch to start"): "what was launched before starts late, though the device is idle",
    ("waiting", "kernel to kernel"): "the next kernel, launched in time, begins",
    ("waiting", "stream or event"): "what was launched waits for a stream or an event",
    ("unknown", "launch not recorded"): "the launch of what follows was not recorded",
    ("end of step", "no more work"): "no more work follows",
}
"""What happens in idle time, by its reason and detail."""
