"""The part of *Kernels* about compiled code: sums, choices, and silence where nothing is compiled."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kinetoscope import read
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import ALL
from kinetoscope.pages import named
from kinetoscope.pages.blocks import BarsBlock, Block, TableBlock
from tests import drawn
from tests.analyses.test_compiled_kernels import CALLED, GRAPH, called, job

RECORDED = Path(__file__).parents[1] / "traces" / "compiled"


def blocks(of: Job, **params: str) -> tuple[list[BarsBlock], list[TableBlock]]:
    """Bars and tables about compiled code."""
    page: Sequence[Block] = named("kernels").page(of, ALL, params).blocks
    bars = [each for each in page if isinstance(each, BarsBlock) and each.title == "Compiled code"]
    return bars, [each for each in page if isinstance(each, TableBlock) and each.analysis == "compiled_kernels"]


def test_bars_sum_to_the_computation_and_choose_the_rows_of_the_table(tmp_path: Path) -> None:
    events = [*called(0, *CALLED), drawn.op("aten::add", 2000, 50)]
    events += [drawn.launch(2010, 10, 21), drawn.kernel("vectorized_add", 2040, 100, 21)]
    traced = job(tmp_path, events, *GRAPH)
    [bars], [table] = blocks(traced)
    assert [(bar.label, bar.value) for bar in bars.bars] == [
        ("Fused kernels", 70),
        ("Operators called by compiled code", 30),
        ("Eager", 100),
    ]
    assert (table.params, table.filter) == ({"group_by": "source"}, "")
    assert {"source", "operators", "basis"} <= set(table.columns)
    link = bars.bars[2].link
    assert link is not None
    [chosen], [table] = blocks(traced, **link.params, compiled_by="place")
    assert [bar.chosen for bar in chosen.bars] == [False, False, True]
    assert (table.params, table.filter) == ({"group_by": "place"}, "origin:eq:eager")


def test_without_a_device_there_is_what_the_host_computed() -> None:
    [bars], [table] = blocks(read(RECORDED))
    assert bars.bars[0].label == "Fused kernels"
    assert "source" in table.columns


def test_a_program_without_compiled_code_has_none_of_it(tmp_path: Path) -> None:
    assert blocks(drawn.job(tmp_path, drawn.op("aten::mm", 0, 10))) == ([], [])
