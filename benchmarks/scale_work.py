"""What `scale` measures, each in a process of its own: one task, then a line of JSON that says what it found.

python -m benchmarks.scale_work ask FOLDER ANALYSIS JOBS
python -m benchmarks.scale_work simulate FOLDER RANKS
python -m benchmarks.scale_work reduce RANKS CALLS
python -m benchmarks.scale_work match RANKS CALLS
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

import kinetoscope
from kinetoscope.engines.threads import Threads
from kinetoscope.model.analysis import Question
from kinetoscope.model.answer import Answer, Partial
from kinetoscope.model.collectives.calls import CALLS
from kinetoscope.model.collectives.process_groups import ranks_text
from kinetoscope.model.job import Job
from kinetoscope.model.matching.match import match
from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.trace import Trace
from kinetoscope.reading import read
from tests.simulator import Fault, Model, happened, simulate

_CALLS_A_STEP = 10
NO_FAULT = Fault()


def ask(folder: str, analysis: str, jobs: str) -> dict[str, Any]:
    """One question to all ranks in a folder."""
    began = time.perf_counter()
    job = read(folder, jobs=int(jobs))
    result = getattr(kinetoscope, analysis)(job)
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "ranks": len(job), "rows": len(result.frame), "notes": [*result.notes][:5]}


def make(folder: str, ranks: str) -> dict[str, Any]:
    """Small traces of many ranks, one of them late."""
    began = time.perf_counter()
    late = int(ranks) * 5 // 8
    truth = simulate(small(int(ranks), 3, Fault("host_gap", late, 1e6)), Path(folder))
    size = sum(file.stat().st_size for file in truth.files.values())
    return {"seconds": time.perf_counter() - began, "bytes": size, "late": late}


def small(ranks: int, steps: int, fault: Fault = NO_FAULT) -> Model:
    """A job with ten collectives a step on each rank."""
    return Model(
        ranks=ranks, tensor=8, ranks_per_host=8, steps=steps, layers=3, kernels=2, clock_offset=10_000_000,
        clock_drift=10, fault=fault,
    )  # fmt: skip


class Prepared(Threads):
    """The engine, with answers of ranks that are there already: what is left is to reduce them."""

    def __init__(self, answers: dict[Source, Partial]) -> None:
        super().__init__(_unread, jobs=2)
        self._answers = answers

    def _ask(self, source: Source, questions: Sequence[Question]) -> tuple[Answer, ...]:
        """As they are, whatever the questions."""
        return (Answer({}, self._answers[source]),) * len(questions)


def reduce(ranks: str, count: str) -> dict[str, Any]:
    """The frames of many ranks become one answer."""
    frames = drawn(int(ranks), int(count)).partition_by("rank", maintain_order=True)
    answers = {Source(f"rank{rank}.json", rank=rank): Partial(frame) for rank, frame in enumerate(frames)}
    size = sum(frame.estimated_size() for frame in frames)
    began = time.perf_counter()
    result = kinetoscope.collectives(Job("drawn", tuple(answers), Prepared(answers)))
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "bytes": size, "rows": len(result.frame), "notes": [*result.notes][:5]}


def matching(ranks: str, count: str) -> dict[str, Any]:
    """Which calls are the same collective: the best of three."""
    frame = drawn(int(ranks), int(count))
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        matched = match(frame)
        seconds.append(time.perf_counter() - began)
    return {"seconds": min(seconds), "calls": len(frame), "unmatched": matched.unmatched}


def drawn(ranks: int, count: int) -> pl.DataFrame:
    """The calls of all ranks, as each would answer: `count` on each."""
    truth = happened(small(ranks, -(-count // _CALLS_A_STEP)))
    rows = truth.collectives
    own = pl.int_range(pl.len(), dtype=pl.Int64).over("rank")
    runs = {text: ranks_text([int(rank) for rank in text.split(",")]) for text in rows["group_ranks"].unique()}
    rows = rows.with_columns(pl.col("group_ranks").replace_strict(runs))
    calls = rows.select(
        "rank",
        pl.col("rank").replace_strict(truth.hosts).alias("host"),
        own.alias("row"),
        pl.lit(False).alias("on_host"),
        "kind",
        "name",
        (pl.col("group_name") + " [" + pl.col("group_ranks") + "]").alias("group"),
        "group_name",
        pl.lit("mesh").alias("group_description"),
        pl.col("group_size").cast(pl.Int64),
        "group_ranks",
        pl.lit(ranks, pl.Int64).alias("world"),
        "seq",
        pl.lit("bfloat16").alias("dtype"),
        (pl.col("bytes") // 2).alias("elements_in"),
        (pl.col("bytes") // 2).alias("elements_out"),
        "bytes",
        pl.lit(0, pl.Int64).alias("device"),
        pl.lit(20, pl.Int64).alias("stream"),
        pl.col("step").cast(pl.Int64),
        pl.col("start_recorded").alias("start"),
        pl.col("end_recorded").alias("end"),
        (pl.col("end_recorded") - pl.col("start_recorded")).alias("exposed"),
    )  # fmt: skip
    missing = [column.name for column in CALLS.columns if column.name not in calls.columns]
    return calls.with_columns(pl.lit(None, CALLS[name].dtype).alias(name) for name in missing)


def _unread(source: Source) -> Trace:
    raise AssertionError(f"nothing is read here: {source}")


TASKS: dict[str, Callable[..., dict[str, Any]]] = {"ask": ask, "simulate": make, "reduce": reduce, "match": matching}

if __name__ == "__main__":
    print(json.dumps(TASKS[sys.argv[1]](*sys.argv[2:])))
