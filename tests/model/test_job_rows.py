"""Which trace a row is of, and what is said of traces that have none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from kinetoscope import Selection, Trace
from kinetoscope.model.analysis import Question
from kinetoscope.model.answer import Answer, Failure, Partial
from kinetoscope.model.job import Job
from kinetoscope.model.trace.source import Source
from kinetoscope.schema import Column, Schema

COUNT = Schema(Column("rank", pl.Int64, "Rank."), Column("events", pl.Int64, "How many there are."))


def of_trace(trace: Trace, select: Selection) -> Partial:
    raise NotImplementedError


@dataclass(frozen=True)
class Answering:
    """An engine that knows the answers: a number of events, or a reason why there is none."""

    answers: dict[Source, int | str]

    def close(self) -> None:
        """See `Engine`."""

    def ask(self, sources: Sequence[Source], questions: Sequence[Question]) -> tuple[Answer, ...]:
        of_rank: dict[tuple[int, int], Partial | Failure] = {}
        for source in sources:
            answer = self.answers[source]
            known = isinstance(answer, int)
            row = Partial(pl.DataFrame({"events": [answer]})) if known else Failure(str(answer))
            of_rank[source.rank, source.cycle] = row
        return (Answer(of_rank),) * len(questions)

    def trace(self, source: Source) -> Trace:
        raise NotImplementedError


def job(answers: dict[Source, int | str]) -> Job:
    return Job("run", tuple(answers), Answering(answers))


def test_rows_of_several_cycles_say_which() -> None:
    cycles = {Source("a", 0, 0): 5, Source("b", 0, 1): 7, Source("c", 1, 0): 9}
    result = job({**cycles}).map(of_trace, COUNT)
    assert result.frame.columns == result.schema.names == ["rank", "cycle", "events"]
    assert result.frame.rows() == [(0, 0, 5), (0, 1, 7), (1, 0, 9)]
    once = job({Source("a", 0, 0): 5, Source("c", 1, 0): 9}).map(of_trace, COUNT)
    assert once.schema == COUNT
    assert once.frame.columns == ["rank", "events"]


def test_ranks_that_fail_alike_share_a_note() -> None:
    answers: dict[Source, int | str] = {Source("a", 0): 1}
    answers |= {Source(str(rank), rank): "no such file" for rank in (1, 2, 3, 7)}
    answers[Source("x", 9)] = "broken"
    assert job(answers).map(of_trace, COUNT).notes == (
        "ranks 1-3, 7 are left out: no such file.",
        "rank 9 is left out: broken.",
    )


def test_of_many_reasons_the_first_are_told() -> None:
    answers: dict[Source, int | str] = {Source("a", 0): 1}
    answers |= {Source(str(rank), rank): f"reason {rank}" for rank in range(1, 1001)}
    notes = job(answers).map(of_trace, COUNT).notes
    assert len(notes) == 6
    assert notes[-1] == "ranks 6-1000 are left out for other reasons."
