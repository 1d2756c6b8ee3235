"""The tables that say what a whole run did: changes, spikes, ranks that are slowest again and again, lost time."""

from __future__ import annotations

from typing import Final

import polars as pl

from kinetoscope.schema import Column, Schema

PART_WORDS: Final = {
    "data": "waiting for data",
    "gap": "between the steps",
    "forward": "forward pass",
    "backward": "backward pass",
    "optimizer": "optimizer",
    "rest": "rest of the step",
    "device": "work of the device",
    "memory_used": "memory in use",
    "memory_reserved": "reserved memory",
    "resident": "resident memory of the process",
}
"""Words for the parts of a step, and for kinds of memory."""

_WHO: Final = (
    Column("rank", pl.Int64, "The rank that it is on; null where it is on several."),
    Column("ranks", pl.Int64, "How many ranks it is on."),
    Column("who", pl.String, "Numbers of these ranks, as 0-2, 5; all."),
)

CHANGES: Final = Schema(
    Column("number", pl.Int64, "Number of the change, in order of steps, from 1."),
    Column("kind", pl.String, "shift: a new level of step time; drift: step time; creep: memory grows steadily."),
    *_WHO,
    Column("step", pl.Int64, "Number of the step from which on it is so."),
    Column("step_low", pl.Int64, "The earliest step at which a shift may lie, with 95 % probability."),
    Column("step_high", pl.Int64, "The latest such step."),
    Column("until", pl.Int64, "The last step of the new level, of the drift or of the creep."),
    Column("before", pl.Float64, "Typical time of a step before; of a drift and a creep at their beginning.", "ns"),
    Column("after", pl.Float64, "Typical time of a step after; of a drift and a creep at their end.", "ns"),
    Column("change", pl.Float64, "(after - before) / before.", "fraction"),
    Column("low", pl.Float64, "The least change that noise allows, with 95 % probability.", "fraction"),
    Column("high", pl.Float64, "The greatest such change.", "fraction"),
    Column("part", pl.String, "The part that makes up half of it and more, or the memory; null where none does."),
    Column("part_before", pl.Float64, "The part's time in a step before.", "ns"),
    Column("part_after", pl.Float64, "The part's time in a step after.", "ns"),
    Column("phase", pl.String, "The phase, see PHASES, that makes up half of it and more; null where none does."),
    Column("phase_before", pl.Float64, "The phase's time in a step before.", "ns"),
    Column("phase_after", pl.Float64, "The phase's time in a step after.", "ns"),
    Column("data", pl.Float64, "By how much the time in the data loader changed; null where unknown.", "ns"),
    Column("gap", pl.Float64, "By how much the time between steps changed.", "ns"),
    Column("forward", pl.Float64, "By how much the forward pass changed; null where unknown.", "ns"),
    Column("backward", pl.Float64, "By how much the backward pass changed; null where unknown.", "ns"),
    Column("optimizer", pl.Float64, "By how much the optimizer changed; null where unknown.", "ns"),
    Column("rest", pl.Float64, "By how much the rest of the step changed.", "ns"),
    Column("device", pl.Float64, "By how much the device's time changed, which is in none of these.", "ns"),
    Column("memory_before", pl.Float64, "Memory at the beginning of a creep.", "bytes"),
    Column("memory_after", pl.Float64, "Memory at its end.", "bytes"),
    Column(
        "mark", pl.String, "Kind of a rare mark where it begins: restart, compile, evaluation, save, phase, window."
    ),
    Column("certainty", pl.String, "sure, likely or guess: see the definitions."),
    Column("score", pl.Float64, "Standard errors by which it is more than nothing."),
)
"""By step."""

SPIKES: Final = Schema(
    Column("number", pl.Int64, "Number of the group, the one that cost most first, from 1."),
    *_WHO,
    Column("cause", pl.String, "collection, save, evaluation, compile, window: by marks; null where none explains it."),
    Column("part", pl.String, "The part of the step that makes up half of it and more; null where none does."),
    Column("count", pl.Int64, "Steps that are far above those around them."),
    Column("period", pl.Float64, "Steps from one to the next; null where they come at no regular distance."),
    Column("period_spread", pl.Float64, "Middle half of these distances / period.", "fraction"),
    Column("first", pl.Int64, "Number of the first step."),
    Column("last", pl.Int64, "Number of the last step."),
    Column("excess", pl.Float64, "Time above the steps around, of the middle one.", "ns"),
    Column("greatest", pl.Float64, "Time above the steps around, of the longest one.", "ns"),
    Column("lost", pl.Float64, "Sum of these times: of each step that of the rank that lost most.", "ns"),
    Column("share", pl.Float64, "Lost / time of the run.", "fraction"),
    Column("certainty", pl.String, "sure where marks explain it, likely where a part does, else guess."),
)
"""Groups of spikes by cause, part and rank."""

RETURNS: Final = Schema(
    Column("rank", pl.Int64, "A rank that is slowest more often than chance has it."),
    Column("episodes", pl.Int64, "How often it became the slowest."),
    Column("steps", pl.Int64, "Steps in which it was."),
    Column("share", pl.Float64, "Steps / all steps.", "fraction"),
    Column("first", pl.Int64, "Number of the first step in which it was, to a block."),
    Column("last", pl.Int64, "Number of the last one, to a block."),
    Column("period", pl.Float64, "Steps from one episode to the next; null where they come at no regular distance."),
    Column("part", pl.String, "The part in which it is slower."),
    Column("excess", pl.Float64, "By how much it is slower than the others, of a step in the middle.", "ns"),
    Column("certainty", pl.String, "likely, or guess where there are few episodes."),
)
"""Ranks that were the slowest again and again."""

PHASES: Final = Schema(
    Column("number", pl.Int64, "Number of the phase, the one that takes most time first, from 1."),
    Column("phase", pl.String, "What it is for, where the name is known: generation, reward, update …; else its name."),
    Column("names", pl.String, "Names that the run has for it."),
    *_WHO,
    Column("count", pl.Float64, "How often a rank had it, on average over those that had it."),
    Column("mean", pl.Float64, "Its time, on average.", "ns"),
    Column("time", pl.Float64, "Sum of its times on a rank, on average over those that had it.", "ns"),
    Column("share", pl.Float64, "Time / time of the run; phases may lie in each other.", "fraction"),
    Column("longest", pl.Int64, "The longest time.", "ns"),
    Column("longest_step", pl.Int64, "Number of the step in which, or before which, that began."),
    Column("longest_rank", pl.Int64, "The rank that had it."),
    Column("early", pl.Float64, "Typical time in the first quarter of its times; null where there are few.", "ns"),
    Column("late", pl.Float64, "Typical time in the last quarter.", "ns"),
    Column("growth", pl.Float64, "(late - early) / early.", "fraction"),
)
"""Phases of the run, by marks that have a name."""

LOST: Final = Schema(
    Column("number", pl.Int64, "Number of the row, from 1."),
    Column("cause", pl.String, "best: what the steps take at the best level; else why it took more."),
    Column("change", pl.Int64, "Number of the change that it follows from; null where it follows from none."),
    Column("part", pl.String, "The part of the step, where it is known."),
    Column("time", pl.Float64, "Of a rank on average; the rows add up to the time of the run.", "ns"),
    Column("share", pl.Float64, "Time / time of the run.", "fraction"),
)
"""The time of the run: the steps at their best, then what was lost, most first."""
