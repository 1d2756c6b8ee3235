"""The file of runs: what is read back, and what is said where it cannot be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinetoscope.compare.trials.runs import TimedRun
from kinetoscope.errors import InputError
from kinetoscope.trying.store import FILE, RunStore

RUN = TimedRun(steps=(1, 2), losses=(0.5, None, float("nan")), seconds=1.5, changes={"a": {"count": 1}}, devices=("D",))


def test_what_was_kept_is_read_back(tmp_path: Path) -> None:
    store = RunStore(tmp_path, {"command": ["a"]}, resume=False)
    store.add((["a"], "x", 1), RUN)
    again = RunStore(tmp_path, {"command": ["a"]}, resume=True)
    assert (again.count, again.seconds) == (1, 1.5)
    assert repr(again.get((["a"], "x", 1))) == repr(RUN)  # NaN equals nothing
    assert again.get((["a"], "x", 2)) is None


def test_a_line_that_was_cut_is_one_run_less(tmp_path: Path) -> None:
    store = RunStore(tmp_path, {}, resume=False)
    store.add(("a",), RUN)
    store.add(("b",), RUN)
    path = tmp_path / FILE
    path.write_text(path.read_text()[:-20])
    assert RunStore(tmp_path, {}, resume=True).count == 1


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    store = RunStore(tmp_path, {}, resume=False)
    (tmp_path / FILE).unlink()
    (tmp_path / FILE).symlink_to("/dev/full")
    with pytest.raises(InputError, match="No space left on device; what was measured before is kept"):
        store.add(("a",), RUN)
