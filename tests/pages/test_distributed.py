"""Distributed: how near collectives come to their links."""

from __future__ import annotations

from pathlib import Path

from kinetoscope.model.steps.selection import ALL
from kinetoscope.pages.blocks import ChartBlock, TableBlock
from kinetoscope.pages.distributed import page
from kinetoscope.reading import read
from tests import drawn
from tests.analyses.test_collectives import NCCL, args, job_of
from tests.simulator import Fault, Model, simulate


def chart(folder: Path, **top: object) -> ChartBlock:
    """The chart of bandwidths, of an all-reduce of 400 MB among four ranks in a millisecond, and of a tiny one."""
    ranks = [
        [
            drawn.kernel(NCCL, 0, 1_000_000, 1, device=rank, **args("allreduce", 10**8, 1)),
            drawn.kernel(NCCL, 2_000_000, 1_000_000, 2, device=rank, **args("allreduce", 10, 2)),
        ]
        for rank in range(4)
    ]
    blocks = page(job_of(folder, ranks, **top), ALL, {}).blocks
    [found] = [block for block in blocks if isinstance(block, ChartBlock) and "Bandwidth" in block.title]
    return found


def test_bandwidths_are_held_against_the_peak_of_the_links(tmp_path: Path) -> None:
    devices = [{"id": number, "name": "NVIDIA B200"} for number in range(8)]
    found = chart(tmp_path, deviceProperties=devices)
    assert "The best reaches 66.7% of the 900 GB/s" in found.note.replace("\N{NO-BREAK SPACE}", " ")
    assert "all_reduce, 1 call, 66.7% of its links, 0 default_pg [0-3]" in str(found)


def test_nothing_is_said_of_links_whose_peak_is_unknown(tmp_path: Path) -> None:
    found = chart(tmp_path)
    assert "links" not in found.note.replace(found.note.split(".")[0], "")
    assert "all_reduce, 1 call, 0 default_pg [0-3]" in str(found)


def test_who_is_late_and_since_when(tmp_path: Path) -> None:
    """Each late collective is a dot at its time that leads to its event; the straggler has a colour of its own."""
    simulate(Model(ranks=4, steps=4, fault=Fault("host_gap", 2, 2e6, since=2), seed=3), tmp_path)
    blocks = page(read(tmp_path, jobs=1), ALL, {}).blocks
    [found] = [block for block in blocks if isinstance(block, ChartBlock) and "since when" in block.title]
    dots = sorted(found.spec["data"]["values"], key=lambda dot: dot["y"])[-2:]
    assert {dot["group"] for dot in dots} == {"rank 2"}
    assert ["step 5" in dots[0]["name"] or "step 6" in dots[0]["name"], dots[0]["link"]["view"]] == [True, "timeline"]
    [table] = [block for block in blocks if isinstance(block, TableBlock) and block.title == "Stragglers"]
    assert table.links == {"rank": "rank", "row": "row"}
