from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from kinetoscope import ALL, Job, Selection, Trace, read
from kinetoscope.engines.threads import Threads
from kinetoscope.errors import InputError, UsageError
from kinetoscope.model.analysis import Question
from kinetoscope.model.answer import Partial
from kinetoscope.notes import Note
from kinetoscope.readers.registry import load
from kinetoscope.schema import Column, Schema
from tests import drawn

COUNT = Schema(Column("rank", pl.Int64, "Rank."), Column("events", pl.Int64, "How many there are."))


def count(trace: Trace, select: Selection, *, note: str = "") -> Partial:
    return Partial(pl.DataFrame({"events": [len(trace)]}), (Note("A", note),) if note else ())


def odd(trace: Trace, select: Selection) -> Partial:
    if len(trace) == 2:
        raise UsageError(f"nothing to ask of {len(trace)} events")
    return Partial(pl.DataFrame({"events": [len(trace)]}), (Note("ODD", f"{len(trace) % 2} odd"),))


@pytest.fixture
def ranks(tmp_path: Path) -> Callable[..., Job]:
    """A job with so many events in each rank; of those with none the file is broken."""

    def job(*events: int) -> Job:
        for rank, number in enumerate(events):
            said = {"distributedInfo": {"rank": rank, "world_size": len(events)}}
            file = drawn.written(tmp_path / f"rank{rank}.json", *(drawn.op("mm", k, 1) for k in range(number)), **said)
            if not number:
                file.write_text(f'{{"distributedInfo": {{"rank": {rank}}}, "traceEvents": [{{"ph": "X", "na')
        return read(tmp_path, jobs=2)

    return job


def test_answers_are_joined_in_the_order_of_ranks_with_the_rank_first(ranks: Callable[..., Job]) -> None:
    result = ranks(5, 1, 4, 3).map(count, COUNT)
    assert result.frame.rows() == [(0, 5), (1, 1), (2, 4), (3, 3)]
    assert (result.schema, result.frame.schema) == (COUNT, COUNT.empty().schema)


def test_parameters_reach_the_question(ranks: Callable[..., Job]) -> None:
    assert ranks(1).map(count, COUNT, note="said").notes == ("said",)


def test_a_note_stands_once_and_names_its_ranks_unless_they_are_all(ranks: Callable[..., Job]) -> None:
    assert ranks(1, 3, 5).map(odd, COUNT).notes == ("1 odd",)
    assert ranks(1, 3, 5, 4).map(odd, COUNT).notes == ("ranks 0-2: 1 odd", "rank 3: 0 odd")


def test_a_rank_that_cannot_be_read_is_named_and_the_rest_goes_on(ranks: Callable[..., Job]) -> None:
    result = ranks(5, 0, 3).map(count, COUNT)
    assert result.frame["rank"].to_list() == [0, 2]
    [note] = result.notes
    assert note.startswith("rank 1 is left out: ")
    assert "rank1.json: broken" in note


def test_a_rank_that_finds_fault_with_the_question_is_named_too(ranks: Callable[..., Job]) -> None:
    result = ranks(1, 2).map(odd, COUNT)
    assert (result.frame["rank"].to_list(), result.notes[-1]) == (
        [0],
        "rank 1 is left out: nothing to ask of 2 events.",
    )


def test_if_no_rank_answers_the_error_says_whose_fault_it_is(ranks: Callable[..., Job]) -> None:
    with pytest.raises(UsageError, match="nothing to ask of 2 events"):
        ranks(2, 2).map(odd, COUNT)
    with pytest.raises(InputError, match=r"rank0\.json: broken"):
        ranks(0, 2).map(odd, COUNT)


def test_an_answer_must_fit_its_schema(ranks: Callable[..., Job]) -> None:
    with pytest.raises(ValueError, match=r"undeclared \['rank'\]"):
        ranks(1).map(count, COUNT.without("rank"))


# --- across ranks


def total(one: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    return one + other


def named(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select(rank=pl.lit(-1, pl.Int64), events="events")


TOTAL = Question(odd, COUNT, combine=total, finish=named)


def test_answers_are_folded(ranks: Callable[..., Job]) -> None:
    result = ranks(5, 1, 0, 3).answer(TOTAL)
    assert result.frame.rows() == [(-1, 9)]
    assert result.notes[0] == "1 odd"
    assert result.notes[1].startswith("rank 2 is left out")


def test_if_no_rank_answers_nothing_is_folded(ranks: Callable[..., Job]) -> None:
    with pytest.raises(UsageError):
        ranks(2).answer(TOTAL)


# --- several questions


SAID = Question(count, COUNT, params={"note": "said"})


def test_several_questions_are_answered_as_each_is_alone(ranks: Callable[..., Job]) -> None:
    questions = {"joined": SAID, "odd": Question(odd, COUNT), "folded": TOTAL, "finished": replace(SAID, finish=named)}
    job = ranks(5, 0, 1, 2, 3)
    together = job.ask(questions)
    assert list(together) == list(questions)
    for name, question in questions.items():
        alone = job.answer(question)
        assert together[name].frame.equals(alone.frame)
        assert together[name].notes == alone.notes


def test_several_questions_read_each_trace_once(ranks: Callable[..., Job]) -> None:
    read_bytes: list[int] = []
    job = ranks(4, 5, 6)
    engine = Threads(partial(load, progress=read_bytes.append), jobs=2, keep=0)
    replace(job, engine=engine).ask({"joined": SAID, "folded": TOTAL})
    once = sum(read_bytes)
    replace(job, engine=engine).answer(SAID)
    assert sum(read_bytes) == 2 * once


def test_a_wrong_question_among_several_is_an_error(ranks: Callable[..., Job]) -> None:
    with pytest.raises(UsageError, match="nothing to ask of 2 events"):
        ranks(2, 2).ask({"joined": SAID, "odd": Question(odd, COUNT)})
    with pytest.raises(InputError, match=r"rank0\.json: broken"):
        ranks(0, 0).ask({"joined": SAID})


# --- its traces


def test_traces_are_had_by_rank_and_cycle(ranks: Callable[..., Job], tmp_path: Path) -> None:
    job = ranks(1, 2)
    assert (len(job), job.ranks, len(job.trace()), len(job.trace(1))) == (2, (0, 1), 1, 2)
    with pytest.raises(UsageError, match=r"there is no rank 7, cycle 0 in .*; ranks: 0-1"):
        job.trace(7)
    with pytest.raises(UsageError, match="there is no rank 1, cycle 1"):
        job.trace(1, cycle=1)


def test_a_question_can_be_sent() -> None:
    unsendable = replace(SAID, finish=lambda frame: frame)
    sent = pickle.loads(pickle.dumps(unsendable.to_send))
    assert (sent.of_trace, sent.select, sent.params) == (count, ALL, {"note": "said"})
