"""The tables that the generator makes of a job are those that a reader makes of its dumps."""

from __future__ import annotations

import json

import polars as pl
import pytest

from kinetoscope.model.hangs.of_dumps import records_of_dumps
from kinetoscope.readers.flight_recorder import load
from tests.conftest import first_quick
from tests.hangs.scoring import job


@pytest.mark.parametrize("drawn", first_quick([("finished", 1), ("finished", 3), ("no-send", 2), ("killed", 1)]))
def test_a_reader_of_the_dumps_says_the_same(drawn: tuple[str, int]) -> None:
    cause, seed = drawn
    _, _, dumps = job(cause, 16, seed)
    read = []
    for rank, dump in dumps.dumps.items():
        read.append(records_of_dumps(rank, [load("dump", [json.dumps(dump).encode()])]))
    calls, groups, _ = (pl.concat(tables) for tables in zip(*read, strict=True))
    own_calls, own_groups, _ = dumps.tables()
    same = ["rank", "group", "seq", "order", "is_p2p", "peer", "name", "state", "created", "completed", "line"]
    assert calls.select(same).equals(own_calls.select(same))
    by = ["rank", "group"]
    assert groups.drop("backend").sort(by).equals(own_groups.drop("backend").sort(by))
