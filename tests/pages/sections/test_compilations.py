"""What the page says of torch.compile, on a real recording."""

from __future__ import annotations

from pathlib import Path

import kinetoscope
from kinetoscope.model.steps.selection import ALL
from kinetoscope.pages.blocks import BarsBlock, PartsBlock, TableBlock
from kinetoscope.pages.sections.compilations import compilation_blocks
from tests.drawn import job, op

RECORDED = Path(__file__).parents[2] / "traces" / "recompiled" / "torch-2.15"


def test_breaks_and_compilations_are_named_with_lines_and_lead_to_the_timeline() -> None:
    blocks = list(compilation_blocks(kinetoscope.read(RECORDED), ALL))
    breaks, compilations = (block for block in blocks if isinstance(block, BarsBlock))
    assert [(bar.label, bar.detail) for bar in breaks.bars] == [
        ("recompiled.py:35", "5 calls, Failed to trace builtin operator")
    ]
    link = breaks.bars[0].link
    assert link is not None
    assert link.row is not None
    assert compilations.bars[0].label == "0/0 forward recompiled.py:32"
    again = next(bar for bar in compilations.bars if bar.label.startswith("0/1"))
    assert again.detail == "0/0: tensor 'x' size mismatch at index 0. expected 8, actual 12"
    assert again.link is not None
    assert again.link.view == "timeline"
    (phases,) = (block for block in blocks if isinstance(block, PartsBlock))
    assert sum(part.value for part in phases.parts) == sum(bar.value for bar in compilations.bars)
    tables = [block.analysis for block in blocks if isinstance(block, TableBlock)]
    assert tables == ["graph_breaks", "compilations"]


def test_nothing_is_shown_of_a_program_that_is_not_compiled(tmp_path: Path) -> None:
    assert list(compilation_blocks(job(tmp_path, op("aten::mm", 0, 5)), ALL)) == []
