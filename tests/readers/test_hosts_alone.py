"""A folder with nothing but what hosts left is a run: who ended, how and where, and that more is unknown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kinetoscope
from kinetoscope.model.health.check import examine
from kinetoscope.outputs.summary import summary
from kinetoscope.pages.hang import page
from kinetoscope.reading import read
from tests.notes import codes

WAITS = """Thread 0x00007f70f0a02b80 (most recent call first):
  File "/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 3000 in all_reduce
  File "/job/train.py", line 88 in step
"""
LOADS = """Thread 0x00007f70f0a02b80 (most recent call first):
  File "/lib/python3.11/site-packages/torch/utils/data/dataloader.py", line 700 in __next__
  File "/job/train.py", line 61 in step
"""


def left(folder: Path, exits: dict[int, int] | None = None, stacks: dict[int, str] | None = None) -> Path:
    """A folder with exits and stacks of ranks."""
    for rank, code in (exits or {}).items():
        (folder / f"exit_rank_{rank}.txt").write_text(json.dumps({"rank": rank, "code": code}))
    for rank, text in (stacks or {}).items():
        (folder / f"stacks_rank_{rank}.txt").write_text(text)
    return folder


def verdicts(folder: Path) -> list[dict[str, Any]]:
    return kinetoscope.hang(read(folder)).frame.to_dicts()


def test_ranks_that_were_aborted_are_named_and_nothing_more_is_said_to_be_known(tmp_path: Path) -> None:
    job = read(left(tmp_path, {0: -6, 1: -6}))
    assert [(each.rank, each.cycle, len(each.files("hang"))) for each in job.sources] == [(0, 0, 1), (1, 0, 1)]
    assert "HOSTS_ALONE" in codes(job.notes)
    [row] = kinetoscope.hang(job).frame.to_dicts()
    facts = (row["cause"], row["certainty"], row["ranks"], row["ended"])
    assert facts == ("rank ended", "guess", "0-1", "killed by signal 6")
    said = page(job, kinetoscope.Selection(), {}).sentence
    assert said == (
        "Ranks 0-1 ended (`killed by signal 6`). What the ranks called last is unknown: none has left a dump of its "
        "collectives. That this is the cause is a guess."
    )
    assert summary(job).sentence == said
    assert codes(examine(job.trace(1))) == ["HOST_FILES"]


def test_who_ended_by_itself_is_the_cause_and_the_others_wait(tmp_path: Path) -> None:
    [row] = verdicts(left(tmp_path, {1: -9, 0: -15}, {0: WAITS, 2: WAITS}))
    facts = (row["cause"], row["certainty"], row["ranks"], row["waiting_ranks"], row["waiting_line"], row["ended"])
    assert facts == ("rank ended", "likely", "1", "0, 2", "train.py:88", "killed by signal 9")


def test_a_host_that_is_elsewhere_is_named(tmp_path: Path) -> None:
    [row] = verdicts(left(tmp_path, stacks={0: WAITS, 1: LOADS, 2: WAITS}))
    facts = (row["cause"], row["certainty"], row["ranks"], row["waiting_ranks"], row["line"])
    assert facts == ("data loading", "likely", "1", "0, 2", "train.py:61")


@pytest.mark.parametrize(("exits", "stacks", "cause"), [({0: 0, 1: 0}, {}, "no hang"), ({}, {0: WAITS}, "unknown")])
def test_what_says_nothing_of_a_cause(
    exits: dict[int, int], stacks: dict[int, str], cause: str, tmp_path: Path
) -> None:
    assert [row["cause"] for row in verdicts(left(tmp_path, exits, stacks))] == [cause]
