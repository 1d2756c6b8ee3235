"""The summary of a job: where the time of a step goes, what to change, what is odd about the traces."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kinetoscope.advisor.advice import advice_from, advice_questions
from kinetoscope.analyses import GROUPS, asked
from kinetoscope.model.job import Job, Readable, part_of
from kinetoscope.model.steps.selection import ALL, Selection, default_to_steady
from kinetoscope.outputs.opening import stored
from kinetoscope.pages.answers.summary import of_hang, of_history, of_run, of_snapshots
from kinetoscope.pages.blocks import Page
from kinetoscope.pages.digest import QUESTIONS, QUESTIONS_ACROSS_RANKS
from kinetoscope.pages.sentences.hang import hang_question

_LARGEST_BYTES: Final = 300_000_000
"""Bytes of JSON up to which rules about one rank are asked of all ranks; of more they are asked of some."""

_PACKED_RATIO: Final = 15
"""So many times larger is JSON than its gzip or zstd, or than the same trace as Parquet."""


def summary(of: Job | Readable, *, select: Selection = ALL) -> Page:
    """Where the time of a step goes, the largest loss, and what to change, on one screen.

    Each trace is read once. Ranks are compared however many they are. Rules about one rank are asked of as many as have
    300 MB of JSON together, spread evenly, and it says so; of one trace that is larger no rule is asked.

    Args:
        of: a job, or what `read` takes.
        select: what is looked at; by default all steps without the warm-up. Of snapshots of memory alone the last of a
            rank counts.

    Raises:
        InputError: no rank can be read.
    """
    job, recorded = part_of(of, select)
    if all(each.is_history for each in job.sources):
        from kinetoscope.pages import history

        return of_history(job.path, history.page(job, recorded, {}))
    select = default_to_steady(recorded)
    alone = all(each.is_snapshot for each in job.sources)
    if alone:  # later snapshots of a rank have what earlier ones have
        job = replace(job, sources=tuple({each.rank: each for each in job.sources}.values()))
    several = len(job.ranks) > 1
    of_analyses = QUESTIONS | (QUESTIONS_ACROSS_RANKS if several else {})
    questions = {
        name: asked(name, select=recorded if name in GROUPS["Serving"] else select, **params)
        for name, params in of_analyses.items()
    }
    examined = _ranks_to_examine(job)
    only = None if len(examined) == len(job.ranks) else examined
    of_hangs = hang_question(job, recorded)
    of_rules = advice_questions(job, select, only) if (several or examined) and not of_hangs else {}
    memory_questions, memory = {}, None
    if any(each.files("snapshot") for each in job.sources):
        from kinetoscope.pages.sentences import snapshot

        memory_questions = snapshot.snapshot_questions(recorded)
    answers = job.ask(questions | of_rules | memory_questions | of_hangs)
    if memory_questions:
        memory = snapshot.snapshot_words(job, recorded, answers)
    advice = advice_from(job, select, only, answers) if of_rules else None
    results = {name: answers[name] for name in questions}
    if alone and memory is not None:
        return of_snapshots(job.path, results, advice, memory)
    if of_hangs:
        return of_hang(job.path, results | {"hang": answers["hang"]})
    return of_run(job.path, results, advice, memory)


def _ranks_to_examine(job: Job) -> tuple[int, ...]:
    """Ranks whose files are small enough together for rules about one rank, spread evenly over all."""
    sizes: dict[int, int] = {}
    for source in job.sources:
        size = stored((source,))
        size = _LARGEST_BYTES + 1 if size is None else size * (1 if source.name.endswith(".json") else _PACKED_RATIO)
        sizes[source.rank] = sizes.get(source.rank, 0) + size
    ranks = sorted(sizes)
    count = min(len(ranks), _LARGEST_BYTES // max(*sizes.values(), 1))
    if sum(sizes.values()) <= _LARGEST_BYTES:
        count = len(ranks)
    return tuple(ranks[place * len(ranks) // count] for place in range(count))
