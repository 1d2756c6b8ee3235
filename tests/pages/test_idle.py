"""Idle & launches: whose queues are drawn."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinetoscope.model.steps.selection import ALL
from kinetoscope.pages.blocks import ChartBlock
from kinetoscope.pages.idle import page
from kinetoscope.reading import read
from tests.simulator import Fault, Model, simulate


@pytest.mark.parametrize("ranks", [2, 8])
def test_of_many_ranks_those_are_drawn_whose_host_is_late(tmp_path: Path, ranks: int) -> None:
    late = ranks - 1
    simulate(Model(ranks=ranks, steps=3, fault=Fault("host_gap", late, 2e6), seed=3), tmp_path)
    made = page(read(tmp_path, jobs=1), ALL, {})
    assert made.sentence.startswith("The devices run nothing for ")
    blocks = made.blocks
    [found] = [block for block in blocks if isinstance(block, ChartBlock) and "queue" in block.title]
    drawn = {row["line"] for row in found.spec["data"]["values"]} if "data" in found.spec else set()
    assert any(f"rank {late}" in str(label) for label in drawn), found.spec.keys()
    if ranks == 8:
        assert "Of 6 of 8 ranks the busiest stream is drawn: those whose queue is empty longest." in found.note
    else:
        assert found.note.endswith("Of each rank its busiest stream is drawn.")
