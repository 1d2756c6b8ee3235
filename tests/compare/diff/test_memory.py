"""The difference of the memory of two runs: rows that sum to it, matched though lines and folders moved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kinetoscope import Job, memory_diff, read
from kinetoscope.cli import main
from kinetoscope.errors import InputError
from kinetoscope.model.steps.selection import ALL
from kinetoscope.pages.blocks import ChartBlock, RowsBlock
from kinetoscope.pages.compare import page
from tests.drawn import job, op
from tests.snapshots.process import Process
from tests.snapshots.stacks import python
from tests.snapshots.training import Model, Training
from tests.snapshots.writing import write

MIB = 1 << 20
TINY = Model(layers=1, width=64, batch=1, tokens=32, vocabulary=100)


def snapshot(path: Path, plant: Callable[[Process], object], device: int = 0) -> Path:
    """A snapshot of a small training with something planted at its end."""
    process = Process(stacks="python", devices=device + 1)
    process.record()
    training = Training(process, TINY, metadata=True, device=device)
    training.build()
    training.run(2)
    plant(process)
    write(path, process.snapshot())
    return path


def keeping(size: int, *, folder: str = "/home/me", line: int = 7, device: int = 0) -> Callable[[Process], None]:
    def plant(process: Process) -> None:
        with process.at(python("log", f"{folder}/log.py", line)):
            process.alloc("clone", size, device=device)

    return plant


def both(folder: Path, base: Callable[[Process], object], new: Callable[[Process], object]) -> tuple[Job, Job]:
    paths = [snapshot(folder / name, plant) for name, plant in (("a.pickle", base), ("b.pickle", new))]
    return read(paths[0], jobs=1), read(paths[1], jobs=1)


def test_rows_sum_to_the_change_and_name_what_is_new(tmp_path: Path) -> None:
    base, new = both(tmp_path, lambda process: None, keeping(64 * MIB))
    result = memory_diff(base, new)
    changed = result.frame.filter(result.frame["change"] != 0)
    assert changed.select("status", "line", "change", "new_blocks").row(0) == ("new", "log.py:7", 64 * MIB, 1)
    ends = memory_diff(base, new, at="end").frame
    assert ends.filter(ends["change"] != 0)["change"].to_list() == [64 * MIB]
    assert (ends["base"] + ends["change"]).to_list() == ends["new"].to_list()
    assert "(most at log.py:7)" in result.sentence
    assert "64.0" not in result.sentence  # decimal units
    assert "67.1" in memory_diff(base, new, at="end").sentence


def test_moved_lines_and_folders_are_the_same_place(tmp_path: Path) -> None:
    base, new = both(tmp_path, keeping(8 * MIB), keeping(24 * MIB, folder="/srv/run_2", line=9))
    frame = memory_diff(base, new, at="end").frame
    [row] = frame.filter(frame["change"] != 0).to_dicts()
    facts = {"status": "more", "line": "log.py:9", "was_line": "log.py:7", "base": 8 * MIB, "new": 24 * MIB}
    assert {name: row[name] for name in facts} == facts


def test_ranks_and_devices_are_compared_where_they_hold_most(tmp_path: Path) -> None:
    base = read(snapshot(tmp_path / "rank0.pickle", lambda process: None), jobs=1)
    new = read(snapshot(tmp_path / "rank1.pickle", keeping(MIB, device=1), device=1), jobs=1)
    result = memory_diff(base, new, at="end")
    assert result.notes[0].startswith("Compared are cuda:0 (rank 0) of")
    assert "cuda:1 (rank 1) of" in result.notes[0]
    assert result.frame["change"].sum() == MIB


def test_a_run_without_memory_is_refused(tmp_path: Path) -> None:
    base = read(snapshot(tmp_path / "a.pickle", lambda process: None), jobs=1)
    (tmp_path / "other").mkdir()
    with pytest.raises(InputError, match="has no memory in use to compare"):
        memory_diff(base, job(tmp_path / "other", op("aten::mm", 0, 9)))


def test_command_and_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, new = both(tmp_path, lambda process: None, keeping(64 * MIB))
    assert main(["diff", base.path, new.path, "--at", "end", "--format", "csv"]) == 0
    text = capsys.readouterr().out
    facts = ["log.py:7", "log.py:7", "new", "0", str(64 * MIB), str(64 * MIB)]
    assert text.splitlines()[1].split(",")[1:7] == facts
    shown = page(new, ALL, {}, base=base)
    assert shown.sentence.startswith("The peak is 66.9\u00a0MB higher")
    assert [type(block) for block in shown.blocks] == [ChartBlock, RowsBlock]


def test_rows_that_look_alike_are_one_on_the_page(tmp_path: Path) -> None:
    def keeping_twice(size: int) -> Callable[[Process], None]:
        def plant(process: Process) -> None:
            for caller in (3, 4, 5):
                with process.at(python("block", "model.py", caller), python("norm", "model.py", 102)):
                    process.alloc("clone", size)
            for line in (200, 201):
                with process.at(python("small", "model.py", line)):
                    process.alloc("clone", 512 if size > MIB else 1024)

        return plant

    base, new = both(tmp_path, keeping_twice(MIB), keeping_twice(64 * MIB))
    block = next(each for each in page(new, ALL, {}, base=base).blocks if isinstance(each, RowsBlock))
    names = [head.name for head in block.columns]
    rows = [dict(zip(names, row, strict=True)) for row in block.rows]
    assert [row["where"] for row in rows if row["where"] == "model.py:102"] == ["model.py:102"]
    assert rows[0]["stacks"] == 3
    assert rows[0]["change"] == 3 * 63 * MIB
    assert "name" not in names
    assert sum(row["change"] for row in rows) == memory_diff(base, new).frame["change"].sum()
    assert len({(row["use"], row["where"], row["was_line"]) for row in rows}) == len(rows)
    least = 0.001 * block.scales["change"][1]
    assert len([row for row in rows if abs(row["change"]) < least]) <= 1
