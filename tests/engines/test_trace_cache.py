"""Traces that are kept within a limit."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from kinetoscope.engines.trace_cache import Kept
from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.trace import Trace
from kinetoscope.readers.registry import load
from tests import drawn


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    return load(Source(str(drawn.written(tmp_path / "0.json", drawn.op("mm", 0, 1)))))


def test_those_asked_for_last_are_kept_and_room_is_made_before_reading(trace: Trace) -> None:
    kept = Kept(30, lambda _: 10)
    held: list[int] = []

    def read() -> Trace:
        held.append(len(kept))
        return trace

    for key in (1, 2, 1, 3, 4, 1):
        kept.get(key, read)
    assert held == [0, 1, 2, 2]  # 1 was never read again, 4 was read when 2 had gone
    assert len(kept) == 3


def test_what_grows_makes_room(trace: Trace) -> None:
    sizes = {"all": 10}
    kept = Kept(30, lambda _: sizes["all"])
    for key in (1, 2, 3):
        kept.get(key, lambda: trace)
    sizes["all"] = 30
    kept.get(4, lambda: trace)
    assert len(kept) == 1
    sizes["all"] = 31
    kept.get(5, lambda: trace)
    assert len(kept) == 0


def test_different_traces_are_read_side_by_side_and_one_only_once(trace: Trace) -> None:
    kept = Kept(4, lambda _: 1)
    both = threading.Barrier(2)
    reads: list[int] = []

    def read(key: int) -> Trace:
        reads.append(key)
        both.wait(30)  # passes only if the other one is being read, too
        return trace

    threads = [threading.Thread(target=lambda k=k % 2: kept.get(k, lambda: read(k))) for k in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(reads) == [0, 1]


def test_what_cannot_be_read_is_tried_again(trace: Trace) -> None:
    kept = Kept(1, lambda _: 1)

    def broken() -> Trace:
        raise OSError("broken")

    for _ in range(2):
        with pytest.raises(OSError, match="broken"):
            kept.get(1, broken)
    assert kept.get(1, lambda: trace) is trace
