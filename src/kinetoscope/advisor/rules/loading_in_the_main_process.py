"""DATA001: the data loader has no workers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.data_loader import (
    IN_PROCESS,
    MIN_STEP_SHARE,
    confidence,
    cores_for_workers,
    fetches,
    gains_without,
    main_thread_without,
    sure,
)
from kinetoscope.advisor.evidence.source_location import event_evidence
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import counted, share, wording
from kinetoscope.algorithms.arrays import Floats
from kinetoscope.algorithms.trees.tree import ancestor
from kinetoscope.model.execution.call_tree import call_tree
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.model.trace.trace import Trace
from kinetoscope.views.sentences import Sentence, measured, say

_MIN_WORKERS: Final = 2
_MAX_WORKERS: Final = 16
"""Workers that are suggested: one alone is still waited for, and cores are not endless."""

_MIN_STEPS: Final = 6
_LAST_STEPS_SHARE: Final = 0.25
_MIN_LAST_STEPS: Final = 2
_FADED_SHARE: Final = 0.2
"""From so many steps on the last quarter, two at least, is looked at: whether each of them loads for less than this
share of the median of the others."""

_ROOM: Final = 1.25
"""So much faster than the training the workers together shall be, for batches differ."""


_TAKING_NS: Final = 1_000_000
"""Time that a batch which a worker has made costs the training thread, surely no more: it comes through shared memory
and is put together again. 0.2 to 1 ms were measured; in steps of 1 to 10 ms that was more than loading had been."""

_PIPELINE: Final = "transformers/pipelines/"
_PIPELINE_CHANGE: Final = "\n".join(
    (
        "- for image in images: pipe(image)",
        "+ for found in pipe(images, num_workers=1): ...  # a ChunkPipeline takes no more",
    )
)


def loading_in_the_main_process(rank: RankView) -> Iterator[Finding]:
    """Does the training thread make the batches itself?

    What it checks. Spans of torch's single-process loader on the main thread, and the part of them that no device work
    hides.

    Why it matters. While that thread makes a batch it launches nothing, so the device runs out of work. Workers make
    batches beside the training, and the thread takes one that is ready. At most, the steps gain the time of these
    spans. Three quarters of that count as likely (half where the training also runs on the host's cores), as far as the
    suggested workers keep up: they share memory and disks with the training; less 1 ms for each batch, which a ready
    one may still cost the training thread. No more are suggested than there are cores besides those of the training,
    where the recording says how many. A pipeline of transformers starts its workers anew for each call, some pipelines
    one at most: there nothing is sure. It is a note where there is a device whose work was not recorded; and a guess
    where the last quarter of the steps loads for less than a fifth of what those before do, as a data set that keeps
    what it has loaded does.

    What to do. Give the loader workers, and keep them from epoch to epoch. Give a pipeline all inputs in one call.
    """
    rows = fetches(rank.trace, IN_PROCESS)
    rows = rows[rank.scope.host_mask[rows]]
    if not len(rows):
        return
    spans = rank.spans(rows)
    length = rank.per_step(spans.length)
    gains = gains_without(rank, spans)
    if float(np.mean(gains)) < MIN_STEP_SHARE * rank.step:  # device work hides it
        return
    rest = max(rank.step - float(np.mean(gains)), 1.0)  # of a step, if no batch ever had to be waited for
    cores, _ = cores_for_workers(rank) or (_MAX_WORKERS, 0)
    workers = min(max(math.ceil(_ROOM * length / rest), _MIN_WORKERS), _MAX_WORKERS, cores)
    waiting = max(length / workers - rest, 0.0)
    taking = _TAKING_NS * len(rows) / max(rank.step_count, 1)
    longest = rank.longest(rows)
    faded = _faded(rank.by_step(spans))
    in_pipeline = _is_in_pipeline(rank.trace, longest)
    part = 0.0 if faded or in_pipeline else sure(rank)
    yield Finding(
        message=say(
            "{process} makes each batch itself. That takes {length} of each step ({part}).",
            process=wording(rank.program).process,
            length=measured(length, "ns"),
            part=share(length, rank.step),
        ),
        stake=rank.stake(np.maximum(part * np.maximum(gains - waiting, 0.0) - taking, 0.0), gains),
        factors=main_thread_without(rank, spans),
        takes=length,
        change=_PIPELINE_CHANGE
        if in_pipeline
        else "- DataLoader(dataset, batch_size=...)\n"
        f"+ DataLoader(dataset, batch_size=..., num_workers={workers}, persistent_workers=True)",
        why=_why(faded, in_pipeline, workers, part),
        confidence="low" if faded else confidence(rank, "medium"),
        evidence=(event_evidence(rank, longest, "the longest of them", "step_breakdown"),),
        time=rank.exposed(spans),
    )


def _faded(loading: Floats) -> int:
    """How many steps at the end load for much less than the others (float64 [steps], ns); 0 if they do not."""
    last = max(int(len(loading) * _LAST_STEPS_SHARE), _MIN_LAST_STEPS)
    if len(loading) < _MIN_STEPS or not np.median(loading[:-last]):
        return 0
    return last if loading[-last:].max() < _FADED_SHARE * np.median(loading[:-last]) else 0


def _why(faded: int, in_pipeline: bool, workers: int, part: float) -> Sentence:
    """Why the gain is what it is."""
    if faded:
        return say(
            "Each of the last {faded} steps loads for much less time than those before: the data set may keep what it"
            " has loaded.",
            faded=measured(faded),
        )
    if in_pipeline:
        return say(
            "A pipeline of transformers starts its workers anew for each call, so that none of the gain is sure."
        )
    return say(
        "{workers} of the loader {share} the host with this process: {part} of the gain is assumed to come.",
        workers=counted(workers, "worker"),
        share="shares" if workers == 1 else "share",
        part=share(part, 1.0),
    )


def _is_in_pipeline(trace: Trace, row: int) -> bool:
    """Does a pipeline of transformers call the loader, so that its settings are those of the call?"""
    frames = rows_named(trace, lambda name: _PIPELINE in name, EventKind.PYTHON, holding=(_PIPELINE,))
    return bool(ancestor(call_tree(trace).parent, frames)[row] >= 0)


RULE = Rule("DATA001", "The data loader has no workers", loading_in_the_main_process)
