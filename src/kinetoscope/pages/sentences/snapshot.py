"""A memory snapshot in a few sentences, for the summary: why memory ran out, whose the peak is, whether it grows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import polars as pl

from kinetoscope.model.analysis import Question
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import Selection
from kinetoscope.pages.pictures.allocator import devices_question
from kinetoscope.pages.sentences.memory import PEAK, fullest, memory_questions, memory_sentences
from kinetoscope.schema import Result
from kinetoscope.views.numbers import grouped, shown
from kinetoscope.views.sentences import Sentence


@dataclass(frozen=True, slots=True)
class SnapshotWords:
    """What is said of the snapshots of a job.

    Attributes:
        facts: devices, events and time of the histories.
        sentences: what matters first comes first.
        categories: bytes of each category of the fullest device at its peak, the most first.
    """

    facts: tuple[str, ...]
    sentences: tuple[Sentence, ...]
    categories: tuple[tuple[str, int], ...]


_DEVICES: Final = "devices of snapshots"


def snapshot_questions(select: Selection) -> dict[str, Question]:
    """The questions that `snapshot_words` needs the answers to."""
    return memory_questions(select) | {_DEVICES: devices_question(select)}


def snapshot_words(job: Job, select: Selection, answers: Mapping[str, Result]) -> SnapshotWords | None:
    """The words; None where no rank has a snapshot. Of several devices and ranks the one that peaks highest."""
    facts = answers[_DEVICES].frame
    peak = answers[PEAK].frame
    if not facts.height or not peak.height:
        return None
    at_peak = peak.filter(**fullest(peak))
    largest = at_peak.filter(pl.col("size") > 0).sort("size", descending=True, maintain_order=True)
    categories = tuple((str(label), int(size)) for label, size in largest.select("name", "size").rows())
    sentences = memory_sentences(job, select, answers, whole=True)
    return SnapshotWords(tuple(_facts(facts)), sentences, categories) if sentences else None


def _facts(facts: pl.DataFrame) -> list[str]:
    """`2 devices`, `12,345 events of the allocator in 4.5 s`."""
    ends = facts.filter(kind="history")
    devices = ends.select("rank", "device").n_unique()
    events = ends.group_by("rank", "device").agg(pl.col("event").max()).get_column("event").sum()
    times = ends.group_by("rank", "device").agg(span=pl.col("time").max() - pl.col("time").min()).get_column("span")
    longest = times.drop_nulls().max()
    span = f" in {shown(longest, 'ns')}" if isinstance(longest, int) and longest else ""
    return [f"{devices} device{'s' * (devices != 1)}", f"{grouped(int(events))} events of the allocator{span}"]
