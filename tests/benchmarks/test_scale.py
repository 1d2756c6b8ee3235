"""The scale benchmark measures what it says: the frames it draws are those of a job, and its tasks answer."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from benchmarks import scale, scale_work
from kinetoscope.model.collectives.calls import CALLS
from kinetoscope.model.matching.match import match


def test_drawn_calls_are_those_of_a_job() -> None:
    frame = scale_work.drawn(32, 25)
    assert set(CALLS.names) | {"rank", "host"} == set(frame.columns)
    assert frame.select(CALLS.names).schema == CALLS.empty().schema
    matched = match(frame)
    assert matched.unmatched == 0
    sizes = matched.frame.group_by("match").agg(pl.len(), pl.col("group_size").first())
    assert (sizes["len"] == sizes["group_size"]).all()


def test_tasks_answer(tmp_path: Path) -> None:
    made = scale_work.make(str(tmp_path), "16")
    asked = scale_work.ask(str(tmp_path), "stragglers", "1")
    assert (made["late"], asked["ranks"], asked["rows"]) == (10, 16, 16)
    assert asked["notes"][-1] == "The others wait for rank 10."
    assert scale_work.reduce("16", "10")["rows"] > 0
    assert scale_work.matching("16", "10")["unmatched"] == 0


def test_tasks_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert scale.main(["--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(scale.TASKS)
