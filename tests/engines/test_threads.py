from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl
import pytest

from kinetoscope import Selection, Trace
from kinetoscope.engines.threads import Threads
from kinetoscope.errors import NotFoundError, UsageError
from kinetoscope.model.analysis import Question
from kinetoscope.model.answer import Failure, Partial
from kinetoscope.model.trace.source import Source
from kinetoscope.notes import Note
from kinetoscope.readers.registry import load
from kinetoscope.schema import Schema
from tests import drawn


def count(trace: Trace, select: Selection) -> Partial:
    if not len(trace):
        raise UsageError("nothing to count")
    return Partial(pl.DataFrame({"events": [len(trace)]}), (Note("RANK", f"rank {trace.source.rank}"),))


COUNT = [Question(count, Schema())]


def total(one: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    return one + other


@pytest.fixture
def sources(tmp_path: Path) -> list[Source]:
    """Eight ranks: rank r has r events."""
    return [
        Source(str(drawn.written(tmp_path / f"{rank}.json", *[drawn.op("mm", 0, 1)] * rank)), rank) for rank in range(8)
    ]


def answers(sources: Sequence[Source], jobs: int) -> Mapping[tuple[int, int], Partial | Failure]:
    [answer] = Threads(load, jobs=jobs).ask(sources, COUNT)
    assert answer.folded is None
    return answer.of_rank


@pytest.mark.parametrize("jobs", [1, 3, 20])
def test_every_rank_is_asked_once(sources: Sequence[Source], jobs: int) -> None:
    of_rank = answers(sources, jobs)
    assert [rank for rank, _ in of_rank] == list(range(8))
    for (rank, _), answer in of_rank.items():
        if rank:
            assert isinstance(answer, Partial)
            assert answer.frame["events"].to_list() == [rank]
        else:
            assert answer == Failure("nothing to count", usage=True)


def test_a_rank_that_cannot_be_read_fails_alone(sources: Sequence[Source]) -> None:
    of_rank = answers([*sources, Source("/nowhere/9.json", 9)], 2)
    assert of_rank[9, 0] == Failure("/nowhere/9.json: no such file", usage=False)
    assert len(of_rank) == 9


def test_a_mistake_of_ours_is_not_swallowed(sources: Sequence[Source]) -> None:
    def mistaken(trace: Trace, select: Selection) -> Partial:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Threads(load, jobs=2).ask(sources, [Question(mistaken, Schema())])


TOTAL = [Question(count, Schema(), combine=total)]


def test_answers_are_folded_and_failures_kept(sources: Sequence[Source]) -> None:
    [answer] = Threads(load, jobs=3).ask(sources, TOTAL)
    assert answer.folded is not None
    assert answer.folded.frame["events"].to_list() == [28]
    assert sorted(answer.folded.notes) == [f"rank {rank}" for rank in range(1, 8)]
    assert list(answer.of_rank) == [(0, 0)]


def test_if_every_rank_fails_nothing_is_folded(sources: Sequence[Source]) -> None:
    assert Threads(load, jobs=3).ask(sources[:1], TOTAL)[0].folded is None


@pytest.mark.slow
def test_no_more_traces_are_alive_than_jobs(sources: Sequence[Source]) -> None:
    alive: weakref.WeakSet[Trace] = weakref.WeakSet()
    most = 0
    lock = threading.Lock()

    def watched(source: Source) -> Trace:
        nonlocal most
        trace = load(source)
        with lock:
            alive.add(trace)
            gc.collect()
            most = max(most, len(alive))
        return trace

    Threads(watched, jobs=2, keep=0).ask(sources, COUNT)
    assert 1 <= most <= 2


class Counting:
    """Loads traces and counts how often."""

    def __init__(self) -> None:
        self.loads = 0

    def __call__(self, source: Source) -> Trace:
        self.loads += 1
        return load(source)


def test_a_trace_is_kept_for_the_next_question(sources: Sequence[Source]) -> None:
    loads = Counting()
    engine = Threads(loads, jobs=1)
    engine.ask(sources[1:2], COUNT)
    engine.ask(sources[1:2], COUNT)
    assert engine.trace(sources[1]) is engine.trace(sources[1])
    assert loads.loads == 1


def test_of_several_traces_those_asked_for_last_are_kept(sources: Sequence[Source]) -> None:
    loads = Counting()
    engine = Threads(loads, jobs=1, keep=2)
    for place in (1, 2, 1, 3, 1):
        engine.trace(sources[place])
    assert loads.loads == 3
    engine.trace(sources[2])
    assert loads.loads == 4


def test_threads_that_ask_for_a_trace_at_once_share_it(sources: Sequence[Source]) -> None:
    loads = Counting()
    engine = Threads(loads, jobs=1)
    start = threading.Barrier(4)
    traces: list[Trace] = []

    def ask() -> None:
        start.wait(10)
        traces.append(engine.trace(sources[5]))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert loads.loads == len(set(map(id, traces))) == 1


def test_whoever_interrupts_it_stops_the_work(sources: Sequence[Source]) -> None:
    loads = Counting()

    def interrupted(trace: Trace, select: Selection) -> Partial:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Threads(loads, jobs=1, keep=0).ask(sources, [Question(interrupted, Schema())])
    assert loads.loads <= 2


def test_a_file_that_is_gone_is_named_when_it_is_asked_for_directly() -> None:
    with pytest.raises(NotFoundError, match="no such file"):
        Threads(load, jobs=1).trace(Source("/nowhere/0.json"))
