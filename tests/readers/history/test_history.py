"""Histories of runs: tables of what was written, cut anywhere, damaged anywhere, and while it grows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.errors import BrokenTraceError, InputError, NotFoundError
from kinetoscope.model.history.series import MARKS, STEPS
from kinetoscope.readers.history.files import history_files, read_rows
from kinetoscope.readers.history.history import HistoryFollower, by_rank, read_history
from kinetoscope.record.history import layout
from tests.history import written

MARK: layout.Mark = ("save", None, 3, written.START + 5, written.START + 9)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    rows = written.records(
        25, data=7_000_000.4, samples=32, memory_used=3, resident=np.where(np.arange(25) < 9, layout.UNKNOWN_INTEGER, 2)
    )
    written.write(tmp_path, rows, [MARK, ("collection", "2", 1, written.START + 1, written.START + 2)], rank=3)
    tables = read_history(tmp_path)
    assert tables.steps.schema == STEPS.empty().schema
    assert tables.marks.schema == MARKS.empty().schema
    assert tables.steps["step"].to_list() == list(range(25))
    assert tables.steps.row(9, named=True) == {
        "rank": 3, "attempt": 0, "step": 9, "start": written.START + 990_000_000, "end": written.START + 1_090_000_000,
        "data": 7_000_000, "forward": None, "backward": None, "optimizer": None, "device": None,
        "memory_used": 1536, "memory_reserved": None, "resident": 2048, "samples": 32,
    }  # fmt: skip
    assert tables.steps["resident"].null_count() == 9
    assert tables.marks["kind"].to_list() == ["collection", "save"]
    assert tables.notes == ()


def test_some_ranks_and_steps_and_columns(tmp_path: Path) -> None:
    for rank in range(3):
        written.write(tmp_path, written.records(20), [MARK], rank=rank)
    tables = read_history(tmp_path, ranks=[2, 0], steps=(5, 9), columns=["step", "rank"])
    assert tables.steps.to_dict(as_series=False) == {
        "step": [*range(5, 10)] * 2,
        "rank": [0] * 5 + [2] * 5,
    }
    assert tables.marks.is_empty()
    assert [each.steps["rank"][0] for each in by_rank(tmp_path)] == [0, 1, 2]
    assert read_history(tmp_path, ranks=[9]).steps.is_empty()


def test_each_start_of_a_rank_is_an_attempt(tmp_path: Path) -> None:
    """torchrun counts its restarts; who records into the folder again does not."""
    written.write(tmp_path, written.records(2), attempt=0, began=written.START)
    written.write(tmp_path, written.records(2, first=2), attempt=1, began=written.START + 10)
    written.write(tmp_path, written.records(2, first=4), attempt=0, began=written.START + 20)
    written.write(tmp_path, written.records(2), rank=1, began=written.START + 30)
    steps = read_history(tmp_path).steps
    assert steps["attempt"].to_list() == [0, 0, 1, 1, 2, 2, 0, 0]
    assert steps["step"].to_list() == [0, 1, 2, 3, 4, 5, 0, 1]


def test_cut_at_every_place_it_has_what_was_whole(tmp_path: Path) -> None:
    path = written.write(tmp_path, written.records(4), [MARK], of=2)
    content = path.read_bytes()
    head = layout.HEAD_BYTES + len(layout.block_at(content, 0)[2])  # type: ignore[index]
    block = layout.HEAD_BYTES + 2 * layout.RECORD.size
    for cut in range(len(content) + 1):
        path.write_bytes(content[:cut])
        if cut < head:
            with pytest.raises(NotFoundError):
                history_files(path)
            continue
        rows = read_rows(history_files(path)[0])
        assert len(rows.records) == min((cut - head) // block, 2) * 2
        assert len(rows.marks) == (cut == len(content))
        assert rows.damaged == 0
        assert read_rows(history_files(path)[0], rows.until).records.size == 0


def test_it_is_followed_while_it_grows(tmp_path: Path) -> None:
    path = written.write(tmp_path, written.records(0))
    content = written.blocks(written.records(30)) + layout.text_block(layout.MARKS_BLOCK, [MARK])
    follower = HistoryFollower(str(tmp_path))
    steps, marks = [], []
    for at in range(0, len(content) + 1, 100):
        with path.open("ab") as file:
            file.write(content[at : at + 100])
        new = follower.new()
        steps += new.steps["step"].to_list()
        marks += new.marks["kind"].to_list()
    assert steps == [*range(30)]
    assert marks == ["save"]
    written.write(tmp_path, written.records(3), rank=1)
    assert follower.new().steps["rank"].to_list() == [1] * 3


@given(data=st.data())
def test_damage_costs_the_blocks_that_it_hits(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("run")
    path = written.write(folder, written.records(40), [MARK])
    content = bytearray(path.read_bytes())
    first, last = content.index(layout.MAGIC, 1), content.rindex(layout.MAGIC)
    places = data.draw(
        st.lists(st.tuples(st.integers(0, len(content) - 1), st.integers(1, 255)), min_size=1, max_size=3)
    )
    for at, change in dict(places).items():
        content[at] ^= change
    path.write_bytes(content)
    try:
        tables = read_history(folder)
    except InputError:  # the head
        assert min(at for at, _ in places) < first
        return
    steps = tables.steps["step"].to_list()
    assert steps == sorted(set(steps))
    assert set(steps) <= set(range(40))
    assert len(steps) >= 40 - 10 * len(places)
    assert tables.notes or max(at for at, _ in places) >= last  # the end may come


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": "kinetoscope.history/9"}, "its format is 'kinetoscope.history/9'"),
        ({"fields": []}, "other fields"),
        ({"fields": [["start", "q", 1], ["start", "q", 1], ["duration", "f", 1], ["step", "I", 1]]}, "other fields"),
        ({"fields": [["start", "O", 1], ["duration", "f", 1], ["step", "I", 1]]}, "'O'"),
        ({"fields": 7}, "not iterable"),
        ({"rank": -1}, "-1 is no number"),
        ({"attempt": 1e300}, "1e+300 is no number"),
        ({"began": "x\ny"}, "is no number"),
    ],
)
def test_another_head_is_refused_in_a_line(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    path = tmp_path / "a.history"
    path.write_bytes(layout.text_block(layout.HEAD_BLOCK, {**written.head(), **change}))
    with pytest.raises(BrokenTraceError) as caught:
        read_history(path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_no_history_is_refused(tmp_path: Path) -> None:
    for content in (b"{}", b"\0" * 100, layout.text_block(layout.MARKS_BLOCK, [MARK])):
        (tmp_path / "a.history").write_bytes(content)
        with pytest.raises(BrokenTraceError):
            read_history(tmp_path)
    (tmp_path / "a.history").unlink()
    with pytest.raises(NotFoundError, match="record --history"):
        read_history(tmp_path)
    with pytest.raises(NotFoundError):
        read_history(tmp_path / "b")


def test_numbers_that_make_no_sense_are_read_or_left_out(tmp_path: Path) -> None:
    rows = written.records(6, data=np.inf, forward=-1e30, duration=[np.nan, np.inf, -5, 3e38, 1, 0])
    rows["start"][0] = -(1 << 63)
    path = written.write(tmp_path, rows)
    marks: list[Any] = [
        ["save", None, 1, 2, 1 << 80], ["other", None, 1, 2, 3], ["save", 5, 1, 2, 3], "save", [1] * 5, None,
        ["save", "x" * 9000, 0, 2, 3],
    ]  # fmt: skip
    junk: list[Any] = [marks, {}, 3, [[]]]
    for value in junk:
        with path.open("ab") as file:
            file.write(layout.block(layout.MARKS_BLOCK, 1, json.dumps(value).encode()))
    with path.open("ab") as file:
        file.write(layout.block(layout.MARKS_BLOCK, 1, b"[" * 100_000))
    tables = read_history(tmp_path)
    assert tables.steps["step"].to_list() == [1, 2, 3, 4, 5]
    assert (tables.steps["end"] >= tables.steps["start"]).all()
    assert tables.marks.select("kind", pl.col("detail").str.len_chars()).rows() == [("save", 4096)]
