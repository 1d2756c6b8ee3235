"""The benchmark of the timeline runs, and says what it measured."""

from __future__ import annotations

import pytest

from benchmarks.timeline import Row, line, work
from tests.conftest import DEMO


@pytest.mark.slow
def test_everything_that_the_timeline_asks_is_measured() -> None:
    rows = {row.name: row for row in work(str(DEMO))}
    for name in ("lay out lanes and marks", "tiles of all scales", "search for another name", "another event"):
        assert rows[name].middle <= rows[name].high <= rows[name].greatest
    assert rows["tiles of all scales"].limit == 0.030
    assert rows["until there is something to see"].greatest >= rows["read"].greatest


def test_a_limit_is_kept_or_not() -> None:
    slow = Row("slow", 0.1, 0.2, 0.3, 0.1, limit=0.15)
    assert (slow.kept, Row("free", 0.1, 0.2, 0.3, 0.1).kept) == (False, None)
    assert "NOT KEPT" in line(slow)
